#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# kmmu send, against git am, b4, git send-email and a mail server on loopback.  The
# toy kernel has the real kernel's scripts; cr0-wp-v3 is sent from a shared clone of
# kernel/, which must be filled.  No kernel is built and no guest run.

# shellcheck disable=SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0
load stack

# The toy kernel with what the real one's scripts want to find.
eval "$(declare -f toy_kernel | sed '1s/toy_kernel/bare_toy_kernel/')"
toy_kernel() {
	local dir
	bare_toy_kernel "$1"
	git -C "$root/kernel" archive refs/kmmu/base COPYING CREDITS MAINTAINERS README \
		scripts/{get_maintainer,checkpatch}.pl scripts/{spelling.txt,const_structs.checkpatch} | tar -x -C "$1"
	for dir in include drivers fs init ipc kernel lib; do
		mkdir -p "$1/$dir"
		: >"$1/$dir/empty"
	done
}

setup_file() {
	isolate
	git config --file "$GIT_CONFIG_GLOBAL" user.name 'Änne Author'
	make_toy
	cat >"$co/patches/toy/alpha/cover-letter.md" <<-'END'
	# KVM: x86: Begin and go on

	## Motivation

	Something must *begin*, as `kvm_begin()` does.

	| case | before |
	|---|---|
	| one | 1 |

	## Tests

	- None is needed.

	## Versions

	- v1: this.
	END
	sed 's/Begin and go on/Replace and end/' "$co/patches/toy/alpha/cover-letter.md" >"$co/patches/toy/beta/cover-letter.md"
	# A person who only has a say, and no author whose sign-off would be missing.
	sed -i -e 's/^From: .*zoe.*/From: kmmu <kmmu@localhost>/' \
		-e '0,/^---$/s//\nSuggested-by: Zoë Ünal <zoe@example.org>\n---/' "$co/patches/toy/alpha/x86-go-on.patch"
	# What is cheap, and what the toy can have.
	rm -r "$co"/ci/checks/{arm64,i386,ppc64le,s390x,selftests,sparse,w1,x86-m,x86-y,header}
}

# gate NAME: the line about it.
gate() {
	grep -E "^(ok|FAIL|waived) +$1 " <<<"$stderr"
}

# header MAIL NAME: the value of a header, decoded.
header() {
	python3 -c 'import email, email.policy, sys
print(email.message_from_binary_file(open(sys.argv[1], "rb"), policy=email.policy.default)[sys.argv[2]])' "$1" "$2"
}

# reroll: change the last patch of alpha, as a maintainer would.
reroll() {
	"$co/tools/kmmu" apply >/dev/null 2>&1
	local t=$co/build/toy/tree
	git -C "$t" checkout -q --detach HEAD~2
	sed -i 's/second;/zweite;/' "$t/arch/x86/kvm/a.c"
	git -C "$t" commit -qa --amend --no-edit
	git -C "$t" cherry-pick kmmu/toy~1 kmmu/toy >/dev/null
	git -C "$t" checkout -q -B kmmu/toy
	"$co/tools/kmmu" refresh
	[[ ! ${1-} ]] || sed -i "s/^- v1: this/- $1: that.\n&/" "$co/patches/toy/alpha/cover-letter.md"
}

# a mail server on loopback; leaves $port and the mails it gets in $box/new.
serve() {
	box=$BATS_TEST_TMPDIR/box
	mkdir -p "$box"/{new,cur,tmp}
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	aiosmtpd -n -c aiosmtpd.handlers.Mailbox "$box" -l "127.0.0.1:$port" 3>&- &
	server=$!
	timeout 20 sh -c "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", $port))' 2>/dev/null; do sleep 0.2; done"
	server_options=(--smtp-server=127.0.0.1 --smtp-server-port="$port")
}

teardown() {
	[[ -z ${server-} ]] || kill "$server"
}

# ------------------------------------------------------------------ usage

@test "send: refused without a sign-off, a person, a topic" {
	toy
	refused send alpha
	[[ $stderr == *"not signed off; --signoff adds 'Signed-off-by: Änne Author <ann@example.org>'" ]]
	refused send
	refused send nonsense --signoff
	refused send alpha beta --signoff
	refused send alpha --signoff --to-version 0
	refused send alpha --signoff --waive nonsense
	rm "$co/patches/toy/beta/cover-letter.md"
	refused send beta --signoff
	git config --file "$GIT_CONFIG_GLOBAL" user.email kmmu@localhost
	refused send alpha --signoff
	[[ $stderr == *"is no address that can be answered"* ]]
	GIT_CONFIG_GLOBAL=/dev/null refused send alpha --signoff
	[[ $stderr == *"git config --global user.name"* ]]
	git config --file "$GIT_CONFIG_GLOBAL" user.email ann@example.org
	[[ ! -e $co/build/toy/send ]]
}

@test "send: a dry run is all that happens without being told" {
	toy
	mkdir "$BATS_TEST_TMPDIR/trap"
	printf '#!/bin/sh\necho "$@" >%s\n' "$BATS_TEST_TMPDIR/sent" >"$BATS_TEST_TMPDIR/trap/sendmail"
	chmod +x "$BATS_TEST_TMPDIR/trap/sendmail"
	find "$co/patches" "$co/series.toy" "$co/ci" "$co/tools" -type f -print0 | sort -z | xargs -0 sha256sum >"$BATS_TEST_TMPDIR/before"
	PATH=$BATS_TEST_TMPDIR/trap:$PATH kmmu 1 send alpha --signoff
	[[ ! -e $BATS_TEST_TMPDIR/sent && $output == "$co/build/toy/send/alpha/v1" ]]
	find "$co/patches" "$co/series.toy" "$co/ci" "$co/tools" -type f -print0 | sort -z | xargs -0 sha256sum |
		diff "$BATS_TEST_TMPDIR/before" -
	run -0 git -C "$co/kernel-toy" for-each-ref --format='%(refname)'
	[[ $output == *refs/kmmu/send/toy/alpha/v1/tip* && $output != *refs/heads/series* ]]
	# Nothing goes out while a gate does not pass.
	kmmu 1 send alpha --signoff --smtp -y -- --smtp-server="$BATS_TEST_TMPDIR/trap/sendmail"
	[[ ! -e $BATS_TEST_TMPDIR/sent && ${stderr_lines[-1]} == *"not sent: a gate did not pass" ]]
}

# ------------------------------------------------------------------ the series

@test "send: cover letter, prerequisites, authors and sign-offs" {
	toy
	kmmu 1 send beta --signoff --to-version v2
	cd "$co/build/toy/send/beta/v2"
	[[ $(echo *.patch) == v2-0000-cover-letter.patch\ v2-0001-*\ v2-0002-* ]]
	[[ $(header v2-0000* Subject) == '[PATCH v2 0/2] KVM: x86: Replace and end' ]]
	[[ $(header v2-0002* Subject) == '[PATCH v2 2/2] KVM: x86/mmu: End' ]]
	[[ $(header v2-0000* From) == 'Änne Author <ann@example.org>' ]]
	run ! env LC_ALL=C grep -a '^From: .*[^ -~]' ./*.patch
	grep -qx "base-commit: $base" v2-0000*
	for patch in x86-begin x86-go-on; do
		grep -qx "prerequisite-patch-id: $(git patch-id --stable <"$co/patches/toy/alpha/$patch.patch" | cut -d' ' -f1)" v2-0000*
	done
	grep -qx 'Something must begin, as kvm_begin() does.' v2-0000*
	grep -qx '  case  before' v2-0000*
	grep -q ' arch/x86/kvm/b.c .*| *40 -' v2-0000*
	grep -q '^Änne Author (2):' v2-0000*
	for mail in v2-000[12]*; do
		[[ $(grep -c '^Signed-off-by: Änne Author <ann@example.org>$' "$mail") == 1 ]]
	done
	# Another person stays the author of what is hers, and must sign it off.
	sed -i 's/^From: .*/From: =?UTF-8?q?Zo=C3=AB=20=C3=9Cnal?= <zoe@example.org>/; /^Suggested-by/d' "$co/patches/toy/alpha/x86-go-on.patch"
	kmmu 1 send alpha --signoff
	[[ $(header "$co"/build/toy/send/alpha/v1/0002* From) == 'Änne Author <ann@example.org>' ]]
	[[ $(gate checkpatch) == FAIL*NO_AUTHOR_SIGN_OFF* ]]
	grep -qx 'From: Zoë Ünal <zoe@example.org>' "$co"/build/toy/send/alpha/v1/0002*
	grep -q 'zoe@example.org' <<<"$stderr"
}

@test "send: the next version keeps the last one and shows what changed" {
	toy
	kmmu 1 send alpha --signoff
	cp -r "$co/build/toy/send/alpha/v1" "$BATS_TEST_TMPDIR/v1"
	refused send alpha --signoff --to-version v2
	[[ $stderr == *"nothing has changed since v1" ]]
	reroll
	kmmu 1 send alpha --signoff --to-version v2
	[[ $(gate versions) == FAIL* ]]
	sed -i 's/^- v1: this/- v2: another name.\n&/' "$co/patches/toy/alpha/cover-letter.md"
	kmmu 1 send alpha --signoff
	[[ $output == *alpha/v2 && $(gate versions) == ok* ]]
	diff -r "$BATS_TEST_TMPDIR/v1" "$co/build/toy/send/alpha/v1"
	cd "$co/build/toy/send/alpha/v2"
	grep -qx 'Range-diff against v1:' v2-0000*
	grep -qE '^    -\+int second;$' v2-0000*
	grep -qE '^    \+\+int zweite;$' v2-0000*
	run ! grep -q 'Range-diff' v2-0001* v2-0002*
	refused send alpha --signoff --to-version v1
	[[ $stderr == *"there is a v2 of alpha already; --to-version v3 is the next" ]]
}

# -------------------------------------------------------------------- the gates

@test "send: gates are about these very patches" {
	toy
	kmmu 1 send alpha --signoff
	[[ $(gate check) == FAIL* && $(gate checkpatch) == ok* && $(gate bench) == ok* && $(gate tests) == ok* ]]
	"$co/tools/kmmu" check x86-begin x86-go-on
	kmmu 0 send alpha --signoff
	[[ $(gate check) == "ok "*"2 patches, "*" passed, 0 failed" ]]
	# A patch that changes, and one on another parent, were not checked.
	reroll v2
	kmmu 1 send alpha --signoff --to-version v2
	[[ $(gate check) == FAIL* && $stderr != *"nothing has changed"* ]]
	"$co/tools/kmmu" check x86-go-on
	kmmu 0 send alpha --signoff
	kmmu 1 send beta --signoff
	[[ $(gate checkpatch) == FAIL*SPDX* ]]
	kmmu 0 send beta --signoff --waive checkpatch --waive check
	[[ $(gate checkpatch) == waived* ]]
}

@test "send: a claim of speed needs the bench of these patches" {
	toy
	printf '\nThis is 5 %% faster.\n' >>"$co/patches/toy/alpha/cover-letter.md"
	kmmu 1 send alpha --signoff
	[[ $(gate bench) == FAIL*'no ci/bench/alpha for the claim "This is 5 % faster."' ]]
	cp "$co/ci/bench/cr0-wp-v3" "$co/ci/bench/alpha"
	kmmu 1 send alpha --signoff
	[[ $(gate bench) == FAIL*'not measured with these patches'* ]]
	mkdir -p "$co/build/toy/bench/alpha"
	echo '[]' >"$co/build/toy/bench/alpha/bench.json"
	library stack_commit tip >"$co/build/toy/bench/alpha/commit"
	kmmu 1 send alpha --signoff
	[[ $(gate bench) == ok* ]]
	# Measured, but without the last patch.
	library stack_commit x86-begin >"$co/build/toy/bench/alpha/commit"
	kmmu 1 send alpha --signoff
	[[ $(gate bench) == FAIL* ]]
}

@test "send: tests and versions must be told" {
	toy
	sed -i '/^## Tests/,$d' "$co/patches/toy/alpha/cover-letter.md"
	kmmu 1 send alpha --signoff --to-version v2
	[[ $(gate tests) == FAIL*'no "Tests" in the cover letter' && $(gate versions) == FAIL* ]]
}

# ---------------------------------------------------------------------- sending

@test "send: --smtp: what the server gets" {
	toy
	serve
	kmmu 0 send alpha --signoff --waive check --smtp -y -- "${server_options[@]}"
	run -0 python3 - "$box/new" "$co/build/toy/send/alpha/v1" <<-'END'
	import email, email.policy, email.utils, glob, os, sys
	def read(path):
	    with open(path, "rb") as f:
	        return email.message_from_binary_file(f, policy=email.policy.default)
	got = {m["Message-ID"].strip(): m for m in map(read, glob.glob(sys.argv[1] + "/*"))}
	want = [read(p) for p in sorted(glob.glob(sys.argv[2] + "/*.patch"))]
	assert len(got) == len(want) == 3, (len(got), len(want))
	root = want[0]["Message-ID"].strip()
	for n, w in enumerate(want):
	    m = got[w["Message-ID"].strip()]
	    assert str(m["Subject"]) == str(w["Subject"]) and f"[PATCH {n}/2]" in m["Subject"], m["Subject"]
	    assert str(m["From"]) == "Änne Author <ann@example.org>", m["From"]
	    assert m.get_content_charset() == "utf-8"
	    assert m.get_content() == w.get_content()
	    if n:
	        assert m["In-Reply-To"].strip() == m["References"].strip() == root
	        assert "Signed-off-by: Änne Author <ann@example.org>\n" in m.get_content()
	    else:
	        assert m["In-Reply-To"] is None
	    addresses = lambda names: sorted(a for _, a in email.utils.getaddresses(map(str, names)))
	    listed = addresses([m["To"], m["Cc"]])
	    assert addresses([m["To"]]) == addresses([w["To"]]) and "pbonzini@redhat.com" in addresses([m["To"]])
	    assert "kvm@vger.kernel.org" in addresses([m["Cc"]]) and "zoe@example.org" in listed
	    assert addresses(m["X-RcptTo"].split(",")) == listed, (m["X-RcptTo"], listed)
	    assert m["X-MailFrom"] == "ann@example.org"
	END
	# Once is enough, and what was sent stays what it is.
	kmmu 0 send alpha --signoff --waive check --smtp -y -- "${server_options[@]}"
	[[ $stderr == *"v1 was sent already"* && $(find "$box/new" -type f | wc -l) == 3 ]]
	reroll v2
	kmmu 2 send alpha --signoff
	[[ ${stderr_lines[-1]} == *"v1 was sent with other patches; --to-version v2 is the next" ]]
	kmmu 0 send alpha --signoff --waive check --to-version v2 --smtp -y -- "${server_options[@]}"
	[[ $(find "$box/new" -type f | wc -l) == 6 ]]
}

@test "send: --smtp: cut short, the same command sends the rest" {
	toy
	cat >"$BATS_TEST_TMPDIR/sendmail" <<-END
	#!/bin/sh
	[ "\$(ls $BATS_TEST_TMPDIR/out | wc -l)" != 2 ] || [ -e $BATS_TEST_TMPDIR/well ] || exit 1
	cat >"\$(mktemp $BATS_TEST_TMPDIR/out/XXXXXX)"
	END
	chmod +x "$BATS_TEST_TMPDIR/sendmail"
	mkdir "$BATS_TEST_TMPDIR/out"
	kmmu 1 send alpha --signoff --waive check --smtp -y -- --smtp-server="$BATS_TEST_TMPDIR/sendmail"
	[[ ${stderr_lines[-1]} == *"1 of 3 mails were not sent; see "* ]]
	: >"$BATS_TEST_TMPDIR/well"
	kmmu 0 send alpha --signoff --waive check --smtp -y -- --smtp-server="$BATS_TEST_TMPDIR/sendmail"
	[[ $(cat "$BATS_TEST_TMPDIR"/out/* | grep -i '^message-id:' | sort -u | wc -l) == 3 ]]
	[[ $(find "$BATS_TEST_TMPDIR/out" -type f | wc -l) == 3 ]]
}

@test "send: --smtp is asked for, --self reaches nobody else" {
	toy
	serve
	kmmu 2 send alpha --signoff --waive check --smtp -- "${server_options[@]}"
	[[ ${stderr_lines[-1]} == *"not sent; -y sends without asking" && -z $(ls "$box/new") ]]
	git config --file "$GIT_CONFIG_GLOBAL" sendemail.cc eve@example.org
	git config --file "$GIT_CONFIG_GLOBAL" sendemail.bcc eve@example.org
	kmmu 1 send alpha --signoff --self -- "${server_options[@]}"
	git config --file "$GIT_CONFIG_GLOBAL" --remove-section sendemail
	[[ $(grep -h '^X-RcptTo:' "$box"/new/* | sort | uniq -c) =~ ^\ *3\ X-RcptTo:\ ann@example.org$ ]]
	grep -q '^X-To: .*pbonzini' "$box"/new/*
	# That was not the sending of a version.
	reroll
	kmmu 1 send alpha --signoff
}

# --------------------------------------------------------------------- for real

@test "send: cr0-wp-v3: git am, b4 am and b4 shazam take the mbox" {
	real
	kmmu 0 send cr0-wp-v3 --signoff --waive check --waive bench --waive checkpatch
	dir=$output
	[[ $(gate tests) == ok* && $stderr == *"To: Paolo Bonzini <pbonzini@redhat.com>"*"Cc: kvm@vger.kernel.org"* ]]
	want=$(library stack_commit selftests-add-a-test-for-toggles-of-cr0-wp)
	n=$(grep -c '/cr0-wp-v3/' "$co/series")
	[[ $(header "$dir"/v3-0001* Subject) == "[PATCH v3 01/$n] KVM: "* ]]
	parent=$(git -C "$co/kernel" rev-parse refs/kmmu/send/linux-5.10/cr0-wp-v3/v3/base)
	user=$BATS_TEST_TMPDIR/user
	git clone -q --shared --no-checkout "$co/kernel" "$user"
	cd "$user"
	git fetch -q origin "$parent"
	git sparse-checkout set --no-cone --stdin < <(git -C "$co/kernel" diff --name-only "$parent" "$want" | sed 's,^,/,')
	git checkout -q --detach "$parent"
	git am -q "$dir/patches.mbox" 3>&-
	[[ $(git rev-parse 'HEAD^{tree}') == "$(git -C "$co/kernel" rev-parse "$want^{tree}")" ]]
	[[ $(git log -1 --format='%an %b') == 'Änne Author'*'Signed-off-by: Änne Author <ann@example.org>'* ]]
	git checkout -q --detach "$parent"
	export HOME=$BATS_TEST_TMPDIR
	mkdir "$BATS_TEST_TMPDIR/b4"
	b4 --offline-mode am -m "$dir/series.mbox" -o "$BATS_TEST_TMPDIR/b4" 3>&-
	git am -q "$BATS_TEST_TMPDIR"/b4/*.mbx
	[[ $(git rev-parse 'HEAD^{tree}') == "$(git -C "$co/kernel" rev-parse "$want^{tree}")" ]]
	git checkout -q --detach "$parent"
	b4 --offline-mode shazam -m "$dir/series.mbox"
	[[ $(git rev-parse 'HEAD^{tree}') == "$(git -C "$co/kernel" rev-parse "$want^{tree}")" ]]
	[[ $(git rev-list --count "$parent..HEAD") == "$n" ]]
}
