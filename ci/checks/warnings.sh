# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Warnings of a commit against those of its parent.  Source after lib.sh; builds
# have their compiler (or sparse) run through ci/checks/record.
: "${obj:?}" "${tree:?}" "${commit:?}" "${parent:?}"
export KMMU_WARNINGS=$obj/warnings
mkdir -p "$KMMU_WARNINGS"

# warnings: all that was recorded, as "FILE: TEXT".  Line numbers go, since code
# above moves them, but only after a header that many files include counts once.
warnings() {
	find "$KMMU_WARNINGS" -type f ! -name '*.new' -exec cat {} + |
		sed -nE '/(warning|error): /p' | short_paths | sort -u |
		sed -E 's/:[0-9]+(:[0-9]+)?:/:/'
}

# compare_builds: build parent and commit and end the check.  The script that
# sources this has build COMMIT, which fails when that does not compile, and
# first_error, which then says why.
compare_builds() {
	local new count
	if ! build "$parent"; then
		build "$commit" || failed "does not build: $(first_error)"
		warned "builds, but its parent does not: no warnings to compare with"
	fi
	warnings >"$obj/before"
	build "$commit" || failed "does not build: $(first_error)"
	warnings >"$obj/after"
	new=$(comm -13 <(sort "$obj/before") <(sort "$obj/after"))
	[[ -n $new ]] || passed "no new warnings, $(wc -l <"$obj/before") at the parent"
	count=$(wc -l <<<"$new")
	printf 'new warnings:\n%s\n' "$new"
	failed "$count new: $(head -1 <<<"$new")"
}
