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

kmmu_root=$(readlink -f "${BASH_SOURCE[0]}")
kmmu_root=${kmmu_root%/tools/lib/*}
kmmu_build=${KMMU_BUILD:-$kmmu_root/build}
kmmu_verb=${0##*/}
readonly kmmu_root kmmu_build kmmu_verb

stack=${KMMU_STACK:-linux-5.10}
verbose=0

# Nothing that the caller's shell holds for git, make or the compiler may change
# what comes out here (a git hook sets GIT_DIR, a kernel developer ARCH).
unset LANGUAGE GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
	GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_NAMESPACE GIT_PREFIX \
	GIT_TEMPLATE_DIR GIT_DEFAULT_HASH GIT_DIFF_OPTS GIT_EXTERNAL_DIFF \
	MAKEFLAGS MFLAGS MAKELEVEL ARCH SUBARCH CROSS_COMPILE KBUILD_OUTPUT \
	KCFLAGS KCPPFLAGS KAFLAGS KCONFIG_CONFIG KCONFIG_ALLCONFIG CFLAGS CPPFLAGS LDFLAGS LDLIBS TAR_OPTIONS
export LC_ALL=C.UTF-8 GIT_ATTR_NOSYSTEM=1

# Let checkouts in different places share what ccache holds.  With the compiler's
# own list of dependencies ccache need not run the preprocessor first, which takes a
# fifth of a build that finds nothing in it.
export CCACHE_BASEDIR=$kmmu_build CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1

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

# trace COMMAND...: with -v, show it, quoted for the shell.
trace() {
	((verbose)) || return 0
	printf '+' >&2
	printf ' %q' "$@" >&2
	printf '\n' >&2
}

# run COMMAND...: run it, and with -v show it first.
run() {
	trace "$@"
	"$@"
}

# quiet COMMAND...: the same, with what it prints in $said, as one line that can
# go into a message.
quiet() {
	local rc=0
	trace "$@"
	said=$("$@" 2>&1) || rc=$?
	said=$(sed -e 's/^\(error\|fatal\): //' <<<"${said:0:300}" | tr -s '[:space:]' ' ')
	said=${said% }
	return "$rc"
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
	sed -n '4,${/^#/!q;/^# shellcheck /q;s/^# \{0,1\}//;p}' "$1"
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
		need_stack
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

# need_stack: die unless there is the current stack.
need_stack() {
	[[ $stack != */* && -f $kmmu_root/ci/stacks/$stack ]] ||
		die "no stack '$stack'; there are: $(cd "$kmmu_root/ci/stacks" && echo *)"
}
[[ -z ${KMMU_STACK-} ]] || need_stack

# die in a $(...) ends just that: what calls it must pass the status on, since
# bash does not under `||` and the like.

# stack_conf KEY [DEFAULT]: the same, from the data file of the current stack.
stack_conf() {
	conf "$kmmu_root/ci/stacks/$stack" "$@"
}

# base_git: the repository that holds the base (and all applied commits).
base_git() {
	local repository
	repository=$(stack_conf repository) || exit
	printf '%s/%s' "$kmmu_root" "$repository"
}

# series_file: the quilt series of the current stack.
series_file() {
	local series
	series=$(stack_conf series) || exit
	printf '%s/%s' "$kmmu_root" "$series"
}

# series_patches: the patches of the stack in order, relative to patches/.
series_patches() {
	local file
	file=$(series_file) || exit
	[[ -f $file ]] || die "no series file $file"
	sed -e 's/[[:space:]]*#.*$//' -e '/^[[:space:]]*$/d' "$file"
}

# find_patch NAME: the one series entry that NAME means: a full entry, a
# topic/slug or a slug, with or without .patch.
find_patch() {
	local name=${1%.patch} all hits
	name=${name#patches/}
	name=${name#"$kmmu_root"/patches/}
	all=$(series_patches) || exit
	hits=$(awk -v n="$name.patch" '
		$0 == n || substr($0, length($0) - length(n)) == "/" n' <<<"$all")
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

# background COMMAND...: run it as a job that kill_jobs ends with all that it runs,
# i.e. in a process group of its own.
background() {
	set -m
	"$@" &
	set +m
}

# kill_jobs: end what is running in the background, in answer to a signal.
kill_jobs() {
	local pid
	trap - INT TERM
	for pid in $(jobs -rp); do
		kill -TERM -- "-$pid" 2>/dev/null || true
	done
	wait
}

# hold_lock NAME: wait until no other kmmu holds NAME, and hold it from then on, by
# the descriptor in $lock_fd, to the end of this shell.
hold_lock() {
	local lock=$kmmu_build/$1.lock
	{ mkdir -p "$(dirname "$lock")" && exec {lock_fd}>"$lock"; } 2>/dev/null || die "cannot write to $kmmu_build"
	if ! flock -n "$lock_fd"; then
		note "waiting for another kmmu (lock $lock)"
		flock "$lock_fd"
	fi
}

# with_lock NAME COMMAND...: run COMMAND while no other kmmu holds NAME.
with_lock() {
	local lock_fd rc
	hold_lock "$1"
	shift
	# Not under `||`, which would switch off -e in COMMAND.
	"$@"
	rc=$?
	exec {lock_fd}>&-
	return "$rc"
}
