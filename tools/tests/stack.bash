# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What stack.bats works on.  Nothing outside bats' temporary directories is
# written; the kernel's repository is only read (git clone --shared).
#
#   co    a copy of this checkout's tools/ and ci/, with a stack "toy" on a toy
#         kernel in kernel-toy/, and with the real series and patches/
#   tree  the toy's build/toy/tree
#   base  the toy's base commit

root=$(readlink -f "$BATS_TEST_DIRNAME/../..")

# isolate: the same environment on every machine, and no way to the network.
isolate() {
	unset KMMU_STACK KMMU_BUILD
	export GIT_CONFIG_GLOBAL=$BATS_FILE_TMPDIR/gitconfig GIT_CONFIG_NOSYSTEM=1
	git config --file "$GIT_CONFIG_GLOBAL" user.name 'Ann Author'
	git config --file "$GIT_CONFIG_GLOBAL" user.email ann@example.org
	git config --file "$GIT_CONFIG_GLOBAL" init.defaultBranch main
	git config --file "$GIT_CONFIG_GLOBAL" advice.detachedHead false
	mkdir -p "$BATS_FILE_TMPDIR/bin"
	printf '#!/bin/sh\necho "no network in tests" >&2\nexit 1\n' >"$BATS_FILE_TMPDIR/bin/apt-get"
	chmod +x "$BATS_FILE_TMPDIR/bin/apt-get"
	PATH=$BATS_FILE_TMPDIR/bin:$PATH
}

# lines FROM TO: lines of C that are all different.
lines() {
	seq -f 'int planted_%g;' "$1" "$2"
}

# toy_kernel DIR: the sources of a kernel; .gitignore is like Debian's.
toy_kernel() {
	mkdir -p "$1"/arch/x86/kvm "$1"/Documentation/virt "$1"/scripts
	printf 'kernelversion:\n\t@echo 5.10.0\n' >"$1/Makefile"
	echo '# Kbuild' >"$1/Kbuild"
	printf '.*\n*.o\n/*\n' >"$1/.gitignore"
	echo '*.c diff=cpp' >"$1/.gitattributes"
	lines 1 40 | sed '26s/.*/label:/' >"$1/arch/x86/kvm/a.c"
	lines 41 80 >"$1/arch/x86/kvm/b.c"
	echo 'Text.' >"$1/Documentation/virt/kvm.rst"
	printf '#!/bin/sh\n' >"$1/scripts/run.sh"
	chmod +x "$1/scripts/run.sh"
}

# toy_commit TREE SUBJECT: commit everything there, sign-off included.
toy_commit() {
	git -C "$1" add -A -f
	git -C "$1" commit -q -s -m "$2" -m "Say why: $2" "${@:3}"
}

# make_toy: the checkout that every test gets a copy of.  The stack has two topics,
# new and removed files, and later patches to the same file.
make_toy() {
	co=$BATS_FILE_TMPDIR/co
	mkdir -p "$co/patches"
	cp -r "$root"/{tools,ci,series,patches} "$co/"
	printf 'repository=kernel-toy\nseries=series.toy\npackage=linux-source-toy\nversion=1\nbase=0\narchive=toy\nsuite=toy\nprofiles=amd\n' \
		>"$co/ci/stacks/toy"
	printf '# The toy stack.\n\n' >"$co/series.toy"
	toy_kernel "$BATS_FILE_TMPDIR/linux-toy"
	tar -C "$BATS_FILE_TMPDIR" -cf "$BATS_FILE_TMPDIR/linux-toy.tar" linux-toy
	export KMMU_STACK=toy
	"$co/tools/kmmu" setup --sources-only --tarball "$BATS_FILE_TMPDIR/linux-toy.tar"
	"$co/tools/kmmu" apply

	local kvm=$co/build/toy/tree/arch/x86/kvm
	sed -i '3s/$/\nint first;\nint more;/' "$kvm/a.c"
	toy_commit "$co/build/toy/tree" 'KVM: x86: Begin'
	sed -i 's/planted_30;/second;/' "$kvm/a.c"
	toy_commit "$co/build/toy/tree" 'KVM: x86: Go on' --author 'Zoë Ünal <zoe@example.org>'
	"$co/tools/kmmu" refresh --topic alpha
	lines 1 5 >"$kvm/c.c"
	git -C "$kvm" rm -q b.c
	sed -i 's/$/ More./' "$kvm/../../../Documentation/virt/kvm.rst"
	toy_commit "$co/build/toy/tree" 'KVM: x86/mmu: Replace b.c'
	sed -i 's/planted_3;/third;/' "$kvm/c.c"
	printf '#!/bin/sh\n' >"$kvm/../../../scripts/new.sh"
	chmod +x "$kvm/../../../scripts/new.sh"
	toy_commit "$co/build/toy/tree" 'KVM: x86/mmu: End'
	"$co/tools/kmmu" refresh --topic beta
	rm -rf "$co/build"
	git -C "$co/kernel-toy" worktree prune
	git -C "$co/kernel-toy" update-ref -d refs/heads/kmmu/toy
}

# forget: have the patches committed anew.
forget() {
	git -C "$co/kernel-toy" for-each-ref --format='delete %(refname)' refs/kmmu/at |
		git -C "$co/kernel-toy" update-ref --stdin
}

# toy: a fresh copy of it.
toy() {
	cp -r "$BATS_FILE_TMPDIR/co" "$BATS_TEST_TMPDIR/"
	co=$BATS_TEST_TMPDIR/co
	tree=$co/build/toy/tree
	base=$(git -C "$co/kernel-toy" rev-parse refs/kmmu/base)
	export KMMU_STACK=toy TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
}

# user_tree [GIT-CLONE-OPTION...]: user, a checkout of the toy's base, with an
# untracked file and an ignored one.
user_tree() {
	user=$BATS_TEST_TMPDIR/user
	git clone -q "$@" "$co/kernel-toy" "$user"
	echo mine >"$user/arch/x86/kvm/mine.c"
	echo object >"$user/arch/x86/kvm/mine.o"
}

# plain_tree: plain, the same sources without git.
plain_tree() {
	plain=$BATS_TEST_TMPDIR/plain
	toy_kernel "$plain"
	chmod 640 "$plain/arch/x86/kvm/a.c"
}

# hostile_config: a user's git set-up that would change everything it can.
hostile_config() {
	local hooks=$BATS_TEST_TMPDIR/hooks template=$BATS_TEST_TMPDIR/template hook
	mkdir -p "$hooks" "$template/info" "$template/hooks"
	for hook in prepare-commit-msg post-checkout post-commit post-rewrite; do
		# shellcheck disable=SC2016 # expands in the hook
		printf '#!/bin/sh\n[ "$0" != prepare-commit-msg ] || echo hooked >>"$1"\nexit 1\n' >"$hooks/$hook"
		chmod +x "$hooks/$hook"
	done
	cp "$hooks/prepare-commit-msg" "$template/hooks/"
	echo '* text eol=crlf' >"$template/info/attributes"
	echo '* text=auto diff=python' >"$BATS_TEST_TMPDIR/attributes"
	echo '*.c' >"$BATS_TEST_TMPDIR/excludes"
	echo 'zzz*' >"$BATS_TEST_TMPDIR/order"
	cat >"$BATS_TEST_TMPDIR/hostile" <<-EOF
	[user]
		useConfigOnly = true
	[core]
		autocrlf = true
		safecrlf = true
		eol = crlf
		commentChar = K
		hooksPath = $hooks
		attributesFile = $BATS_TEST_TMPDIR/attributes
		excludesFile = $BATS_TEST_TMPDIR/excludes
		abbrev = 5
		splitIndex = true
		bigFileThreshold = 10
	[init]
		templateDir = $template
	[apply]
		whitespace = fix
		ignoreWhitespace = change
	[color]
		ui = always
	[commit]
		gpgSign = true
		cleanup = scissors
	[gpg]
		program = false
	[diff]
		noprefix = true
		mnemonicPrefix = true
		algorithm = patience
		context = 1
		interHunkContext = 9
		indentHeuristic = false
		renames = copies
		suppressBlankEmpty = true
		orderFile = $BATS_TEST_TMPDIR/order
		external = false
		statGraphWidth = 3
	[format]
		signOff = true
		coverLetter = true
		attach = xxx
		thread = deep
		useAutoBase = true
		from = Eve <eve@example.org>
		headers = "X-Evil: yes\n"
		to = eve@example.org
		cc = eve@example.org
		subjectPrefix = EVIL
		numbered = true
		signature = evil
		notes = true
	[i18n]
		commitEncoding = ISO-8859-1
		logOutputEncoding = ISO-8859-1
	[log]
		showSignature = true
		date = relative
	[mailinfo]
		scissors = true
	[merge]
		ff = false
		verifySignatures = true
	[status]
		short = true
		branch = true
		showUntrackedFiles = all
	EOF
	export GIT_CONFIG_GLOBAL=$BATS_TEST_TMPDIR/hostile GIT_DEFAULT_HASH=sha256
	export GIT_DIFF_OPTS=--unified=7 GIT_DIR=$BATS_TEST_TMPDIR/other.git GIT_INDEX_FILE=$BATS_TEST_TMPDIR/other.index
	export LANGUAGE=de TZ=Asia/Tokyo MAKEFLAGS=w LC_ALL=C TAR_OPTIONS=--verbose
	umask 077
}

# state DIR: all there is to a tree: its files with mode and time, and git's side.
state() {
	(
		cd "$1"
		find . -name .git -prune -o -printf '%p %y %m %T@ %l\n' | sort
		find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
		[[ -e .git ]] || exit 0
		git symbolic-ref -q HEAD || true
		git for-each-ref
		git rev-parse HEAD
		git ls-files -s
		git status --porcelain --ignored
	)
}

# kmmu STATUS ARG...: run it; leaves output, stderr and its lines.
kmmu() {
	run --separate-stderr "$co/tools/kmmu" "${@:2}"
	echo "$output"
	echo "$stderr"
	echo "status $status"
	[[ $status == "$1" ]]
}

# refused ARG...: status 2, one line on stderr, nothing on stdout.
refused() {
	kmmu 2 "$@"
	[[ -z $output && ${#stderr_lines[@]} == 1 ]]
	[[ $stderr == "kmmu"*": "* ]]
}

# no_litter: the last command left no temporary files anywhere.
no_litter() {
	run find "$TMPDIR" "$co" "${user:-$TMPDIR}" "${plain:-$TMPDIR}" -mindepth 1 \
		\( -path "$TMPDIR/*" -o -name '*.kmmu*' -o -name '.refresh*' -o -name '*.import*' -o -name '*.lock' \
		-not -path "$co/build/*.lock" \)
	echo "$output"
	[[ -z $output ]]
}

# slow_git WORD: from now on the first git that has WORD as an argument hangs.
slow_git() {
	local bin=$BATS_TEST_TMPDIR/slow
	mkdir -p "$bin"
	cat >"$bin/git" <<-EOF
	#!/bin/bash
	if [[ " \$* " == *" $1 "* && ! -e $bin/hangs ]]; then
		: >$bin/hangs
		exec sleep 60
	fi
	exec $(command -v git) "\$@"
	EOF
	chmod +x "$bin/git"
}

# interrupt ARG...: Ctrl-C as soon as the slow git hangs.
interrupt() {
	local bin=$BATS_TEST_TMPDIR/slow pid status=0 n
	rm -f "$bin/hangs"
	PATH=$bin:$PATH env --default-signal=INT setsid "$co/tools/kmmu" "$@" >"$bin/out" 2>&1 &
	pid=$!
	for ((n = 0; n < 300; n++)); do
		[[ ! -e $bin/hangs ]] || break
		sleep 0.1
	done
	kill -INT -- "-$pid"
	wait "$pid" || status=$?
	echo "interrupted: status $status"
	cat "$bin/out"
	[[ -e $bin/hangs && $status == 130 ]]
}

# on_small_disk SIZE SCRIPT: run the bash SCRIPT (with these functions) while $small
# is a disk of that size; skip where that is not allowed.
on_small_disk() {
	local new=(unshare --mount)
	small=$BATS_TEST_TMPDIR/small
	mkdir -p "$small"
	((EUID == 0)) || new+=(--map-root-user)
	"${new[@]}" mount -t tmpfs none "$small" 2>/dev/null || skip "not allowed to mount a tmpfs"
	export small co user plain
	run --separate-stderr "${new[@]}" bash -ec "
		$(declare -f state)
		mount -t tmpfs -o size=$1 none \"\$small\"
		$2"
	echo "$output"
	echo "$stderr"
	[[ $status == 0 ]]
}

# real: co with the real stack on a shared clone of kernel/ whose refs are its own,
# with all patches committed (by `kmmu apply` there, or else now); tip is the last.
real() {
	local kept=$BATS_FILE_TMPDIR/real
	toy
	base=$(git -C "$root/kernel" rev-parse -q --verify 'refs/kmmu/base^{commit}') || {
		echo "kernel/ is not filled; run 'tools/kmmu setup'"
		return 1
	}
	export KMMU_STACK=linux-5.10
	if [[ ! -d $kept ]]; then
		git clone -q --shared --no-checkout "$root/kernel" "$kept"
		git -C "$kept" fetch -q origin 'refs/kmmu/at/*:refs/kmmu/at/*'
		git -C "$kept" update-ref refs/kmmu/base "$base"
	fi
	cp -r "$kept" "$co/kernel"
	tip=$(library stack_commit tip)
	cp -r "$co"/kernel/. "$kept"
}

# library COMMAND...: run a function of tools/lib on co.
library() {
	bash -c 'for lib in common stack build; do source "$0/tools/lib/$lib.sh"; done; "$@"' "$co" "$@"
}

# touched: the directories with files that the real stack touches.
touched() {
	(cd "$co/patches" && sed -n -e '/^#/d' -e '/./p' ../series | xargs cat) |
		sed -n 's,^diff --git a/\(.*\)/[^/]* b/.*,\1,p' | sort -u
}

# real_files DIR: a plain tree of the base that has what the real stack touches.
real_files() {
	local dirs
	mkdir -p "$1"
	mapfile -t dirs < <(touched | xargs git -C "$co/kernel" ls-tree --name-only "$base" Kbuild Makefile arch/x86/kvm)
	git -C "$co/kernel" archive "$base" -- "${dirs[@]}" | tar -x -C "$1"
}

# entry NAME STATUS [REASON [OUTPUT-LINE...]]: an entry of a result file.
entry() {
	local output=""
	(($# < 4)) || output=$(printf ', "%s"' "${@:4}")
	printf '{"name": "%s", "status": "%s", "reason": "%s", "seconds": 1.5, "splats": [], "output": [%s]}' \
		"$1" "$2" "${3-}" "${output#, }"
}

# result FILE [ENTRY...]: a result file with these entries.
result() {
	mkdir -p "$(dirname "$1")"
	printf '{"entries": [%s]}\n' "$(IFS=,; echo "${*:2}")" >"$1"
}
