# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What every verb shares: paths, messages, options, stack and series lookup.
# Source it first; it sets -euo pipefail and these read-only names:
#
#   kmmu_root    the checkout this script belongs to
#   kmmu_build   where artefacts go ($KMMU_BUILD, default build/ in the checkout)
#   kmmu_verb    name of the running verb, for messages
#
# Common options, set by parse_common: stack, verbose (0/1).
set -euo pipefail

kmmu_root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
kmmu_build=${KMMU_BUILD:-$kmmu_root/build}
kmmu_verb=$(basename "$0")
readonly kmmu_root kmmu_build kmmu_verb

stack=${KMMU_STACK:-linux-5.10}
verbose=0
export LC_ALL=C.UTF-8

# die MESSAGE...: the environment or the usage is wrong; one line, exit 2.
die() {
	printf 'kmmu %s: %s\n' "$kmmu_verb" "$*" >&2
	exit 2
}

# fail MESSAGE...: the thing tested failed; one line, exit 1.
fail() {
	printf 'kmmu %s: %s\n' "$kmmu_verb" "$*" >&2
	exit 1
}

# note MESSAGE...: progress, on stderr so that stdout stays data.
note() {
	printf '[%(%H:%M:%S)T] %s\n' -1 "$*" >&2
}

# run COMMAND...: run it, and with -v show it first, quoted for the shell.
run() {
	if ((verbose)); then
		printf '+' >&2
		printf ' %q' "$@" >&2
		printf '\n' >&2
	fi
	"$@"
}

# logged LOG COMMAND...: run it with all output in LOG; status is COMMAND's.
logged() {
	local log=$1
	shift
	mkdir -p "$(dirname "$log")"
	run "$@" >"$log" 2>&1 </dev/null
}

# help_from_header FILE: print the header comment of a verb, as its --help.
help_from_header() {
	sed -n '3,${/^#/!q;s/^# \{0,1\}//;p}' "$1"
}

# common_option ARGS...: if $1 is an option that every verb takes, handle it
# and set `shifted` to the number of words it used; else set shifted=0.
common_option() {
	# shellcheck disable=SC2034 # for the caller
	shifted=0
	case ${1-} in
	--stack)
		[[ -n ${2-} ]] || die "--stack needs a name"
		stack=$2
		shifted=2
		;;
	-v|--verbose) verbose=1; shifted=1 ;;
	-h|--help) help_from_header "$0"; exit 0 ;;
	esac
}

# need_arg ARGS...: die unless the option $1 is followed by a value.
need_arg() {
	[[ -n ${2-} ]] || die "$1 needs a value; see 'kmmu $kmmu_verb --help'"
}

# conf FILE KEY [DEFAULT]: value of KEY in a key=value data file ('#' starts a
# comment line).  Dies when the key is missing and no default is given.
conf() {
	local file=$1 key=$2 line
	line=$(grep -m1 "^$key=" "$file" 2>/dev/null) || {
		[[ $# -ge 3 ]] || die "$file: no '$key='"
		printf '%s' "$3"
		return
	}
	printf '%s' "${line#*=}"
}

# stack_conf KEY [DEFAULT]: the same, from the data file of the current stack.
stack_conf() {
	[[ -f $kmmu_root/ci/stacks/$stack ]] ||
		die "no stack '$stack'; there are: $(ls "$kmmu_root/ci/stacks")"
	conf "$kmmu_root/ci/stacks/$stack" "$@"
}

# base_git: the repository that holds the base (and all applied commits).
base_git() {
	printf '%s/%s' "$kmmu_root" "$(stack_conf repository)"
}

# series_file: the quilt series of the current stack.
series_file() {
	printf '%s/%s' "$kmmu_root" "$(stack_conf series)"
}

# series_patches: the patches of the stack in order, relative to patches/.
series_patches() {
	local file
	file=$(series_file)
	[[ -f $file ]] || die "no series file $file"
	sed -e 's/[[:space:]]*#.*$//' -e '/^[[:space:]]*$/d' "$file"
}

# find_patch NAME: the one series entry that NAME means: a full entry, a
# topic/slug or a slug, with or without .patch.
find_patch() {
	local name=${1%.patch} hits
	name=${name#patches/}
	name=${name#"$kmmu_root"/patches/}
	hits=$(series_patches | awk -v n="$name.patch" '
		$0 == n || substr($0, length($0) - length(n)) == "/" n')
	case $(printf '%s' "$hits" | grep -c .) in
	1) printf '%s\n' "$hits" ;;
	0) die "no patch '$1' in $(series_file); 'kmmu status' lists them" ;;
	*) die "patch name '$1' is ambiguous: $(printf '%s' "$hits" | tr '\n' ' ')" ;;
	esac
}

# content_key WORD... <STDIN: a short hash that names a result by its inputs.
content_key() {
	{ printf '%s\n' "$@"; cat; } | sha256sum | cut -c1-16
}

# with_lock NAME COMMAND...: run COMMAND while no other kmmu holds NAME.
with_lock() {
	local lock=$kmmu_build/$1.lock fd rc=0
	shift
	mkdir -p "$(dirname "$lock")"
	exec {fd}>"$lock"
	if ! flock -n "$fd"; then
		note "waiting for another kmmu (lock $lock)"
		flock "$fd"
	fi
	"$@" || rc=$?
	exec {fd}>&-
	return "$rc"
}
