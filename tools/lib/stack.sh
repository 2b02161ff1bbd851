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

# kgit ARGS...: git in the base's repository, or in the directory kgit_dir,
# whatever the user's configuration says (see tools/lib/gitconfig).
kgit() {
	[[ -n ${kgit_dir-} || -n ${kgit_base-} ]] || kgit_base=$(base_git) || exit
	git -c include.path="$kmmu_root/tools/lib/gitconfig" -C "${kgit_dir:-$kgit_base}" "$@"
}

# ensure_base: get the base's sources if they are not here yet.
ensure_base() {
	kgit rev-parse -q --verify refs/kmmu/base >/dev/null 2>&1 && return
	"$kmmu_root/tools/verbs/setup" --stack "$stack" --sources-only || exit
}

# base_commit: the id of the base.
base_commit() {
	kgit rev-parse -q --verify 'refs/kmmu/base^{commit}' ||
		die "no base in $(base_git); run 'tools/kmmu setup'"
}

# commit_mail PARENT MAIL: commit MAIL on top of PARENT in the index named by
# GIT_INDEX_FILE (which must hold PARENT's tree); prints the new commit's id.
# Status 1, with git's complaint on stderr, when it does not.  Works in $tmp.
commit_mail() {
	local parent=$1 mail=$2 info date tree
	info=$(kgit mailinfo --no-scissors --encoding=UTF-8 "$tmp/msg" "$tmp/diff" <"$mail") || return 1
	date=$(sed -n 's/^Date: //p' <<<"$info")
	[[ -n $date ]] || { echo "error: the mail has no date" >&2; return 1; }
	kgit apply --cached "$tmp/diff" || return 1
	tree=$(kgit write-tree) || return 1
	{ sed -n 's/^Subject: //p' <<<"$info"; echo; cat "$tmp/msg"; } |
		git stripspace >"$tmp/message" || return 1
	GIT_AUTHOR_NAME=$(sed -n 's/^Author: //p' <<<"$info") \
	GIT_AUTHOR_EMAIL=$(sed -n 's/^Email: //p' <<<"$info") \
	GIT_AUTHOR_DATE=$date \
	GIT_COMMITTER_NAME=$kmmu_committer_name \
	GIT_COMMITTER_EMAIL=$kmmu_committer_email \
	GIT_COMMITTER_DATE=$date \
		kgit commit-tree "$tree" -p "$parent" -F "$tmp/message"
}

# commit_chain PARENT ENTRY...: commit the series entries one after the other
# on PARENT; prints "ENTRY COMMIT" lines.  On a patch that does not apply: one
# line on stderr that names it and the first hunk, status 2.  The mails are taken
# from $patches_dir (default patches/).  A repository that is not ours (kgit_dir)
# gets objects but no refs.
commit_chain() (
	commit=$1 key=$1 loaded="" number=0 shown=$SECONDS
	shift
	tmp=$(mktemp -d) || exit 2
	trap 'rm -rf "$tmp"' EXIT
	export GIT_INDEX_FILE=$tmp/index
	for entry in "$@"; do
		mail=${patches_dir:-$kmmu_root/patches}/$entry
		key=$(content_key "$key" <"$mail")
		ref=refs/kmmu/at/$key
		if [[ -n ${kgit_dir-} ]] || ! next=$(kgit rev-parse -q --verify "$ref^{commit}"); then
			next=$({
				[[ $loaded == "$commit" ]] || kgit read-tree "$commit"
			} 2>"$tmp/errors" && commit_mail "$commit" "$mail" 2>"$tmp/errors") ||
				die "$entry does not apply: $(sed -n '1s/^\(error\|fatal\): //p' "$tmp/errors")"
			loaded=$next
			[[ -n ${kgit_dir-} ]] || kgit update-ref "$ref" "$next" || exit 2
		fi
		commit=$next
		printf '%s %s\n' "$entry" "$commit"
		number=$((number + 1))
		if ((SECONDS - shown >= 5)); then
			note "$number of $# patches"
			shown=$SECONDS
		fi
	done
)

# stack_entries [UNTIL]: the series entries up to and including UNTIL.
stack_entries() {
	local until=${1-} all entry
	all=$(series_patches) || exit
	[[ -z $until ]] || until=$(find_patch "$until") || exit
	for entry in $all; do
		[[ -f $kmmu_root/patches/$entry ]] || die "no file patches/$entry, which the series names"
		printf '%s\n' "$entry"
		[[ $entry != "$until" ]] || break
	done
}

# stack_topics [UNTIL]: the topics of the stack, in order, up to that of UNTIL.
# shellcheck disable=SC2120 # UNTIL is optional
stack_topics() {
	local all
	all=$(stack_entries "$@") || exit
	cut -s -d/ -f2 <<<"$all" | uniq
}

# topic_benches TOPIC: its files in ci/bench, TOPIC first and then TOPIC.*, one a line.
topic_benches() {
	(cd "$kmmu_root/ci/bench" && find "$1" "$1".* -maxdepth 0 2>/dev/null) || true
}

# stack_commits [UNTIL]: "ENTRY COMMIT" for each patch of the stack on the base,
# up to and including UNTIL.  Dies when a patch does not apply.
stack_commits() {
	local all base entries
	all=$(stack_entries "$@") || exit
	ensure_base
	base=$(base_commit) || exit
	[[ -n $all ]] || return 0
	mapfile -t entries <<<"$all"
	commit_chain "$base" "${entries[@]}" || exit
}

# check_point base|tip|PATCH: die unless there is such a point of the stack.
check_point() {
	[[ $1 == base || $1 == tip ]] || find_patch "$1" >/dev/null
}

# is_stack_commit COMMIT: is it the base or one that patches/ gave?
is_stack_commit() {
	[[ -n $(kgit for-each-ref --points-at "$1" refs/kmmu/base refs/kmmu/at) ]]
}

# refuse_dirty TREE ADVICE: die if a git tree has changes or unfinished business.
refuse_dirty() {
	local name changes
	quiet git -C "$1" rev-parse --show-toplevel || die "git cannot read $1: $said"
	for name in rebase-apply rebase-merge MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD; do
		[[ ! -e $(git -C "$1" rev-parse --path-format=absolute --git-path "$name") ]] ||
			die "$1 is in the middle of a rebase, am, merge, cherry-pick or revert; finish or abort it"
	done
	changes=$(git -C "$1" status --porcelain --untracked-files=no --ignore-submodules) || exit 2
	changes=${changes%%$'\n'*}
	[[ -z $changes ]] || die "$1 has uncommitted changes (${changes:3}); $2"
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
