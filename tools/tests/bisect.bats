#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# kmmu bisect: what it decides, on a toy kernel with a builder and guests that only
# pretend; and planted regressions in real kernels, built and booted, if the
# test kernel is named in KMMU_TEST_BZIMAGE, as ci/check does.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0
load stack

setup_file() {
	isolate
	make_toy
	# A "kernel" is the file state.c, and a "guest" does what is written there.
	cat >>"$co/tools/lib/build.sh" <<-'END'
	build_kernel() {
		local img=$kmmu_build/$stack/img/$1
		mkdir -p "$img"
		kgit show "$1:arch/x86/kvm/state.c" >"$img/bzImage"
		! grep -q BROKEN "$img/bzImage" || fail "the kernel does not build at ${1:0:12}: error: BROKEN"
		printf '%s\n' "$img"
	}
	build_tests() {
		local dir=$kmmu_build/$stack/tests/$1
		mkdir -p "$dir"
		touch "$dir/toy_test" "$dir/other_test"
		chmod +x "$dir"/*_test
		printf '%s\n' "$dir"
	}
	END
	cat >"$co/tools/guest-run" <<-'END'
	#!/usr/bin/env python3
	import json, os, re, sys, time
	args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
	state, out, top = open(args["--kernel"]).read(), args["--out"], os.environ["GUESTS"]
	with open(top + "/log", "a") as f:
	    f.write(state.replace("\n", " ") + "\n")
	n = state + str(open(top + "/log").read().count(state.replace("\n", " ")))
	if os.path.exists(top + "/hang"):
	    os.rename(top + "/hang", top + "/hangs")
	    time.sleep(60)
	entries = []
	for line in open(args["--plan"]):
	    _, name, limit, command = line.rstrip("\n").split("\t")
	    word = re.search(rf"\b{name} (\w+)", state)
	    word = word[1] if word else "PASS"
	    if word in ("FLAKY", "LATE", "LOSTONCE"):
	        bad = {"FLAKY": "FAIL", "LATE": "TIMEOUT", "LOSTONCE": "LOST"}[word]
	        turn = 3 if word == "FLAKY" else 1
	        word = bad if n.endswith(f"{turn}") else "PASS"
	    count = re.search(r"count (\d+)", state)
	    printed = [f"mode=x count={count[1]} turns=10"] if count else []
	    printed += [command] + [f"files {f}" for f in os.listdir(args.get("--files", out) + "/bisect")] if "--files" in args else [command]
	    if count:
	        printed.insert(0, f"mode=x count={count[1]} turns=10")
	    entries.append({"name": name, "status": word, "reason": "" if word == "PASS" else "told to", "seconds": 1, "splats": [], "output": printed})
	bad = [e for e in entries if e["status"] not in ("PASS", "SKIP")]
	with open(out + "/results.ktap", "w") as f:
	    for e in entries:
	        f.write("".join(f"# {p}\n" for p in e["output"]) + ("not ok" if e in bad else "ok") + f" 1 {e['name']}\n")
	json.dump({"entries": entries}, open(out + "/result.json", "w"))
	sys.exit(1 if bad else 0)
	END
	printf 'toy_test 20 toy_test -a 1\nother_test 20 other_test\n' >"$co/ci/tests/toy"
}

# plant STATE...: a topic "planted" with a patch for each state.
plant() {
	local state n=0
	toy
	export GUESTS=$BATS_TEST_TMPDIR/guests
	mkdir "$GUESTS"
	"$co/tools/kmmu" apply
	for state; do
		n=$((n + 1))
		printf '%s\n/* %d */\n' "$state" "$n" >"$tree/arch/x86/kvm/state.c"
		toy_commit "$tree" "KVM: x86: Step $n" >/dev/null
	done
	"$co/tools/kmmu" refresh --topic planted >/dev/null
}

# guests: how many guests have run.
guests() {
	sed -n '$=' "$GUESTS/log" 2>/dev/null | grep . || echo 0
}

# found N: the last command has found patch N.
found() {
	[[ ${lines[0]} == "first bad patch: toy/planted/x86-step-$1.patch (KVM: x86: Step $1)" ]]
}

ends=(--good x86-step-1 --bad tip)

# ------------------------------------------------------------------------ usage

@test "bisect: wrong usage" {
	plant ok ok
	refused bisect
	refused bisect "${ends[@]}"
	[[ $stderr == *"which test? Give it after --"* ]]
	refused bisect --good x86-step-1 -- toy_test
	refused bisect --good nonsense --bad tip -- toy_test
	refused bisect "${ends[@]}" --tries 0 -- toy_test
	refused bisect "${ends[@]}" --metric nonsense -- toy_test
	refused bisect "${ends[@]}" --profile amd --metric mode=x:count -- toy_test
	[[ $stderr == *"--metric needs one test, and one variant"* ]]
	refused bisect "${ends[@]}" --profile nonsense -- toy_test
	refused bisect "${ends[@]}" --tests some -- toy_test
	refused bisect "${ends[@]}" --lost some -- toy_test
	refused bisect "${ends[@]}" -- ./nonsense
	refused bisect "${ends[@]}" -- amd more
	refused bisect "${ends[@]}" HEAD~1..HEAD -- toy_test
	refused bisect --tree "$BATS_TEST_TMPDIR/nonsense" a..b -- toy_test
	user_tree
	refused bisect --tree "$user" HEAD -- toy_test
	refused bisect --tree "$user" HEAD..nonsense -- toy_test
	refused bisect --tree "$user" --good base HEAD..HEAD -- toy_test
	refused bisect --good tip --bad x86-step-1 -- toy_test
	[[ $stderr == *"does not come before"* && $(guests) == 0 ]]
}

# ----------------------------------------------------------------- the decisions

@test "bisect: finds the patch, and keeps a log that can be replayed" {
	plant ok ok ok ok 'toy_test FAIL' 'toy_test FAIL' 'toy_test FAIL' 'toy_test FAIL'
	kmmu 0 bisect "${ends[@]}" -- toy_test
	found 5
	[[ $output == *"commit "*"    KVM: x86: Step 5"*"log of its first failing run: "*"/results.ktap"*"not ok 1 toy_test" ]]
	# The test is run as ci/tests/toy says when it has no arguments.
	[[ $output == *"# /tests/toy_test -a 1"* ]]
	log=$(echo "$co"/build/toy/bisect/*/bisect.log)
	git clone -q --shared "$co/kernel-toy" "$BATS_TEST_TMPDIR/replay"
	git -C "$BATS_TEST_TMPDIR/replay" fetch -q origin 'refs/kmmu/at/*:refs/kmmu/at/*'
	git -C "$BATS_TEST_TMPDIR/replay" bisect replay "$log"
	[[ $(git -C "$BATS_TEST_TMPDIR/replay" log -1 --format=%s refs/bisect/bad) == 'KVM: x86: Step 5' ]]
	# Asked again, it knows; with other arguments, or --fresh, it does not.
	n=$(guests)
	kmmu 0 bisect "${ends[@]}" -- toy_test
	found 5
	[[ $(guests) == "$n" ]]
	kmmu 0 bisect "${ends[@]}" -- toy_test -b 2
	[[ $output == *"# /tests/toy_test -b 2"* && $(guests) -gt $n ]]
	n=$(guests)
	kmmu 0 bisect "${ends[@]}" --fresh -- toy_test
	[[ $(guests) -gt $n ]]
	run -0 git -C "$co/kernel-toy" for-each-ref refs/bisect
	[[ -z $output ]]
}

@test "bisect: the ends must be what they are said to be" {
	plant ok ok 'toy_test FAIL'
	kmmu 1 bisect --good x86-step-1 --bad x86-step-2 -- toy_test
	[[ $stderr == *"x86-step-2.patch (KVM: x86: Step 2), said to be bad, is good: passed; see "* ]]
	kmmu 1 bisect --good x86-step-2 --bad tip -- other_test
	[[ $stderr == *"said to be bad, is good"* ]]
	kmmu 1 bisect --good x86-step-1 --bad tip -- absent_test
	[[ $stderr == *"said to be good, is skip: there is no such test"* ]]
}

@test "bisect: a good end that is bad is no good end" {
	plant 'toy_test FAIL' ok 'toy_test FAIL'
	kmmu 1 bisect "${ends[@]}" -- toy_test
	[[ $stderr == *"x86-step-1.patch (KVM: x86: Step 1), said to be good, is bad: toy_test: FAIL told to; see "* ]]
	[[ $(guests) == 1 ]]
}

@test "bisect: what does not build or gets lost is skipped" {
	plant ok ok ok BROKEN 'toy_test LOST' ok 'toy_test FAIL' 'toy_test FAIL'
	kmmu 0 bisect "${ends[@]}" -- toy_test
	found 7
	[[ $stderr == *"skip: "* ]]
	# Lost for good is bad, if that is what is looked for.
	plant_lost
	kmmu 0 bisect "${ends[@]}" --lost bad -- toy_test
	found 3
	kmmu 1 bisect "${ends[@]}" -- toy_test
	[[ $stderr == *"said to be bad, is skip: toy_test: LOST told to"* ]]
}

# plant_lost: another planted topic in the same test.
plant_lost() {
	rm -rf "$BATS_TEST_TMPDIR"/{co,guests,tmp}
	plant ok ok 'toy_test LOST' 'toy_test LOST'
}

@test "bisect: only skipped patches are left" {
	plant ok BROKEN BROKEN 'toy_test FAIL'
	kmmu 1 bisect "${ends[@]}" -- toy_test
	[[ $output == *"possible: toy/planted/x86-step-2.patch"* && $output == *"possible: toy/planted/x86-step-4.patch"* ]]
	[[ $stderr == *"only skipped patches are left"* ]]
}

@test "bisect: a guest that is late or lost once gets a second chance" {
	plant ok 'toy_test LATE' 'toy_test LOSTONCE' 'toy_test FAIL'
	kmmu 0 bisect "${ends[@]}" -- toy_test
	found 4
	[[ $stderr == *"once more"* ]]
}

@test "bisect: --tries finds what fails one time in three" {
	plant ok ok ok 'toy_test FLAKY' 'toy_test FLAKY' 'toy_test FLAKY'
	kmmu 1 bisect "${ends[@]}" -- toy_test
	kmmu 0 bisect "${ends[@]}" --tries 3 -- toy_test
	found 4
	[[ $stderr == *"(run "*" of 3)"* ]]
}

@test "bisect: --metric: a count that rises, or falls, and a ratio" {
	plant 'count 1000' 'count 1001' 'count 999' 'count 1050' 'count 1052'
	kmmu 0 bisect "${ends[@]}" --metric mode=x:count -- toy_test
	found 4
	[[ $output == *"mode=x:count: 1000.0 before, 1050.0 with it"* ]]
	kmmu 0 bisect "${ends[@]}" --metric mode=x:count/turns -- toy_test
	found 4
	kmmu 1 bisect "${ends[@]}" --metric mode=y:count -- toy_test
	[[ $stderr == *"no value of mode=y:count at "*"no count for mode=y"* ]]
	kmmu 1 bisect --good x86-step-1 --bad x86-step-3 --metric mode=x:count -- toy_test
	[[ $stderr == *"hardly differ"* ]]
	rm -rf "$BATS_TEST_TMPDIR"/{co,guests,tmp}
	plant 'count 50' 'count 50' 'toy_test FAIL' 'count 40' 'count 40'
	# A step whose test fails has no count, so that it is skipped.
	kmmu 1 bisect "${ends[@]}" --metric mode=x:count -- toy_test
	[[ $output == *"possible: toy/planted/x86-step-3.patch"*"possible: toy/planted/x86-step-4.patch"* ]]
}

@test "bisect: a profile: what fails on the good end as well does not count" {
	plant 'other_test FAIL' 'other_test FAIL' 'other_test FAIL toy_test FAIL' 'toy_test FAIL'
	kmmu 0 bisect "${ends[@]}" -- amd
	found 3
	[[ $stderr == *"fails on the good end, and does not count: other_test"* ]]
}

@test "bisect: a script of the user runs in the guest" {
	plant ok ok 'mine.sh FAIL'
	echo 'exit 0' >"$BATS_TEST_TMPDIR/mine.sh"
	kmmu 0 bisect "${ends[@]}" -- "$BATS_TEST_TMPDIR/mine.sh" 'a b' c
	found 3
	[[ $output == *"# /bisect/mine.sh a\\ b c"*"# files mine.sh"* ]]
	# Another text is another question.
	n=$(guests)
	echo 'exit 1' >"$BATS_TEST_TMPDIR/mine.sh"
	kmmu 0 bisect "${ends[@]}" -- "$BATS_TEST_TMPDIR/mine.sh" 'a b' c
	[[ $(guests) -gt $n ]]
}

@test "bisect: Ctrl-C, and the same command goes on" {
	plant ok ok ok ok 'toy_test FAIL' 'toy_test FAIL' 'toy_test FAIL' 'toy_test FAIL'
	# The first time the good end is cut short, the second time what comes after it.
	for signal in INT TERM; do
		: >"$GUESTS/hang"
		env --default-signal=INT setsid "$co/tools/kmmu" bisect "${ends[@]}" -- toy_test >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
		pid=$!
		timeout 120 sh -c 'until [ -e "$0/hangs" ]; do sleep 0.1; done' "$GUESTS"
		kill -"$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		cat "$BATS_TEST_TMPDIR/out"
		[[ $status == 130 && $(tail -1 "$BATS_TEST_TMPDIR/out") == *"interrupted; the same command goes on from here" ]]
		run pgrep -f "$co/tools/guest-run"
		[[ -z $output ]]
		rm -f "$GUESTS/hang" "$GUESTS/hangs"
	done
	kmmu 0 bisect "${ends[@]}" -- toy_test
	found 5
	m=$(guests)
	kmmu 0 bisect "${ends[@]}" -- toy_test
	[[ $(guests) == "$m" ]]
}

@test "bisect: --tree only reads the user's tree" {
	plant ok ok ok 'toy_test FAIL' 'toy_test FAIL'
	user_tree
	git -C "$user" pull -q "$co/kernel-toy" kmmu/toy
	echo dirt >>"$user/arch/x86/kvm/a.c"
	state "$user" >"$BATS_TEST_TMPDIR/before"
	find "$user/.git" -type f -print0 | sort -z | xargs -0 sha256sum >>"$BATS_TEST_TMPDIR/before"
	kmmu 0 bisect --tree "$user" HEAD~4..HEAD -- toy_test
	[[ ${lines[0]} == "first bad patch: $(git -C "$user" rev-parse --short=12 HEAD~1) (KVM: x86: Step 4)" ]]
	{ state "$user"; find "$user/.git" -type f -print0 | sort -z | xargs -0 sha256sum; } | diff "$BATS_TEST_TMPDIR/before" -
}

# ------------------------------------------------------------------ real kernels

# plant_real: user, a checkout of the stack's tip with planted regressions:
#   tip  c1 lockdep  c2 5 % slower  c3 no build  c4  c5 wrong  c6 wrong at times
plant_real() {
	local kvm
	real
	git clone -q --shared --no-checkout "$co/kernel" "$BATS_TEST_TMPDIR/user"
	cd "$BATS_TEST_TMPDIR/user" || return
	git fetch -q origin 'refs/kmmu/at/*:refs/kmmu/at/*'
	git sparse-checkout set --cone arch/x86/kvm
	git checkout -q -b planted "$tip"
	kvm=arch/x86/kvm
	sed -i '/^int kvm_vcpu_ioctl_set_cpuid2/i static DEFINE_MUTEX(planted_a);\nstatic DEFINE_MUTEX(planted_b);\n' $kvm/cpuid.c
	sed -i '/^int kvm_vcpu_ioctl_set_cpuid2/,/^}/ s/^\tint r;$/&\n\n\tmutex_lock(\&planted_a);\n\tmutex_lock(\&planted_b);\n\tmutex_unlock(\&planted_b);\n\tmutex_unlock(\&planted_a);\n\tmutex_lock(\&planted_b);\n\tmutex_lock(\&planted_a);\n\tmutex_unlock(\&planted_a);\n\tmutex_unlock(\&planted_b);/' $kvm/cpuid.c
	git commit -qam 'KVM: x86: Take two locks in both orders'
	sed -i '/^static int cr_interception/,/^}/ s/^\tint err;$/\tint err, i;\n\n\tfor (i = 0; i < 50; i++)\n\t\tbarrier();/' $kvm/svm/svm.c
	git commit -qam 'KVM: SVM: Count to fifty first'
	echo 'int planted = ;' >>$kvm/cpuid.c
	git commit -qam 'KVM: x86: Break the build'
	sed -i '/^int planted = ;/d' $kvm/cpuid.c
	git commit -qam 'KVM: x86: Mend the build'
	sed -i '/Update OSXSAVE bit/,/kvm_read_cr4_bits/ s/boot_cpu_has(X86_FEATURE_XSAVE)/0/' $kvm/cpuid.c
	git commit -qam 'KVM: x86: Leave OSXSAVE alone'
	sed -i '/^#include "hyperv.h"/a #include <linux/random.h>' $kvm/hyperv.c
	sed -i '/^int kvm_vcpu_ioctl_get_hv_cpuid/,/^}/ s/^\tif (cpuid->nent < nent)$/\tif (get_random_u32() \& 3)\n\t\treturn -EIO;\n\n&/' $kvm/hyperv.c
	git commit -qam 'KVM: x86: Fail Hyper-V leaves three times in four'
	[[ $(git rev-list --count "$tip..HEAD") == 6 ]]
	echo 'not for you' >>$kvm/cpuid.c
	# What make_toy put in the place of builds and guests is not for this.
	cp "$root/tools/lib/build.sh" "$co/tools/lib/"
	cp "$root/tools/guest-run" "$co/tools/"
	export KMMU_BUILD=$BATS_FILE_TMPDIR/build
}

# bisect_real STATUS ARG...: in the user's tree.
bisect_real() {
	kmmu "$1" bisect --tree . "${@:2}"
	[[ $(git status --porcelain) == ' M arch/x86/kvm/cpuid.c' ]]
}

@test "bisect: real kernels: wrong, broken in the middle, slower, wrong at times" {
	[[ -n ${KMMU_TEST_BZIMAGE-} ]] || skip "builds kernels, as ci/check does"
	plant_real
	bisect_real 0 HEAD~6..HEAD -- cr4_cpuid_sync_test
	[[ ${lines[0]} == *"(KVM: x86: Leave OSXSAVE alone)" && $output == *"unsynchronized with CPUID"* ]]
	[[ $stderr == *"skip: the kernel does not build at "*"error"* ]]
	bisect_real 0 HEAD~6..HEAD --metric mode=paging:cycles_per_toggle -- cr0_wp_toggle_test -m -n 200
	[[ ${lines[0]} == *"(KVM: SVM: Count to fifty first)" ]]
	bisect_real 0 HEAD~2..HEAD --tries 4 -- hyperv_cpuid
	[[ ${lines[0]} == *"(KVM: x86: Fail Hyper-V leaves three times in four)" ]]
}

@test "bisect: real kernels: what only lockdep sees" {
	[[ ${KMMU_SLOW_TESTS:-0} == 1 ]] || skip "KMMU_SLOW_TESTS=1 builds kernels with lockdep"
	plant_real
	bisect_real 1 HEAD~6..HEAD~4 -- cr4_cpuid_sync_test
	[[ $stderr == *"said to be bad, is good"* ]]
	[[ -f $co/ci/config/lockdep.config ]] ||
		printf 'CONFIG_PROVE_LOCKING=y\nCONFIG_LOCKDEP=y\n' >"$co/ci/config/lockdep.config"
	sed 's/^config=.*//; $aconfig=lockdep' "$co/ci/profiles/amd" >"$co/ci/profiles/amd-locks"
	bisect_real 0 HEAD~6..HEAD~4 --profile amd-locks/tdp_mmu=1 -- cr4_cpuid_sync_test
	[[ ${lines[0]} == *"(KVM: x86: Take two locks in both orders)" ]]
	[[ $output == *"possible circular locking dependency detected"* ]]
}
