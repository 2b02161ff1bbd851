#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# guest-run and verdict.py.  First the judgement, on stored logs: golden/guest/
# holds those of real guests that ran the entries "before", "it" and "after",
# where "it" did what the folder is named for, and in planted/ what a kernel
# prints.  Then real guests, which boot the kernel that KMMU_TEST_BZIMAGE names
# (built with ci/config/base.config).

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0

root=$(readlink -f "$BATS_TEST_DIRNAME/../..")
golden=$BATS_TEST_DIRNAME/golden/guest
nonce=0123456789abcdef0123456789abcdef

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# load CASE: work on a copy of a stored run.
load() {
	cp "$golden/plan" "$golden/$1"/* .
	cp "$root/ci/splats/deny" "$root/ci/splats/allow" .
}

# plant FILE: the kernel printed golden/guest/planted/FILE while "it" ran.
plant() {
	sed 's/^/[    1.360000] /; s/$/\r/' "$golden/planted/$1" >planted
	sed -i '/kmmu: begin it/r planted' console.log
}

# judge RC [OPTION...]: run verdict.py, which must exit with RC.
judge() {
	local rc=$1 killed=''
	shift
	[[ ! -f killed ]] || killed=$(<killed)
	run -"$rc" python3 "$root/tools/lib/verdict.py" --plan plan --console console.log \
		--verdict verdict.log --deny deny --allow allow --killed "$killed" \
		--out . --suite golden "$@"
}

# statuses "S S S": what the table says of the entries, in order.
statuses() {
	[[ $(awk '/^[A-Z]+ / { printf s $1; s = " " }' <<<"$output") == "$1" ]]
	# The files say the same, and can be parsed.
	python3 - "$1" <<-'END'
		import json, sys, xml.etree.ElementTree as ET
		want = sys.argv[1].split()
		result = json.load(open("result.json"))
		assert [e["status"] for e in result["entries"]] == want
		suite = ET.parse("junit.xml").getroot()
		assert suite.get("tests") == str(len(want))
		assert suite.get("failures") == str(want.count("FAIL"))
		assert suite.get("errors") == str(want.count("LOST") + want.count("TIMEOUT"))
		assert suite.get("skipped") == str(want.count("SKIP"))
		ktap = [line for line in open("results.ktap") if line[0] != "#"][2:]
		good = ["PASS", "SKIP"]
		assert [line.startswith("ok ") for line in ktap] == [s in good for s in want]
	END
}

# says TEXT: it is part of the table.
says() {
	[[ $output == *"$1"* ]]
}

# ------------------------------------------------------------------ judgement

@test "verdict: a good run passes" {
	load pass
	judge 0
	statuses "PASS PASS PASS"
	says "3 passed, 0 failed, 0 skipped"
	grep -q '^# working$' results.ktap
}

@test "verdict: a test that fails, and one that skips" {
	load fail
	judge 1
	statuses "PASS FAIL PASS"
	says "rc=1"
	load skip
	judge 0
	statuses "PASS SKIP PASS"
	says "2 passed, 0 failed, 1 skipped"
}

@test "verdict: a test that prints PASS and dies of a signal fails" {
	load signal
	grep -q '^# PASS$' verdict.log
	judge 1
	statuses "PASS FAIL PASS"
	says "signal=6"
}

@test "verdict: a test over its limit" {
	load timeout
	judge 1
	statuses "PASS TIMEOUT PASS"
}

@test "verdict: a WARN fails the test that ran, though it passed" {
	load warn
	grep -q '^ok 2 it$' verdict.log
	judge 1
	statuses "PASS FAIL PASS"
	says "splat: WARNING: CPU: 0 PID: 22 at drivers/misc/lkdtm/bugs.c"
}

@test "verdict: an oops fails the test that ran and loses the rest" {
	load oops
	judge 1
	statuses "PASS FAIL LOST"
	says "splat: BUG: kernel NULL pointer dereference"
}

@test "verdict: RCU stall, soft lockup, hung task" {
	load rcu-stall
	judge 1
	statuses "PASS FAIL LOST"
	says "splat: rcu: INFO: rcu_sched detected stalls"
	load soft-lockup
	judge 1
	statuses "PASS FAIL LOST"
	says "splat: watchdog: BUG: soft lockup"
	rm killed
	load hung-task
	judge 1
	statuses "PASS FAIL LOST"
	says "splat: INFO: task sh:22 blocked for more than 2 seconds. (FAIL: cannot be killed)"
}

@test "verdict: lockdep and KASAN reports" {
	load pass
	plant lockdep
	judge 1
	statuses "PASS FAIL PASS"
	says "splat: WARNING: possible circular locking dependency detected"
	load pass
	plant kasan
	judge 1
	statuses "PASS FAIL PASS"
	says "splat: BUG: KASAN: use-after-free in tdp_mmu_zap_spte_atomic"
}

@test "verdict: a user space trap is no splat" {
	load pass
	plant user-trap
	judge 0
	statuses "PASS PASS PASS"
}

@test "verdict: splats before the first test and after the last one" {
	load pass
	plant warn
	{ cat planted; cat "$golden/pass/console.log"; } >console.log
	judge 1
	statuses "FAIL PASS PASS PASS"
	says "FAIL    boot"
	{ cat "$golden/pass/console.log"; cat planted; } >console.log
	judge 1
	statuses "PASS PASS FAIL"
}

@test "verdict: a console that ends in mid-splat" {
	load pass
	sed -i '/kmmu: end it/,$d' console.log
	printf '[    1.36] WARNING: CPU: 0 PI' >>console.log
	judge 1
	statuses "PASS FAIL PASS"
}

@test "verdict: every pattern of the deny list matches something it must" {
	# One line for each pattern, in the order of the list.
	cat >lines <<-'END'
		BUG: unable to handle page fault for address: ffffc90000000000
		kernel BUG at arch/x86/kvm/mmu/mmu.c:1017!
		Oops: 0002 [#1] SMP
		general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP
		Kernel panic - not syncing: Fatal exception
		PANIC: double fault, error_code: 0x0
		Unable to handle kernel NULL pointer dereference at virtual address 0
		Internal error: Oops: 96000004
		WARNING: suspicious RCU usage
		INFO: trying to register non-static key.
		DEBUG_LOCKS_WARN_ON(1)
		turning off the locking correctness validator.
		bash/12 is scheduling while atomic
		rcu: INFO: rcu_preempt self-detected stall on CPU
		rcu: rcu_sched kthread starved for 268 jiffies!
		watchdog: BUG: soft lockup - CPU#0 stuck for 3s! [sh:22]
		INFO: task sh:22 blocked for more than 120 seconds.
		Kernel: hung_task: blocked tasks
		UBSAN: shift-out-of-bounds in arch/x86/kvm/mmu.c:7:3
		BUG kmalloc-64 (Tainted: G    B): Redzone overwritten
		refcount_t: underflow; use-after-free.
		list_del corruption, ffff888003a4e9f0->next is LIST_POISON1
		ODEBUG: free active (active state 0) object type: timer_list
		kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
		Bad rss-counter state mm:00000000c0ffee val:1
		kvm: vmwrite failed: field=2812 val=0 err=12
		unchecked MSR access error: RDMSR from 0x1a0
		Out of memory: Killed process 31 (dirty_log_test)
		mce: [Hardware Error]: Machine check events logged
	END
	python3 - "$root/ci/splats/deny" lines <<-'END'
		import re, sys
		deny = [l[:-1] for l in open(sys.argv[1]) if l.strip() and l[0] != "#"]
		lines = open(sys.argv[2]).read().splitlines()
		assert len(deny) == len(lines), (len(deny), len(lines))
		assert not [(p, l) for p, l in zip(deny, lines) if not re.search(p, l)]
	END
}

@test "verdict: an allowed splat passes, with its taint" {
	load pass
	plant warn
	sed -i -E '/before/,/ok 1/!s/tainted=0/tainted=512/' verdict.log
	echo 'tdp_mmu\.c:\d+ kvm_mmu_uninit_tdp_mmu ## the test wants it' >>allow
	judge 0
	statuses "PASS PASS PASS"
	# The same without the entry, and with an entry for something else.
	cp "$root/ci/splats/allow" .
	judge 1
	statuses "PASS FAIL PASS"
	echo 'tdp_mmu\.c:\d+ other_function ## the test wants it' >>allow
	judge 1
	statuses "PASS FAIL PASS"
}

@test "verdict: taint that no splat explains" {
	load pass
	sed -i -E '/before/,/ok 1/!s/tainted=0/tainted=512/' verdict.log
	judge 1
	statuses "PASS FAIL PASS"
	says "tainted the kernel (512)"
	# A proprietary module or a forced option is no complaint of the kernel.
	sed -i 's/tainted=512/tainted=5/' verdict.log
	judge 0
	statuses "PASS PASS PASS"
}

@test "verdict: no list, an empty list, a bad list" {
	load pass
	mv deny saved
	judge 2
	says "cannot read deny"
	: >deny
	judge 2
	says "deny is empty"
	grep '^#' saved >deny
	judge 2
	says "deny is empty"
	echo '(' >deny
	judge 2
	says "deny:1:"
	mv saved deny
	echo 'WARNING: ' >allow
	judge 2
	says "allow:1: no ' ## ' and reason"
	rm allow
	judge 2
	says "cannot read allow"
	[[ ! -e result.json ]]
}

@test "verdict: a report that ends early loses what it does not prove" {
	load pass
	: >verdict.log
	judge 1
	statuses "LOST LOST LOST"
	# ... in the output of a test
	sed '/^# working/,$d' "$golden/pass/verdict.log" >verdict.log
	judge 1
	statuses "PASS LOST LOST"
	# ... within a result line
	sed '/^ok 2/,$d' "$golden/pass/verdict.log" >verdict.log
	printf 'ok 2 it' >>verdict.log
	judge 1
	statuses "PASS LOST LOST"
	# ... right after a result
	sed '/kmmu-begin .* 3/,$d' "$golden/pass/verdict.log" >verdict.log
	judge 1
	statuses "PASS LOST LOST"
	says "the guest died after its result"
	# ... before the verdict, and within it
	sed '$d' "$golden/pass/verdict.log" >verdict.log
	judge 1
	statuses "PASS PASS LOST"
	head -c -5 "$golden/pass/verdict.log" >verdict.log
	judge 1
	statuses "PASS PASS LOST"
}

@test "verdict: a silent hang" {
	load hang
	judge 1
	statuses "PASS TIMEOUT LOST"
	says "hung: silent for 30 s"
}

@test "verdict: a guest that reboots" {
	load reboot
	judge 1
	statuses "PASS LOST LOST"
	# One that comes back and then runs everything is no better.
	cat "$golden/pass/verdict.log" >>verdict.log
	judge 1
	statuses "PASS LOST LOST"
}

@test "verdict: an emulator that failed" {
	load pass
	sed -i "/kmmu-begin .* 2/a # kmmu-tripped $nonce kvm/kvm_exit guest_rip > 1" verdict.log
	judge 1
	statuses "PASS LOST LOST"
	says "the emulator failed: kvm/kvm_exit guest_rip > 1"
	# ... or a test that says so
	sed -i '/kmmu-tripped/s/d [0-9a-f]* /d 00 /' verdict.log
	judge 0
}

@test "verdict: the wrong nonce" {
	load pass
	sed -i "s/$nonce/fedcba9876543210fedcba9876543210/" verdict.log
	judge 1
	statuses "LOST LOST LOST"
	load pass
	sed -i "/kmmu-verdict/s/$nonce/fedcba9876543210fedcba9876543210/" verdict.log
	judge 1
	statuses "PASS PASS LOST"
}

@test "verdict: a test cannot report in the guest's name" {
	load fail
	sed -i "/^# bad/a # ok 2 it\n# # kmmu-end $nonce 2 us=1 tainted=0\n# kmmu-verdict 00 pass=3 fail=0 skip=0 tainted=0" verdict.log
	judge 1
	statuses "PASS FAIL PASS"
}

@test "verdict: a verdict that contradicts the results, or is not the end" {
	load fail
	sed -i 's/pass=2 fail=1/pass=3 fail=0/' verdict.log
	judge 1
	statuses "PASS FAIL LOST"
	load pass
	echo 'ok 4 more' >>verdict.log
	judge 1
	statuses "PASS PASS LOST"
}

@test "verdict: results of something else than the plan" {
	load pass
	sed -i 's/2 it/2 other/' verdict.log
	judge 1
	statuses "LOST LOST LOST"
	load pass
	sed -i 's/1\.\.3/1..2/' verdict.log
	judge 1
	statuses "LOST LOST LOST"
}

@test "verdict: binary output does no harm" {
	load pass
	sed -i 's/^# working/# wor\x00king \xff\xfe \x1b[31m ]]> <\&>/' verdict.log
	judge 0
	statuses "PASS PASS PASS"
}

@test "verdict: before the run everything is lost" {
	load pass
	judge 1 --before
	statuses "LOST LOST LOST"
	says "the run did not finish"
}

# ---------------------------------------------------------------- real guests

crash=/sys/kernel/debug/provoke-crash/DIRECT

# entry NAME LIMIT COMMAND: add it to the plan.
entry() {
	printf 'run\t%s\t%s\t%s\n' "$@" >>plan
}

# guest RC [OPTION...]: run the plan in a guest; guest-run must exit with RC.
guest() {
	local rc=$1
	shift
	run -"$rc" --separate-stderr env KMMU_BUILD="$BATS_FILE_TMPDIR" \
		"$root/tools/guest-run" --emulator qemu-svm --kernel "$KMMU_TEST_BZIMAGE" \
		--plan plan --out out --mem 256 "$@"
	cp out/result.json out/junit.xml out/results.ktap . 2>/dev/null || :
}

needs_kernel() {
	[[ ${KMMU_TEST_BZIMAGE-} ]] || skip "KMMU_TEST_BZIMAGE names no kernel to boot"
}

@test "guest: pass, fail, skip, signal, time-out, and what is left behind" {
	needs_kernel
	mkdir -p tests files/etc
	printf '#!/bin/sh\necho "tool in $PWD"\n' >tests/tool
	chmod +x tests/tool
	echo data >files/etc/data
	entry pass 10 'tool && cat /etc/data'
	entry fail 10 'exit 1'
	entry skip 10 'exit 4'
	entry signal 10 'echo PASS; kill -ABRT $$'
	entry slow 1 'sleep 1000 & sleep 1000'
	entry leftover 10 'setsid sleep 1000 & echo started'
	# Nothing of the earlier entries runs any more.
	entry alone 10 '! pidof sleep'
	entry devices 10 'test -c /dev/kvm && test -d /sys/kernel/debug/kvm && test -d /sys/kernel/tracing/events/kvm'
	guest 1 --tests tests --files files
	statuses "PASS FAIL SKIP FAIL TIMEOUT PASS PASS PASS"
	says "rc=1"
	says "signal=6"
	grep -qx '# tool in /tests' out/results.ktap
	grep -qx '# data' out/results.ktap
	grep -qx '# PASS' out/results.ktap
	# cmd boots the same guest again.
	rm out/verdict.log
	run -1 out/cmd
	grep -q '^ok 1 pass$' out/verdict.log
}

@test "guest: all pass, with two CPUs" {
	needs_kernel
	entry cpus 10 'test "$(nproc)" = 2'
	entry cmdline 10 'grep -w kmmu_test /proc/cmdline'
	guest 0 --cpus 2 --cmdline kmmu_test
	statuses "PASS PASS"
	says "2 passed, 0 failed, 0 skipped"
}

@test "guest: the tripwire ends a guest of several CPUs, in whose traces it is not seen" {
	needs_kernel
	mkdir root
	cp -R "$root/tools" "$root/ci" root/
	sed -i 's|^smp_tripwire=.*|smp_tripwire=sched/sched_process_exec filename ~ "*/trip"|' \
		root/tools/guest/emulators/qemu-svm
	mkdir tests
	printf '#!/bin/sh\nsleep 1\n' | tee tests/trip >tests/other
	chmod +x tests/*
	entry other 10 'other && ! grep -q sched_process_exec /sys/kernel/tracing/trace'
	entry trip 10 'printf "no newline"; trip'
	entry last 10 true
	root=root guest 1 --cpus 2 --tests tests
	statuses "PASS LOST LOST"
	says "the emulator failed: sched/sched_process_exec"
	root=root guest 0 --tests tests
	statuses "PASS PASS PASS"
}

@test "guest_run: a run in which the emulator failed is repeated, though not for ever" {
	mkdir out kernel
	printf 'nonce\t%s\n' "$nonce" >out/plan
	mkdir root
	cp -R "$root/tools" root/
	printf '#!/bin/sh\necho run >>runs\n[ "$(wc -l <runs)" != "$GOOD" ] || echo ok >out/verdict.log\nexit 1\n' \
		>root/tools/guest-run
	tries() {
		rm -f runs
		echo "# kmmu-tripped $nonce event" >out/verdict.log
		run -1 env GOOD="$1" bash -c '
			. root/tools/lib/common.sh; . root/tools/lib/profile.sh
			run_conf() { echo 1; }; run_cmdline() { :; }
			guest_run amd kernel . plan out'
		[[ $(wc -l <runs) == "$2" ]]
	}
	tries 2 2
	tries 0 5
}

@test "guest: a WARN" {
	needs_kernel
	entry before 10 true
	entry warn 10 "echo WARNING >$crash"
	entry after 10 true
	guest 1
	statuses "PASS FAIL PASS"
	says "splat: WARNING: "
}

@test "guest: an oops, a panic, a reboot" {
	needs_kernel
	entry before 10 true
	entry oops 10 "echo PASS; echo EXCEPTION >$crash"
	entry after 10 true
	guest 1
	statuses "PASS FAIL LOST"
	says "splat: BUG: kernel NULL pointer dereference"
	sed -i "s/EXCEPTION/PANIC/" plan
	guest 1
	statuses "PASS FAIL LOST"
	says "splat: Kernel panic"
	sed -i "s/echo PANIC.*/reboot -f/" plan
	guest 1
	statuses "PASS LOST LOST"
}

@test "guest: a silent hang" {
	needs_kernel
	entry before 10 true
	entry hang 1 "echo HARDLOCKUP >$crash"
	entry after 10 true
	guest 1
	statuses "PASS TIMEOUT LOST"
	says "hung: silent for"
}

@test "guest: a hang that makes noise, cut short by --timeout" {
	needs_kernel
	entry before 10 true
	entry noise 10 "echo 1 >/proc/sys/kernel/watchdog_thresh; echo SOFTLOCKUP >$crash"
	entry after 10 true
	guest 1 --timeout 20
	statuses "PASS FAIL LOST"
	says "soft lockup"
	says "ran into --timeout 20"
}

@test "guest: a kernel that does not boot" {
	needs_kernel
	entry never 10 true
	guest 1 --cmdline "init=/no rdinit=/no"
	statuses "FAIL LOST"
	says "splat: Kernel panic - not syncing"
	head -c 100000 /dev/zero >zero
	KMMU_BUILD=$BATS_FILE_TMPDIR refuses "the emulator did not start: qemu" \
		--emulator qemu-svm --kernel zero --plan plan --out out
}

@test "guest: an emulator that does not start" {
	needs_kernel
	entry never 10 true
	KMMU_BUILD=$BATS_FILE_TMPDIR refuses "the emulator did not start: qemu-system-x86_64: " \
		--emulator qemu-svm --kernel "$KMMU_TEST_BZIMAGE" --plan plan --out out --mem 99999999
	! command -v bochs || KMMU_BUILD=$BATS_FILE_TMPDIR refuses "the emulator did not start: [SIM" \
		--emulator bochs-vmx --kernel "$KMMU_TEST_BZIMAGE" --plan plan --out out --mem 99999999
}

@test "guest: Bochs passes, fails, and ends on a panic" {
	needs_kernel
	command -v bochs >/dev/null || skip "no bochs"
	local emulator
	entry kvm 10 'test -c /dev/kvm'
	entry fail 10 'exit 1'
	entry panic 10 "echo PANIC >$crash"
	for emulator in bochs-vmx bochs-svm; do
		guest 1 --emulator "$emulator"
		statuses "PASS FAIL FAIL"
		says "splat: Kernel panic - not syncing: dumptest"
	done
}

@test "guest: Bochs brings up several CPUs" {
	needs_kernel
	command -v bochs >/dev/null || skip "no bochs"
	entry cpus 10 'test "$(cat /sys/devices/system/cpu/online)" = 0-1'
	guest 0 --emulator bochs-vmx --cpus 2
}

@test "guest: --icount gives the same time every time" {
	needs_kernel
	local first second
	entry work 60 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'
	guest 0 --icount
	first=$(grep -o 'us=[0-9]*' out/verdict.log)
	guest 0 --icount
	second=$(grep -o 'us=[0-9]*' out/verdict.log)
	awk -v a="${first#us=}" -v b="${second#us=}" 'BEGIN { exit !(a > 1000 && (a - b) ^ 2 < (a / 1e4) ^ 2) }'
}

# interrupt SIGNAL EMULATOR: send SIGNAL to a guest-run whose guest has begun;
# the status is guest-run's.  The emulator must be gone afterwards.
interrupt() {
	local pid child rc=0
	rm -rf plan out
	entry long 1000 'sleep 1000'
	KMMU_BUILD=$BATS_FILE_TMPDIR env --default-signal=INT "$root/tools/guest-run" \
		--emulator "$2" --kernel "$KMMU_TEST_BZIMAGE" --plan plan --out out \
		>log 2>&1 3>&- &
	pid=$!
	until grep -qs kmmu-begin out/verdict.log; do
		kill -0 "$pid" || return 98
		sleep 0.2
	done
	child=$(pgrep -P "$pid" "${2%%-*}")
	kill -"$1" "$pid"
	wait "$pid" || rc=$?
	# It may need a moment to die, but not ten seconds.
	timeout 10 sh -c 'while kill -0 "$1"; do sleep 0.2; done' _ "$child" 2>/dev/null || return 99
	return "$rc"
}

@test "guest: Ctrl-C, TERM and KILL leave no emulator and no verdict" {
	needs_kernel
	local signal rc
	for signal in "INT qemu-svm" "TERM qemu-svm" "KILL qemu-svm" "INT bochs-vmx" "KILL bochs-svm"; do
		rc=0
		# shellcheck disable=SC2086 # two words
		interrupt $signal || rc=$?
		if [[ $signal == KILL* ]]; then
			[[ $rc == 137 ]]
		else
			[[ $rc == 2 ]]
			grep -q 'interrupted; .* holds no verdict' log
		fi
		grep -q '"status": "LOST"' out/result.json
		grep -q '^not ok 1 long # LOST' out/results.ktap
	done
}

# ---------------------------------------------------------------- environment

# refuses TEXT [OPTION...]: guest-run exits with 2 and one line that has TEXT.
refuses() {
	local text=$1
	shift
	run -2 "$root/tools/guest-run" "$@"
	[[ $output == *"$text"* ]]
	[[ ${#lines[@]} == 1 ]]
	[[ ! -e out/result.json ]] || grep -q '"passed": 0' out/result.json
}

@test "guest-run: wrong usage" {
	: >kernel
	entry a 10 true
	local good=(--kernel kernel --plan plan --out out)
	refuses "no emulator ''; there are: bochs-svm bochs-vmx qemu-svm" "${good[@]}"
	good+=(--emulator qemu-svm)
	refuses "--kernel, --plan and --out are needed" --emulator qemu-svm
	refuses "unknown argument '--nonsense'" "${good[@]}" --nonsense
	refuses "--plan needs a value" --plan
	refuses "--cpus '0' is not a positive number" "${good[@]}" --cpus 0
	refuses "cannot read absent" "${good[@]}" --kernel absent
	refuses "cannot read absent" "${good[@]}" --plan absent
	refuses "--tests absent is not a directory" "${good[@]}" --tests absent
	refuses "--icount works with one CPU only" "${good[@]}" --icount --cpus 2
	refuses "bochs-svm has one CPU only" "${good[@]}" --emulator bochs-svm --cpus 2
	! command -v bochs || refuses "bochs-vmx has 1 to 4 or 8 CPUs, not 5" "${good[@]}" --emulator bochs-vmx --cpus 5
	refuses "over 2000 characters" "${good[@]}" --cmdline "$(printf 'x%.0s' {1..2000})"
	run -0 "$root/tools/guest-run" --help
	says "guest-run: run one guest"
}

@test "guest-run: a bad plan" {
	: >kernel
	local good=(--emulator qemu-svm --kernel kernel --plan plan --out out)
	: >plan
	refuses "line 0: nothing to run" "${good[@]}"
	entry a 10 true
	entry a 10 true
	refuses "line 2: a second entry is called a" "${good[@]}"
	printf 'run\ta\tten\ttrue\n' >plan
	refuses "line 1: not run<TAB>NAME" "${good[@]}"
	printf 'run a 10 true\n' >plan
	refuses "line 1: not run<TAB>NAME" "${good[@]}"
	printf 'run\ta # SKIP\t10\ttrue\n' >plan
	refuses "line 1: not run<TAB>NAME" "${good[@]}"
}

# without PROGRAM: make bin/, a PATH that lacks it.
without() {
	rm -rf bin
	mkdir bin
	ln -s /usr/bin/* bin/
	rm "bin/$1"
}

@test "guest-run: missing packages" {
	: >kernel
	entry a 10 true
	local good=(--emulator qemu-svm --kernel kernel --plan plan --out out) path=$PATH
	without busybox
	PATH=$PWD/bin refuses "install the package busybox-static" "${good[@]}"
	without cpio
	PATH=$PWD/bin refuses "install the package cpio" "${good[@]}"
	without cc
	KMMU_BUILD=$PWD/build PATH=$PWD/bin refuses "install the package gcc" "${good[@]}"
	without qemu-system-x86_64
	PATH=$PWD/bin refuses "install the package qemu-system-x86" "${good[@]}"
	without bochs
	PATH=$PWD/bin refuses "install the package bochs" "${good[@]}" --emulator bochs-vmx
	without xorriso
	PATH=$PWD/bin refuses "install the package xorriso" "${good[@]}" --emulator bochs-vmx
	PATH=$path
}

@test "guest-run: a folder that cannot be written, a disk that is full" {
	: >kernel
	entry a 10 true
	local good=(--emulator qemu-svm --kernel kernel --plan plan)
	: >file
	refuses "cannot make the folder file/out" "${good[@]}" --out file/out
	# A limit on the size of files, in KiB, cuts the initramfs short.
	(
		trap '' XFSZ
		ulimit -f 1500
		refuses "cannot make" "${good[@]}" --out out
	)
	grep -q '"status": "LOST"' out/result.json
}
