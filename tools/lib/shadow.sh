# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Repositories of our own that read another's objects.  Source after stack.sh.
#
# Branches, bisections and work trees made there leave no trace in the other.

# shadow_repo DIR OTHER: make DIR a bare repository with the objects of OTHER.
shadow_repo() {
	local objects shallow
	objects=$(git -C "$2" rev-parse --path-format=absolute --git-path objects) || exit 2
	shallow=$(git -C "$2" rev-parse --path-format=absolute --git-path shallow) || exit 2
	# shellcheck disable=SC2154 # quiet() sets it
	[[ -d $1/objects ]] || quiet git init -q --bare --template= "$1" || die "could not make $1: $said"
	mkdir -p "$1/objects/info"
	printf '%s\n' "$objects" >"$1/objects/info/alternates"
	rm -f "$1/shallow"
	[[ ! -f $shallow ]] || cp "$shallow" "$1/shallow"
}
