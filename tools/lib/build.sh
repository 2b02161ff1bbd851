# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Kernel and selftest builds of one point of the stack.  Source after stack.sh.
#
# A point is built from one work tree (build/STACK/src), so that git touches
# just the files that differ and make rebuilds just what depends on them.  What
# comes out is kept by content: build/STACK/img/KEY for a kernel, where KEY
# hashes the sources that can reach it, the configuration and the compiler.

# shellcheck source=tools/lib/config.sh
source "$kmmu_root/tools/lib/config.sh"

# profile_file NAME: the data file of a profile.
profile_file() {
	[[ -f $kmmu_root/ci/profiles/$1 ]] ||
		die "no profile '$1'; there are: $(cd "$kmmu_root/ci/profiles" && echo *)"
	printf '%s' "$kmmu_root/ci/profiles/$1"
}

# config_fragments PROFILE: the configuration fragments it is built from.
config_fragments() {
	local file fragments
	file=$(profile_file "$1") || exit
	read -ra fragments <<<"base $(conf "$file" config "")"
	fragment_files "${fragments[@]}"
}

# build_cc: the compiler command, through ccache where there is one.
build_cc() {
	if command -v ccache >/dev/null; then echo "ccache gcc"; else echo gcc; fi
}

# kbuild OBJ TARGET...: make in build/STACK/src with objects in OBJ.  Everything
# that would differ between two builds of the same sources is fixed.
kbuild() {
	local obj=$1
	shift
	run make -s -C "$kmmu_build/$stack/src" O="$obj" CC="$(build_cc)" LOCALVERSION= \
		KBUILD_BUILD_TIMESTAMP='Sun Dec 13 22:41:30 UTC 2020' \
		KBUILD_BUILD_USER=kmmu KBUILD_BUILD_HOST=kmmu KBUILD_BUILD_VERSION=1 \
		-j"$(nproc)" "$@"
}

# make_config OBJ FRAGMENT...: OBJ/.config from allnoconfig plus the fragments.
# An option that Kconfig dropped or changed is an error: a test kernel that
# silently lacks a check proves nothing.
make_config() {
	local obj=$1 lost
	shift
	mkdir -p "$obj"
	cat "$@" >"$obj/all.config.new"
	if ! cmp -s "$obj/all.config.new" "$obj/all.config" || [[ ! -f $obj/.config ]]; then
		KCONFIG_ALLCONFIG=$obj/all.config.new kbuild "$obj" allnoconfig >"$obj/config.log" 2>&1 ||
			fail "cannot configure the kernel; see $obj/config.log"
		mv "$obj/all.config.new" "$obj/all.config"
	fi
	rm -f "$obj/all.config.new"
	lost=$(lost_options "$obj/all.config" "$obj/.config") || exit
	[[ -z $lost ]] || die "Kconfig dropped: $lost(asked for in ci/config)"
}

# source_tree COMMIT: bring build/STACK/src to COMMIT.
source_tree() {
	local src=$kmmu_build/$stack/src
	kgit worktree prune
	if [[ ! -e $src/.git ]]; then
		rm -rf "$src"
		note "checking out the build's source tree"
		kgit worktree add -q -f --detach "$src" "$1" >&2 || die "could not make $src (disk full?)"
		return
	fi
	rm -f "$(git -C "$src" rev-parse --git-path index.lock)"
	kgit_dir=$src kgit checkout -q --force --detach "$1" || die "could not check out $1 in $src"
}

# kernel_sources COMMIT: the tree ids of everything that can reach a kernel.
kernel_sources() {
	kgit ls-tree "$1" | grep -vP '\t(Documentation|tools|samples|LICENSES|MAINTAINERS|CREDITS|README)$'
	kgit ls-tree "$1" tools/ | grep -v 'tools/testing$'
}

# test_sources COMMIT: the tree ids of everything that can reach a KVM selftest.
test_sources() {
	local more
	read -ra more <<<"$(stack_conf test_sources "")"
	kgit ls-tree "$1" include/uapi arch/x86/include/uapi arch/x86/entry tools/include \
		tools/arch tools/testing/selftests/kvm tools/testing/selftests/lib.mk \
		tools/testing/selftests/kselftest.h "${more[@]}"
}

# build_kernel COMMIT PROFILE: print the image directory of that kernel.
build_kernel() {
	local commit=$1 profile=$2 out fragments key img obj log start=$SECONDS
	out=$(config_fragments "$profile") || exit
	mapfile -t fragments <<<"$out"
	key=$({ kernel_sources "$commit"; cat "${fragments[@]}"; } | content_key kernel "$(gcc --version | head -1)")
	img=$kmmu_build/$stack/img/$key
	if [[ ! -f $img/key ]]; then
		obj=$kmmu_build/$stack/obj/$(cat "${fragments[@]}" | content_key config)
		log=$img.log
		mkdir -p "${img%/*}"
		source_tree "$commit"
		make_config "$obj" "${fragments[@]}"
		note "building the kernel at ${commit:0:12} for $profile (log $log)"
		kbuild "$obj" bzImage >"$log" 2>&1 </dev/null ||
			fail "the kernel does not build at ${commit:0:12}: $(grep -m1 -E 'error|Error' "$log"); see $log"
		rm -rf "$img.new"
		{
			mkdir -p "$img.new" &&
			cp "$obj/arch/x86/boot/bzImage" "$obj/System.map" "$img.new/" &&
			cp "$obj/.config" "$img.new/config" &&
			printf '%s\n' "$key" >"$img.new/key" &&
			rm -rf "$img" &&
			mv "$img.new" "$img"
		} || die "could not write $img (disk full?)"
		note "built in $((SECONDS - start)) s"
	fi
	printf '%s\n' "$img"
}

# build_tests COMMIT: print the directory with that point's KVM selftests, as
# static binaries whose names are flat (x86_64/smm_test is smm_test).
build_tests() {
	local commit=$1 key dir work log test start=$SECONDS
	key=$(test_sources "$commit" | content_key tests "$(gcc --version | head -1)")
	dir=$kmmu_build/$stack/tests/$key
	if [[ ! -f $dir/key ]]; then
		work=$dir.work
		log=$dir.log
		rm -rf "$dir" "$dir.new" "$work"
		mkdir -p "$work/out" "$dir.new"
		source_tree "$commit"
		note "building the KVM selftests at ${commit:0:12} (log $log)"
		{
			kbuild "$work/obj" INSTALL_HDR_PATH="$work/usr" headers_install &&
			run make -s -C "$kmmu_build/$stack/src/tools/testing/selftests/kvm" -j"$(nproc)" \
				CC="$(build_cc)" OUTPUT="$work/out" KSFT_KHDR_INSTALL_DONE=1 \
				INSTALL_HDR_PATH="$work/usr" LINUX_HDR_PATH="$work/usr/include/" USERLDFLAGS=-static
		} >"$log" 2>&1 </dev/null ||
			fail "the KVM selftests do not build at ${commit:0:12}: $(grep -m1 -E 'error|Error' "$log"); see $log"
		while read -r test; do
			strip -o "$dir.new/${test##*/}" "$test" || die "could not write $dir.new (disk full?)"
		done < <(find "$work/out" -type f -perm -u+x ! -name '*.so' ! -name '*.o')
		{ printf '%s\n' "$key" >"$dir.new/key" && mv "$dir.new" "$dir"; } ||
			die "could not write $dir (disk full?)"
		rm -rf "$work"
		note "built in $((SECONDS - start)) s"
	fi
	printf '%s\n' "$dir"
}

# build_commit COMMIT PROFILE: print "KERNEL-DIR TESTS-DIR" of that commit.
build_commit() {
	local img tests
	img=$(with_lock "$stack-src" build_kernel "$1" "$2") || exit
	tests=$(with_lock "$stack-src" build_tests "$1") || exit
	printf '%s %s\n' "$img" "$tests"
}

# build_point POINT PROFILE: the same for a point of the stack.
build_point() {
	local commit
	commit=$(stack_commit "$1") || exit
	build_commit "$commit" "$2"
}
