#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# kmmu check: the header policy, the verb, and each check on a planted fault.
# The last ones build kernels (minutes in warm build directories, else longer)
# and run with KMMU_SLOW_TESTS=1 only.

# shellcheck disable=SC2013,SC2016,SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0

root=$(readlink -f "$BATS_TEST_DIRNAME/../..")

# ---------------------------------------------------------------- header policy

good_mail() {
	cat <<-'EOF'
	From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
	From: Ann Author <ann@example.org>
	Date: Mon, 14 Dec 2020 10:00:00 +0000
	Subject: [PATCH] KVM: x86/mmu: Count the pages that kvm_mmu_zap_all() frees

	Count what kvm_mmu_zap_all() frees, so that it can be read from debugfs.
	Reads are rare (one in 10 us at worst), so a plain counter does.

	    kvm_mmu_zap_all  12 us for us

	Fixes: 0123456789ab ("KVM: x86/mmu: Zap all pages")
	Assisted-by: Agent:model-1 sparse
	Reported-by: Rob Reporter <rob@example.org>
	---
	 arch/x86/kvm/mmu/mmu.c | 3 ++-
	 1 file changed, 2 insertions(+), 1 deletion(-)

	diff --git a/arch/x86/kvm/mmu/mmu.c b/arch/x86/kvm/mmu/mmu.c
	index 111111111111..222222222222 100644
	--- a/arch/x86/kvm/mmu/mmu.c
	+++ b/arch/x86/kvm/mmu/mmu.c
	@@ -10,3 +10,4 @@ void kvm_mmu_zap_all(struct kvm *kvm)
	 {
	-	kvm_mmu_zap_all(kvm);
	+	/* Count from the first page on. */
	+	kvm_mmu_zap_all(kvm, true);
	 }
	EOF
}

header() {
	run -"$1" python3 "$root/tools/lib/header.py" "$root/ci/policy/header.tsv" "$2"
}

# caught RULE SED: the good mail, edited, breaks that rule and no other one.
caught() {
	local mail=$BATS_TEST_TMPDIR/bad.patch status=1
	good_mail | sed -E "$2" >"$mail"
	if good_mail | cmp -s - "$mail"; then return 1; fi
	grep -qP "^$1\t.*\tavoid\t" "$root/ci/policy/header.tsv" && status=250
	header "$status" "$mail"
	echo "$output"
	[[ ${#lines[@]} == 1 && $output == "$mail: $1: "* ]]
}

@test "header: a good patch passes" {
	good_mail >"$BATS_TEST_TMPDIR/good.patch"
	header 0 "$BATS_TEST_TMPDIR/good.patch"
	[[ -z $output ]]
}

@test "header: a subject folded over two lines is one subject" {
	good_mail | sed 's/^\(Subject: .*mmu:\) /\1\n /' >"$BATS_TEST_TMPDIR/good.patch"
	header 0 "$BATS_TEST_TMPDIR/good.patch"
}

@test "header: a patch outside KVM takes its own subsystem" {
	good_mail | sed 's,arch/x86/kvm/mmu/mmu.c,kernel/locking/rwsem.c,g; s/KVM: x86.mmu: Count/locking: Count/' \
		>"$BATS_TEST_TMPDIR/good.patch"
	header 0 "$BATS_TEST_TMPDIR/good.patch"
}

@test "header: From" { caught from '2s/ <.*>//'; }
@test "header: Date" { caught date '/^Date:/d'; }
@test "header: Subject" { caught subject 's/\[PATCH\]/[RFC]/'; }
@test "header: numbered subject" { caught subject-number 's/\[PATCH\]/[PATCH 3\/7]/'; }
@test "header: KVM scope" { caught subject-kvm 's,x86/mmu: Count,mmu: Count,'; }
@test "header: KVM subject in lower case" { caught subject-kvm 's/: Count/: count/'; }
@test "header: no KVM at all" { caught subject-kvm 's/KVM: x86/x86/'; }
@test "header: other subject" {
	caught subject-other 's,arch/x86/kvm/mmu/mmu.c,kernel/locking/rwsem.c,g; s/KVM: x86.mmu: Count/Count/'
}
@test "header: imperative" { caught subject-imperative 's/: Count /: Counted /'; }
@test "header: third person" { caught subject-imperative 's/: Count /: Counts /'; }
@test "header: full stop" { caught subject-stop '/^Subject/s/$/./'; }
@test "header: file name in subject" { caught subject-file 's/that kvm_mmu_zap_all.. frees/in mmu.c/'; }
@test "header: 76 columns" { caught subject-long '/^Subject/s/frees/frees up this time only/'; }
@test "header: 81 columns" { caught subject-too-long '/^Subject/s/frees/frees up this time only, once/'; }
@test "header: function in subject" { caught subject-function '/^Subject/s/\(\)//'; }
@test "header: no changelog" { caught changelog '/^Count/,/^    kvm/d'; }
@test "header: function in changelog" { caught changelog-function '/^Count/s/\(\)//'; }
@test "header: SDM section" { caught changelog-section 's/^Reads are rare/As of SDM Vol. 3, reads are rare/'; }
@test "header: APM section" { caught changelog-section 's/^Reads are rare/As of the APM, section 15.25, reads are rare/'; }
@test "header: first person" { caught changelog-pronoun 's/^Reads are rare/We read rarely/'; }
@test "header: I" { caught changelog-pronoun 's/^Reads are rare/I read rarely/'; }
@test "header: second person" { caught changelog-you 's/^Reads are rare/You read rarely/'; }
@test "header: no diff" { caught diff '/^diff/s/ --git//'; }
@test "header: no separator" { caught separator '/^---$/d'; }
@test "header: no diffstat" { caught diffstat '/ file changed/d'; }
@test "header: stale diffstat" { caught diffstat-stale 's/2 insertions/3 insertions/'; }
@test "header: sign-off" { caught sign-off 's/^(---)$/Signed-off-by: Ann Author <ann@example.org>\n\1/'; }
@test "header: sign-off below the line" { caught sign-off 's/^(---)$/\1\nsigned-off-by: Ann Author <ann@example.org>/'; }
@test "header: Change-Id" { caught change-id 's/^(---)$/Change-Id: I0123456789\n\1/'; }
@test "header: unknown tag" { caught tag-name 's/^Reported-by/Blamed-by/'; }
@test "header: Fixes" { caught fixes 's/^Fixes: 0123456789ab/Fixes: 0123456789a/'; }
@test "header: Fixes without title" { caught fixes 's/^(Fixes: .*ab) .*/\1/'; }
@test "header: Assisted-by" { caught assisted-by 's/^Assisted-by:.*/Assisted-by: some assistant/'; }
@test "header: person" { caught person 's/ <rob@example.org>//'; }
@test "header: kernel-doc" { caught kernel-doc 's,/\* Count from the first page on,/** Count from the first page on,'; }
@test "header: section in a comment" { caught comment-section 's,/\* Count,/* SDM section 28.2: count,'; }

@test "header: every rule has a test" {
	local rule
	while IFS=$'\t' read -r rule _; do
		echo "$rule"
		grep -q "caught $rule '" "$BATS_TEST_FILENAME"
	done < <(grep -vE '^(#|$)' "$root/ci/policy/header.tsv")
}

# ------------------------------------------------------------------- the verb

# toy: a checkout with a stack of three one-line patches and one check that does
# what the file "verdict" in the patched tree says.
toy() {
	toy=$BATS_TEST_TMPDIR/toy
	export KMMU_BUILD=$BATS_TEST_TMPDIR/build KMMU_STACK=toy GIT_CONFIG_GLOBAL=/dev/null
	export GIT_AUTHOR_NAME=Ann GIT_AUTHOR_EMAIL=ann@example.org
	export GIT_COMMITTER_NAME=Ann GIT_COMMITTER_EMAIL=ann@example.org
	mkdir -p "$toy"/{tools/verbs,ci/stacks,ci/checks/probe,patches/toy,kernel}
	cp -r "$root/tools/lib" "$toy/tools/"
	cp "$root/tools/verbs/check" "$toy/tools/verbs/"
	cp "$root"/ci/checks/*.sh "$toy/ci/checks/"
	printf 'repository=kernel\nseries=series\n' >"$toy/ci/stacks/toy"
	printf 'summary=probe\norder=1\ntools=git\ntouches=. :!docs\n' >"$toy/ci/checks/probe/info"
	cat >"$toy/ci/checks/probe/run" <<-'EOF'
	#!/usr/bin/env bash
	source "$(dirname "$0")/../lib.sh"
	echo "$commit" >>"$obj/calls"
	at "$commit"
	source "$tree/verdict"
	EOF
	chmod +x "$toy/ci/checks/probe/run"
	git -C "$toy/kernel" init -q
	echo base >"$toy/kernel/docs"
	commit 'passed base'
	git -C "$toy/kernel" update-ref refs/kmmu/base HEAD
}

commit() {
	echo "$1" >"$toy/kernel/verdict"
	git -C "$toy/kernel" add -A
	git -C "$toy/kernel" commit -q -m "Say $1"
}

# patch NAME VERDICT: one more patch, after which the tree says VERDICT.
patch() {
	commit "$2"
	git -C "$toy/kernel" format-patch -q -1 --stdout >"$toy/patches/toy/$1.patch"
	echo "toy/$1.patch" >>"$toy/series"
}

check() {
	run -"$1" --separate-stderr "$toy/tools/verbs/check" "${@:2}"
	echo "$output"
	echo "$stderr"
}

calls() {
	wc -l <"$KMMU_BUILD/toy/check/obj/probe/calls"
}

@test "verb: all pass; a pass is kept" {
	toy
	patch a 'passed fine'
	patch b 'passed well'
	check 0
	[[ ${lines[0]} =~ ^patch\ +probe$ && ${lines[1]} =~ ^toy/a.patch\ +ok$ ]]
	[[ ${lines[-1]} == "2 passed, 0 failed" ]]
	check 0
	[[ ${lines[-1]} == "2 passed, 0 failed" && $(calls) == 2 ]]
}

@test "verb: a failure is told with its log and made again" {
	toy
	patch a 'echo why; failed "it is broken"'
	check 1
	[[ ${lines[-2]} =~ ^"FAIL probe: toy/a.patch: it is broken (log ".*")"$ ]]
	[[ ${lines[-1]} == "0 passed, 1 failed" ]]
	log=${lines[-2]##*log }
	grep -q why "${log%)}"
	check 1
	[[ $(calls) == 2 ]]
}

@test "verb: a warning passes, is shown and made again" {
	toy
	patch a 'warned "it is odd"'
	check 0
	[[ ${lines[-2]} == "warn probe: toy/a.patch: it is odd (log "* ]]
	[[ ${lines[-1]} == "1 passed, 0 failed" ]]
	check 0
	[[ $(calls) == 2 ]]
}

@test "verb: a check that cannot be made is status 2" {
	toy
	patch a 'passed fine'
	patch b 'unable "no paper"'
	check 2
	[[ ${lines[-3]} == "ERROR probe: toy/b.patch: no paper (log "* ]]
	[[ ${lines[-1]} == "1 passed, 0 failed" ]]
}

@test "verb: a new changelog repeats only checks that read the mail" {
	toy
	patch a 'passed fine'
	check 0
	sed -i 's/^Subject: .*/&, again/' "$toy/patches/toy/a.patch"
	check 0
	[[ $(calls) == 1 ]]
	echo mail=yes >>"$toy/ci/checks/probe/info"
	check 0
	[[ $(calls) == 2 ]]
	sed -i 's/^Subject: .*/&, again/' "$toy/patches/toy/a.patch"
	check 0
	[[ $(calls) == 3 ]]
}

@test "verb: a pass depends on the fragments, on the stack's own as well" {
	toy
	patch a 'passed fine'
	echo config=probe >>"$toy/ci/checks/probe/info"
	mkdir -p "$toy/ci/config/toy"
	echo CONFIG_A=y >"$toy/ci/config/probe.config"
	check 0
	check 0
	[[ $(calls) == 1 ]]
	echo CONFIG_B=y >"$toy/ci/config/toy/probe.config"
	check 0
	[[ $(calls) == 2 ]]
}

@test "verb: patches that do not concern a check" {
	toy
	sed -i 's/^touches=.*/touches=. :!verdict/' "$toy/ci/checks/probe/info"
	patch a 'failed "should not run"'
	check 0
	[[ ${lines[1]} =~ ^toy/a.patch\ +-$ && ${lines[-1]} == "0 passed, 0 failed" ]]
}

@test "verb: what is below a patch that does not apply is still checked" {
	toy
	patch a 'passed fine'
	patch b 'passed well'
	patch c 'passed late'
	sed -i 's/^-passed fine/-passed fume/' "$toy/patches/toy/b.patch"
	check 1
	[[ $output == *"FAIL apply: toy/b.patch: "*"does not apply"* ]]
	[[ ${lines[-1]} == "1 passed, 1 failed" ]]
}

@test "verb: chosen patches alone" {
	toy
	patch a 'failed a'
	patch b 'passed b'
	check 0 b
	[[ ${lines[-1]} == "1 passed, 0 failed" && $output != *toy/a.patch* ]]
}

@test "verb: what an interrupted run left behind is put in order" {
	toy
	patch a 'passed fine'
	check 0
	rm -rf "$KMMU_BUILD/toy/check/passed"
	touch "$(git -C "$KMMU_BUILD/toy/check/tree0" rev-parse --git-path index.lock)"
	check 0
	rm -rf "$KMMU_BUILD/toy/check/passed" "$KMMU_BUILD/toy/check/tree0/.git"
	check 0
	rm -rf "$KMMU_BUILD/toy/check/passed" "$toy"/kernel/.git/worktrees/*
	check 0
	[[ ${lines[-1]} == "1 passed, 0 failed" ]]
}

@test "verb: interrupted, the next run goes on" {
	toy
	patch a 'passed fine'
	patch b '[[ -e $obj/again ]] || { touch "$obj/again"; sleep 60; }; passed well'
	setsid "$toy/tools/verbs/check" >"$BATS_TEST_TMPDIR/out" 2>&1 &
	pid=$!
	for _ in {1..100}; do
		[[ -e $KMMU_BUILD/toy/check/obj/probe/again ]] && break
		sleep 0.1
	done
	kill -TERM -- "-$pid"
	status=0
	wait "$pid" || status=$?
	[[ $status == 130 ]]
	grep -q 'interrupted; what passed is kept' "$BATS_TEST_TMPDIR/out"
	check 0
	[[ ${lines[-1]} == "2 passed, 0 failed" && $(calls) == 3 ]]
}

@test "verb: an empty series" {
	toy
	touch "$toy/series"
	check 2
	[[ $stderr == *"nothing to check"* ]]
}

@test "verb: usage" {
	toy
	patch a 'passed fine'
	check 2 --only nonsense
	[[ $stderr == *"no check 'nonsense'; there are: probe"* ]]
	check 2 --jobs many
	check 2 nopatch
	check 2 --nonsense
	check 0 --help
	[[ $output == *"Usage: kmmu check"* ]]
	sed -i 's/^tools=.*/tools=git no-such-tool/' "$toy/ci/checks/probe/info"
	check 2
	[[ $stderr == *"needs no-such-tool"* ]]
}

@test "verb: -v shows the commands" {
	toy
	patch a 'run echo seen; passed fine'
	check 0 -v
	[[ $stderr == *"+ echo seen"* ]]
}

# --------------------------------------------- the checks on planted faults

@test "checks: their data is complete" {
	local info key config
	for info in "$root"/ci/checks/*/info; do
		echo "$info"
		[[ -x ${info%info}run ]]
		for key in summary order tools; do
			grep -q "^$key=." "$info"
		done
		for config in $(sed -n 's,^config=,,p' "$info"); do
			[[ -f $root/ci/config/$config.config ]]
		done
	done
	[[ $(sed -n 's/^order=//p' "$root"/ci/checks/*/info | sort | uniq -d) == "" ]]
}

@test "checks: an exception to checkpatch.pl has a level, a pattern and a reason" {
	run -0 grep -vE '^(#|$)' "$root/ci/policy/checkpatch.tsv"
	for line in "${lines[@]}"; do
		[[ $line =~ ^[A-Z_]+$'\t'(ignore|warn)$'\t'[^$'\t']+$'\t'[^$'\t']{20,}$ ]]
	done
}

# plant FILE SED [FILE SED]..: the base with files edited (or made), as `commit` on
# `parent` with its `mail`; no ref or work tree of the repository changes.
plant() {
	local git=(git -C "$root/kernel" -c user.name=Ann -c user.email=ann@example.org) blob
	export GIT_INDEX_FILE=$BATS_TEST_TMPDIR/index
	mail=$BATS_TEST_TMPDIR/planted.patch
	parent=$("${git[@]}" rev-parse -q --verify 'refs/kmmu/base^{commit}') ||
		skip "no kernel sources; run 'tools/kmmu setup'"
	"${git[@]}" read-tree "$parent"
	while (($#)); do
		blob=$({ "${git[@]}" cat-file blob "$parent:$1" 2>/dev/null || echo; } |
			sed "$2" | "${git[@]}" hash-object -w --stdin)
		"${git[@]}" update-index --add --cacheinfo "100644,$blob,$1"
		shift 2
	done
	commit=$("${git[@]}" commit-tree -p "$parent" -m 'KVM: x86: Plant a fault

Plant a fault for the check to find.' "$("${git[@]}" write-tree)")
	"${git[@]}" format-patch -1 --stdout "$commit" >"$mail"
	unset GIT_INDEX_FILE
}

# judge STATUS CHECK [TREE]: what the check makes of it.
judge() {
	local work=${KMMU_BUILD:-$root/build}/linux-5.10/check
	# shellcheck disable=SC2016 # expanded by the inner shell
	run -"$1" env KMMU_STACK=linux-5.10 bash -c 'source "$0/tools/lib/common.sh"
		with_lock "$stack/check" "$@"' "$root" "$root/ci/checks/$2/run" "${3:-$work/tree0}" \
		"$work/obj/$2" "$commit" "$parent" "$mail"
	echo "${lines[-1]}"
}

slow() {
	[[ ${KMMU_SLOW_TESTS:-0} == 1 ]] || skip "KMMU_SLOW_TESTS=1 builds kernels"
	plant "$@"
	local tree=${KMMU_BUILD:-$root/build}/linux-5.10/check/tree0
	[[ -e $tree/.git ]] || git -C "$root/kernel" worktree add -q --detach "$tree" "$parent"
}

# with_function NAME ARGS BODY: sed script that adds a function with a prototype.
with_function() {
	printf '$a u64 %s(%s);\\nu64 %s(%s)\\n{\\n\\t%s\\n}' "$1" "$2" "$1" "$2" "$3"
}

mmu=arch/x86/kvm/mmu/mmu.c
prototype='$a int kvm_planted(void)\n{\n\treturn 0;\n}'

@test "apply: a patch that applies" {
	plant $mmu '100i /* Planted. */'
	judge 0 apply "$root/kernel"
}

@test "apply: a patch that needs fuzz" {
	plant $mmu '100i /* Planted. */'
	sed -i '/^@@/{n;s/^ .*/ something else/}' "$mail"
	judge 1 apply "$root/kernel"
	[[ ${lines[-1]} == "does not apply" ]]
}

@test "apply: a patch with an offset is a warning" {
	plant $mmu '100i /* Planted. */'
	sed -i 's/^@@ -97,6 +97,7 @@/@@ -90,6 +90,7 @@/' "$mail"
	judge 250 apply "$root/kernel"
	[[ ${lines[-1]} == *"offset 7 lines"* ]]
}

@test "apply: a mail that is not its commit" {
	plant $mmu '100i /* Planted. */'
	sed -i 's/^+.*Planted/&, differently/' "$mail"
	judge 1 apply "$root/kernel"
	[[ ${lines[-1]} == "gives another tree than commit "* ]]
}

@test "checkpatch: clean but for the sign-off" {
	plant $mmu '100i /* Planted. */'
	judge 0 checkpatch "$root/kernel"
	[[ ${lines[-1]} == "clean but for 1 ignored by policy (MISSING_SIGN_OFF: "* ]]
}

@test "checkpatch: trailing white space" {
	plant $mmu '100i /* Planted. */ '
	judge 1 checkpatch "$root/kernel"
	[[ ${lines[-1]} == "1 findings: TRAILING_WHITESPACE: "* ]]
}

@test "checkpatch: --strict" {
	plant $mmu '100i int planted = !!(planted == NULL);'
	judge 1 checkpatch "$root/kernel"
	[[ $output == *"CHECK:COMPARISON_TO_NULL"* ]]
}

@test "w1: moved lines are no new warnings" {
	slow $mmu '1i /* Planted. */'
	judge 0 w1
}

@test "w1: a missing prototype" {
	slow $mmu "$prototype"
	judge 1 w1
	[[ ${lines[-1]} == "1 new: $mmu: warning: no previous prototype for"*kvm_planted* ]]
}

@test "w1: a warning in virt/kvm" {
	slow virt/kvm/kvm_main.c '$a static int kvm_planted;'
	judge 1 w1
	[[ ${lines[-1]} == "1 new: "*virt/kvm/kvm_main.c:*"defined but not used"* ]]
}

@test "w1: a warning in a file outside KVM" {
	slow kernel/sched/core.c "$prototype"
	judge 1 w1
	[[ ${lines[-1]} == "1 new: kernel/sched/core.c: "*kvm_planted* ]]
}

@test "w1: a patch that repairs its parent" {
	slow $mmu '$a int kvm_planted'
	read -r commit parent <<<"$parent $commit"
	judge 250 w1
	[[ ${lines[-1]} == "builds, but its parent does not: no warnings to compare with" ]]
}

@test "w1: a patch that adds an option" {
	slow arch/x86/kvm/Kconfig '/^config KVM_WERROR/i config KVM_PLANTED\n\tbool "Planted"\n\tdepends on KVM\n'
	judge 0 w1
}

@test "w1: a configuration that does not hold" {
	slow arch/x86/kvm/Kconfig 's/^config KVM_MMU_AUDIT/config KVM_PLANTED/'
	judge 2 w1
	[[ ${lines[-1]} == "Kconfig dropped CONFIG_KVM_MMU_AUDIT=y (see ci/config)" ]]
}

@test "sparse: an error of the compiler, not of sparse, ends it" {
	slow arch/x86/kvm/pmu.c '$a int kvm_planted'
	judge 1 sparse
	[[ ${lines[-1]} == "does not build: "*"expected"*"at end of input" ]]
}

@test "sparse: a plain dereference of an __rcu pointer" {
	slow $mmu "$(with_function kvm_planted 'u64 __rcu *sptep' 'return *sptep;')"
	judge 1 sparse
	[[ $output == *"$mmu: warning: dereference of noderef expression"* ]]
}

@test "sparse: moved lines are no new warnings" {
	slow $mmu '1i /* Planted. */'
	judge 0 sparse
}

@test "x86-y: a warning is an error" {
	slow $mmu '$a static int kvm_planted;'
	judge 1 x86-y
	[[ ${lines[-1]} == "does not build: $mmu:"*"defined but not used"* ]]
}

@test "x86-y: one name in both vendor modules" {
	local twice
	twice=$(with_function kvm_planted 'void' 'return 0;')
	slow arch/x86/kvm/vmx/vmx.c "$twice" arch/x86/kvm/svm/svm.c "$twice"
	judge 1 x86-y
	[[ ${lines[-1]} == *"multiple definition of"*kvm_planted* ]]
}

@test "x86-m: a function that is not exported" {
	slow arch/x86/kvm/vmx/vmx.c \
		"$(with_function kvm_planted 'struct kvm *kvm' 'return kvm_arch_init_vm(kvm, 0);')"
	judge 1 x86-m
	[[ ${lines[-1]} == *kvm_arch_init_vm*kvm-intel.ko*undefined* ]]
}

@test "i386: a 64-bit division" {
	slow $mmu "$(with_function kvm_planted 'u64 a, u64 b' 'return a / b;')"
	judge 1 i386
	[[ ${lines[-1]} == *"undefined reference to"*__udivdi3* ]]
}

@test "ppc64le, s390x, arm64: common code drops what the first two use" {
	local rename='s/\bsearch_memslots\b/search_slots/; s/\blru_slot\b/last_slot/'
	slow include/linux/kvm_host.h "$rename" virt/kvm/kvm_main.c "$rename"
	judge 1 ppc64le
	[[ ${lines[-1]} == "does not build: "*"implicit declaration of function"*search_memslots* ]]
	judge 1 s390x
	[[ ${lines[-1]} == "does not build: "*"no member named"*lru_slot* ]]
	judge 0 arm64
}

@test "selftests: a warning through a header" {
	slow tools/testing/selftests/kvm/include/test_util.h '/define .*_H$/a static int planted(void) { return 0; }'
	judge 1 selftests
	[[ ${lines[-1]} == *"defined but not used"* ]]
}

@test "selftests: a new test that git does not ignore" {
	slow tools/testing/selftests/kvm/Makefile 's/^TEST_GEN_PROGS_x86_64 += steal_time/& planted_test/' \
		tools/testing/selftests/kvm/planted_test.c 'a int main(void)\n{\n\treturn 0;\n}'
	judge 1 selftests
	[[ ${lines[-1]} == "1 new: tools/testing/selftests/kvm/planted_test: warning: the program is not in .gitignore" ]]
}
