#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# kmmu variants, on the toy kernel: "make" copies a source file for a kernel, and
# the guest that stands in for a real one looks for a planted defect in it.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0
load stack

setup_file() {
	isolate
	make_toy
	local bin=$BATS_FILE_TMPDIR/bin
	cat >"$bin/make" <<-'EOF'
	#!/usr/bin/env bash
	set -e
	for arg in "$@"; do
		case $arg in O=*|OUTPUT=*) out=${arg#*=} ;; esac
	done
	case " $* " in
	*" allnoconfig "*) cp "$KCONFIG_ALLCONFIG" "$out/.config" ;;
	*" bzImage "*)
		! grep -q "does not compile" arch/x86/kvm/a.c "$3/arch/x86/kvm/a.c" 2>/dev/null || exit 1
		mkdir -p "$out/arch/x86/boot"
		cp "$3/arch/x86/kvm/a.c" "$out/arch/x86/boot/bzImage"
		: >"$out/System.map"
		;;
	*" kernelversion "*) echo 5.10.0 ;;
	esac
	EOF
	chmod +x "$bin/make"
	cat >"$BATS_FILE_TMPDIR/co/tools/guest-run" <<-'EOF'
	#!/usr/bin/env bash
	set -e
	while (($#)); do
		declare "${1#--}=$2"
		shift 2
	done
	mkdir -p "$out"
	status=PASS splats="" output=""
	case $(sed -n 's/^int defect_//p' "$kernel") in
	"data;"*) status=FAIL output='"page 7 is wrong"' ;;
	"splat;"*) status=FAIL splats='"BUG: KASAN: use-after-free in toy"' ;;
	"hang;"*) status=TIMEOUT ;;
	esac
	printf '{"entries": [{"name": "test", "status": "%s", "reason": "r", "seconds": 1, "splats": [%s], "output": [%s]}]}\n' \
		"$status" "$splats" "$output" >"$out/result.json"
	EOF
	# The commits' tests are compiled by nothing here.
	sed -i 's/^build_tests() {$/&\n\techo "$kmmu_build\/tests"; return/' "$BATS_FILE_TMPDIR/co/tools/lib/build.sh"
	rm -rf "$BATS_FILE_TMPDIR/co/ci/variants"
}

# variant NAME DEFECT CAUGHT-BY [PROFILE]: a variant that plants int defect_DEFECT.
variant() {
	mkdir -p "$co/ci/variants/alpha"
	cat >"$co/ci/variants/alpha/$1.patch" <<-EOF
	breaks=the toy, by $2
	profile=${4:-amd/tdp_mmu=1}
	test=toy_test -x
	limit=10
	caught_by=$3

	--- a/arch/x86/kvm/a.c
	+++ b/arch/x86/kvm/a.c
	@@ -1,3 +1,4 @@
	 int planted_1;
	+int defect_$2;
	 int planted_2;
	 int planted_3;
	EOF
}

@test "variants: those that are caught as stated" {
	toy
	variant lost-data data 'output page [0-9]+ is wrong'
	variant freed splat 'splat KASAN: use-after-free'
	variant stuck hang hang
	kmmu 0 variants
	[[ $output == *"ok - alpha/freed: caught: BUG: KASAN: use-after-free in toy"* ]]
	[[ $output == *"ok - alpha/lost-data: caught: page 7 is wrong"* ]]
	[[ $output == *"ok - alpha/stuck: caught: r"* ]]
	[[ ${lines[-1]} != *"not ok"* && $output == *$'\n3 passed, 0 failed' ]]
	[[ -f $co/build/toy/variants/alpha/freed/tip/result.json ]]
	grep -q $'^run\ttest\t10\t/tests/toy_test -x$' "$co/build/toy/variants/alpha/freed/plan"
}

@test "variants: a smoke test that has to catch one" {
	toy
	variant freed splat 'splat KASAN: use-after-free'
	sed -i 's,^test=.*,test=smoke/tdp-mmu,' "$co/ci/variants/alpha/freed.patch"
	kmmu 0 variants
	grep -q $'^run\ttest\t10\t/smoke/tdp-mmu$' "$co/build/toy/variants/alpha/freed/plan"
	cmp "$co/ci/smoke/tdp-mmu" "$co/build/toy/variants/alpha/freed/files/smoke/tdp-mmu"
}

@test "variants: the tip and the applied patches are left alone" {
	toy
	variant lost-data data 'output wrong'
	kmmu 0 apply
	before=$(git -C "$co/kernel-toy" for-each-ref; git -C "$tree" status --porcelain; git -C "$tree" rev-parse HEAD)
	kmmu 0 variants
	after=$(git -C "$co/kernel-toy" for-each-ref; git -C "$tree" status --porcelain; git -C "$tree" rev-parse HEAD)
	[[ $before == "$after" ]]
	no_litter
}

@test "variants: a defect that is not noticed, or in another way, is a failure" {
	toy
	variant unnoticed nothing 'output page'
	variant otherwise hang 'splat KASAN'
	variant other-data data 'output page 8'
	kmmu 1 variants
	[[ $output == *"not ok - alpha/unnoticed: not caught by output page but: test: PASS r"* ]]
	[[ $output == *"not ok - alpha/otherwise: not caught by splat KASAN but: test: TIMEOUT r"* ]]
	[[ $output == *"not ok - alpha/other-data: not caught by output page 8 but: test: FAIL r (page 7 is wrong)"* ]]
	[[ $output == *$'\n0 passed, 3 failed' ]]
}

@test "variants: a test that fails on the tip as well catches nothing" {
	toy
	sed -i 's/^+int first;$/+int defect_data;/' "$co"/patches/toy/alpha/*.patch
	variant lost-data data 'output page'
	kmmu 1 variants
	[[ $output == *"not ok - alpha/lost-data: the tip fails: test: FAIL r (page 7 is wrong)"* ]]
}

@test "variants: one that does not apply at fuzz 0, or not build, is a failure" {
	toy
	variant stale data 'output page'
	sed -i 's/^ int planted_3;$/ int planted_4;/' "$co/ci/variants/alpha/stale.patch"
	variant broken 'x; does not compile' 'output page'
	variant fine data 'output page'
	kmmu 1 variants
	[[ $output == *"not ok - alpha/stale: does not apply: patch failed: arch/x86/kvm/a.c:1"* ]]
	[[ $output == *"not ok - alpha/broken: cannot test what is broken"* ]]
	[[ $output == *"ok - alpha/fine: "* && $output == *$'\n1 passed, 2 failed' ]]
}

@test "variants: by topic and by name" {
	toy
	variant one data 'output page'
	variant two data 'output page'
	kmmu 0 variants alpha/two
	[[ $output != *alpha/one* && $output == *$'\n1 passed, 0 failed' ]]
	kmmu 0 variants alpha
	[[ $output == *$'\n2 passed, 0 failed' ]]
	refused variants alpha/tw
	[[ $stderr == *"no variant 'alpha/tw'; there are: alpha/one alpha/two" ]]
	mv "$co/ci/variants/alpha" "$co/ci/variants/gamma"
	refused variants
}

@test "variants: a header that lacks something is status 2 and one line" {
	toy
	for key in breaks profile test limit caught_by; do
		variant one data 'output page'
		sed -i "/^$key=/d" "$co/ci/variants/alpha/one.patch"
		kmmu 2 variants
		[[ $stderr == *"no '$key='"* ]]
	done
	variant one data 'output page' amd
	kmmu 2 variants
	[[ $stderr == *"the profile amd has variants; name one"* ]]
	variant one data 'somehow page'
	kmmu 2 variants
	[[ $stderr == *"'somehow page' is no way to fail"* ]]
	variant one data 'output ['
	kmmu 2 variants
}
