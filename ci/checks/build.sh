#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The check of every kernel build; build directories in ci/checks link here as
# their `run` and say in `info` what to build (besides the keys in lib.sh):
#
#   arch, cross  ARCH and CROSS_COMPILE
#   config       fragments in ci/config, merged over allnoconfig; see
#                fragment_files() for those of a stack
#   targets      what to make
#   make         further arguments
#   touched      pathspecs; the objects of C files that the patch changes there
#                are built as well
#   warnings     cc or sparse: new ones, compared with the parent, fail; without
#                this key it is enough that the commit builds
# shellcheck source=ci/checks/lib.sh
source "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=tools/lib/config.sh
source "$kmmu_root/tools/lib/config.sh"
# shellcheck source=ci/checks/warnings.sh
source "$kmmu_root/ci/checks/warnings.sh"

# recorded WHAT COMMAND: the command, through ci/checks/record if this check
# compares WHAT's warnings.
recorded() {
	[[ $(info warnings "") != "$1" ]] || printf '%s ' "$kmmu_root/ci/checks/record"
	printf '%s' "$2"
}

# kbuild TARGET...: make in TREE with the objects in OBJ/o.  Whatever would make
# two builds of the same sources differ is fixed.
kbuild() {
	local cross more
	cross=$(info cross "")
	read -ra more <<<"$(info make "")"
	run make -s -C "$tree" O="$obj/o" ARCH="$(info arch)" CROSS_COMPILE="$cross" \
		CC="$(recorded cc "$(cached "${cross}gcc")")" CHECK="$(recorded sparse sparse)" \
		LOCALVERSION= KBUILD_BUILD_TIMESTAMP='Sun Dec 13 22:41:30 UTC 2020' \
		KBUILD_BUILD_USER=kmmu KBUILD_BUILD_HOST=kmmu KBUILD_BUILD_VERSION=1 \
		-j"${KMMU_JOBS:-$(nproc)}" "${more[@]}" "$@" 2>&1 | tee "$obj/make.log"
}

# fragments: the files of the configuration.
fragments() {
	local names
	read -ra names <<<"$(info config)"
	fragment_files "${names[@]}"
}

# configure COMMIT: again whenever the fragments or a Kconfig file changed.
configure() {
	local files lost
	mapfile -t files < <(fragments)
	if cat "${files[@]}" | cmp -s - "$obj/all.config" && [[ -s $obj/configured ]] &&
		kgit diff --quiet "$(<"$obj/configured")" "$1" -- '*Kconfig*' 2>/dev/null; then
		return
	fi
	rm -f "$obj/configured"
	mkdir -p "$obj/o"
	cat "${files[@]}" >"$obj/all.config"
	KCONFIG_ALLCONFIG=$obj/all.config kbuild allnoconfig || return
	lost=$(lost_options "$obj/all.config" "$obj/o/.config")
	[[ -z $lost ]] || unable "Kconfig dropped $lost(see ci/config)"
	printf '%s\n' "$1" >"$obj/configured"
}

# touched_objects COMMIT: objects of the C files that the patch changes.
touched_objects() {
	local specs file
	read -ra specs <<<"$(info touched "")"
	((${#specs[@]})) || return 0
	kgit diff --name-only "$parent" "$commit" -- "${specs[@]}" |
		while read -r file; do
			[[ $file != *.c ]] || ! kgit cat-file -e "$1:$file" 2>/dev/null ||
				printf '%s\n' "${file%.c}.o"
		done
}

# sparse_words: what sparse said; its errors do not end a build.
sparse_words() {
	[[ $(info warnings "") != sparse ]] || find "$KMMU_WARNINGS" -type f -exec cat {} +
}

first_error() {
	grep -E '(error|undefined|multiple definition|ERROR|\*\*\*)' "$obj/make.log" |
		grep -vxF -f <(sparse_words) | short_paths | head -1
}

# build COMMIT
build() {
	local targets
	at "$1"
	configure "$1" || return
	read -ra targets <<<"$(info targets) $(touched_objects "$1" | tr '\n' ' ')"
	kbuild "${targets[@]}"
}

[[ -z $(info warnings "") ]] || compare_builds
build "$commit" || failed "does not build: $(first_error)"
passed "builds"
