# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The stack as git commits.  Source after common.sh.
#
# Patches become commits in the base's own repository without a work tree:
# `git apply --cached` on an index of our own, then commit-tree.  A commit's id
# depends on the base and on the patch files alone, since author, dates and
# message come from the mail and the committer is fixed.  Each commit is kept
# under refs/kmmu/at/KEY, where KEY hashes everything below it, so a prefix that
# was applied before costs one look-up a patch.

readonly kmmu_committer_name="kmmu"
readonly kmmu_committer_email="kmmu@localhost"

# kgit ARGS...: git in the base's repository, whatever the user's config says
# about line ends, prefixes or algorithms.
kgit() {
	git -c core.autocrlf=false -c core.safecrlf=false -c core.quotePath=true \
		-c diff.algorithm=default -c diff.noprefix=false \
		-c diff.mnemonicPrefix=false -c diff.renames=false \
		-c apply.whitespace=nowarn -c gc.auto=0 -C "${kgit_dir:-$(base_git)}" "$@"
}

# ensure_base: get the base's sources if they are not here yet.
ensure_base() {
	kgit rev-parse -q --verify refs/kmmu/base >/dev/null 2>&1 && return
	"$kmmu_root/tools/verbs/setup" --stack "$stack" --sources-only
}

# base_commit: the id of the base.
base_commit() {
	kgit rev-parse -q --verify 'refs/kmmu/base^{commit}' ||
		die "no base in $(base_git); run 'tools/kmmu setup'"
}

# commit_mail PARENT MAIL: commit MAIL on top of PARENT in the index named by
# GIT_INDEX_FILE (which must hold PARENT's tree); prints the new commit's id.
# Status 1, with git's complaint on stderr, when the patch does not apply.
commit_mail() {
	local parent=$1 mail=$2 tmp info tree
	tmp=$(mktemp -d)
	info=$(kgit mailinfo --no-scissors --encoding=UTF-8 "$tmp/msg" "$tmp/diff" <"$mail")
	if ! kgit apply --cached "$tmp/diff"; then
		rm -rf "$tmp"
		return 1
	fi
	tree=$(kgit write-tree)
	{ sed -n 's/^Subject: //p' <<<"$info"; echo; cat "$tmp/msg"; } |
		git stripspace >"$tmp/message"
	GIT_AUTHOR_NAME=$(sed -n 's/^Author: //p' <<<"$info") \
	GIT_AUTHOR_EMAIL=$(sed -n 's/^Email: //p' <<<"$info") \
	GIT_AUTHOR_DATE=$(sed -n 's/^Date: //p' <<<"$info") \
	GIT_COMMITTER_NAME=$kmmu_committer_name \
	GIT_COMMITTER_EMAIL=$kmmu_committer_email \
	GIT_COMMITTER_DATE=$(sed -n 's/^Date: //p' <<<"$info") \
		kgit -c i18n.commitEncoding=UTF-8 commit-tree "$tree" -p "$parent" -F "$tmp/message"
	rm -rf "$tmp"
}

# commit_chain PARENT ENTRY...: commit the series entries one after the other
# on PARENT; prints "ENTRY COMMIT" lines.  On a patch that does not apply: one
# line on stderr that names it and the first hunk, status 1.
commit_chain() {
	local commit=$1 entry key index loaded="" ref next errors
	shift
	key=$commit
	index=$(mktemp -u)
	errors=$(mktemp)
	for entry in "$@"; do
		key=$(content_key "$key" <"$kmmu_root/patches/$entry")
		ref=refs/kmmu/at/$key
		if ! next=$(kgit rev-parse -q --verify "$ref^{commit}"); then
			[[ $loaded == "$commit" ]] ||
				GIT_INDEX_FILE=$index kgit read-tree "$commit"
			if ! next=$(GIT_INDEX_FILE=$index commit_mail "$commit" \
				"$kmmu_root/patches/$entry" 2>"$errors"); then
				printf 'kmmu %s: %s does not apply: %s\n' "$kmmu_verb" "$entry" \
					"$(sed -n 's/^error: //p' "$errors" | head -1)" >&2
				rm -f "$index" "$errors"
				return 1
			fi
			kgit update-ref "$ref" "$next"
			loaded=$next
		fi
		commit=$next
		printf '%s %s\n' "$entry" "$commit"
	done
	rm -f "$index" "$errors"
}

# stack_entries [UNTIL]: the series entries up to and including UNTIL.
stack_entries() {
	local until=${1-}
	[[ -z $until ]] || until=$(find_patch "$until")
	series_patches | awk -v until="$until" '{ print } $0 == until { exit }'
}

# stack_commits [UNTIL]: "ENTRY COMMIT" for each patch of the stack on the base,
# up to and including UNTIL.  Dies when a patch does not apply.
stack_commits() {
	local out entries
	ensure_base
	out=$(stack_entries "$@")
	mapfile -t entries <<<"$out"
	commit_chain "$(base_commit)" ${out:+"${entries[@]}"} || exit 2
}

# stack_commit base|tip|PATCH: the commit id of that point of the stack.
stack_commit() {
	local out
	case $1 in
	base) ensure_base; base_commit ;;
	tip)
		out=$(stack_commits) || exit
		if [[ -n $out ]]; then
			printf '%s\n' "${out##* }"
		else
			base_commit
		fi
		;;
	*)
		out=$(stack_commits "$1") || exit
		printf '%s\n' "${out##* }"
		;;
	esac
}
