# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Plans for guests from a list of tests in ci/tests.

# test_plan LIST RUN TESTS-DIR [NAME...]: the plan for those tests of the list that
# exist there (default: all).
test_plan() {
	local list=$1 run=$2 dir=$3 name limit command
	shift 3
	while read -r name limit command; do
		[[ -x $dir/${command%% *} ]] || continue
		(($# == 0)) || [[ " $* " == *" $name "* ]] || continue
		printf 'run\t%s\t%s\t%s\n' "$name" "$limit" "$(skip_or_run "$list" "$name" "$run" "$command")"
	done < <(grep -vE '^(#|skip |$)' "$list")
}

# skip_or_run LIST NAME RUN COMMAND: the command, or one that skips with the reason.
skip_or_run() {
	local pattern reason name
	while read -r _ name pattern reason; do
		# shellcheck disable=SC2053 # a pattern is meant
		if [[ $name == "$2" && $3 == $pattern ]]; then
			printf 'echo "skipped: %s"; exit 4' "$reason"
			return
		fi
	done < <(grep '^skip ' "$1")
	printf '/tests/%s' "$4"
}
