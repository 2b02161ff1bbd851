# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Guest runs of a profile.  Source after build.sh.
#
# A run is a profile with one of its variants, written PROFILE/VARIANT, e.g.
# amd/tdp_mmu=1, or the bare profile where it has none.

# profile_runs PROFILE[/VARIANT]: the runs this names, one a line.
profile_runs() {
	local profile=${1%%/*} file variants variant
	file=$(profile_file "$profile") || exit
	variants=$(conf "$file" variants "")
	if [[ $1 == */* ]]; then
		[[ " $variants " == *" ${1#*/} "* ]] ||
			die "profile $profile has no variant '${1#*/}'; it has: $variants"
		printf '%s\n' "$1"
	elif [[ -z $variants ]]; then
		printf '%s\n' "$profile"
	else
		for variant in $variants; do
			printf '%s/%s\n' "$profile" "$variant"
		done
	fi
}

# run_conf RUN KEY [DEFAULT]: a value of the run's profile.
run_conf() {
	local run=$1
	shift
	conf "$(profile_file "${run%%/*}")" "$@"
}

# run_cmdline RUN: the kernel parameters of a run.
run_cmdline() {
	printf '%s' "$(run_conf "$1" cmdline "")"
	[[ $1 != */* ]] || printf ' kvm.%s' "${1#*/}"
}

# guest_run RUN KERNEL-DIR TESTS-DIR PLAN OUT [OPTION...]: boot the run's guest
# and run PLAN in it; options go to tools/guest-run.  Status is that of
# guest-run, all output is in OUT.log.  A run in which the emulator failed by its own
# account says nothing of the kernel and is repeated, but not for ever.
guest_run() {
	local run=$1 img=$2 tests=$3 plan=$4 out=$5 rc tries=5
	shift 5
	while :; do
		rc=0
		logged "$out.log" "$kmmu_root/tools/guest-run" --emulator "$(run_conf "$run" emulator)" \
			--kernel "$img/bzImage" --tests "$tests" --plan "$plan" --out "$out" \
			--cmdline "$(run_cmdline "$run")" --mem "$(run_conf "$run" memory 1024)" \
			--cpus "$(run_conf "$run" cpus 1)" "$@" || rc=$?
		((--tries)) && tripped "$out" || return "$rc"
		note "$run: the emulator failed; once more"
	done
}

# tripped OUT: did the emulator's tripwire end this run of guest-run?
tripped() {
	local nonce
	nonce=$(awk -F '\t' '$1 == "nonce" { print $2 }' "$1/plan" 2>/dev/null) && [[ $nonce ]] &&
		grep -qs "^# kmmu-tripped $nonce " "$1/verdict.log"
}

# exact_options RUN: options of guest_run() for a guest whose clock counts its
# instructions, one a line.  Bochs' always does.
exact_options() {
	printf '%s\n' --cpus 1
	[[ $(run_conf "$1" emulator) != qemu-* ]] || echo --icount
}

# harness_key: a hash of everything that decides how a guest is run and judged.
harness_key() {
	cat "$kmmu_root"/tools/guest-run "$kmmu_root"/tools/guest/*.c "$kmmu_root"/tools/guest/emulators/* \
		"$kmmu_root"/tools/lib/verdict.py "$kmmu_root"/ci/splats/* |
		content_key "$(qemu-system-x86_64 --version 2>&1 | head -1)" \
			"$(dpkg-query -W -f '${Version}' bochs busybox-static 2>/dev/null)"
}

# pool COMMAND...: run COMMAND in the background, but no more than one job a core
# at a time.  pool_wait waits for all; jobs report through files, not by status.
pool() {
	while (($(jobs -rp | wc -l) >= $(nproc))); do
		wait -n || true
	done
	background "$@"
}

pool_wait() {
	wait
}

# end_jobs: a killed verb takes its guests along.
end_jobs() {
	kill_jobs
	printf 'kmmu %s: interrupted; nothing that did not finish counts\n' "$kmmu_verb" >&2
	exit 2
}
trap end_jobs INT TERM
