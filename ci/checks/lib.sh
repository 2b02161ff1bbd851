# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What the checks share.  A check is a directory here with two files:
#
#   info   key=value data for 'kmmu check':
#            summary  one line for people
#            order    checks run by ascending number, cheap ones first
#            tools    commands it needs; their versions are part of the cache key
#            touches  git pathspecs: it runs for patches that touch such a file
#                     (default: every patch)
#            inputs   more files of this repository that its result depends on
#            mail     yes when its result depends on the mail's text, not on the
#                     two trees alone
#   run    called as: run TREE OBJ COMMIT PARENT MAIL
#            TREE    a git work tree of the stack; at() moves it
#            OBJ     a directory of this check's own, kept from call to call
#            COMMIT  the patch as a commit, PARENT the commit below it
#            MAIL    the patch file
#
# All output of `run` is its log, the last line its summary.  Exit status: 0 ok,
# 250 warning, 1 failure, anything else: the check could not be made.
# Every run sources this file first.
# shellcheck source=tools/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib/common.sh"
# shellcheck source=tools/lib/stack.sh
source "$kmmu_root/tools/lib/stack.sh"

# The log shows each command, so that a failure can be repeated by hand.
# shellcheck disable=SC2034 # run() reads it
verbose=1
(($# == 5)) || die "usage: run TREE OBJ COMMIT PARENT MAIL"
# shellcheck disable=SC2034 # for the checks
readonly tree=$1 obj=$2 commit=$3 parent=$4 mail=$5 kgit_dir=$1
mkdir -p "$obj"

# A make that was interrupted is no verdict.
trap 'exit 130' INT TERM

# How a check ends: its last line and its status.
passed() { printf '%s\n' "$*"; exit 0; }
failed() { printf '%s\n' "$*"; exit 1; }
unable() { printf '%s\n' "$*"; exit 2; }
warned() { printf '%s\n' "$*"; exit 250; }

# info KEY [DEFAULT]: from the data file of the running check.
info() {
	conf "$(dirname "$0")/info" "$@"
}

# cached COMPILER: the compiler, through ccache where there is one.
cached() {
	! command -v ccache >/dev/null || printf 'ccache '
	printf '%s' "$1"
}

# short_paths: a filter that makes paths in messages relative to TREE.  ccache
# has the compiler print them relative to where make runs, sparse in full.
short_paths() {
	sed -E "s|[^ :]*/${tree##*/}/||"
}

# at COMMIT: bring TREE there.  Only files that differ are written, so make
# rebuilds just what depends on them.
at() {
	run kgit checkout -q --force --detach "$1" || unable "cannot check out $1 in $tree"
}
