#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The front door, setup, apply and refresh, and what judges results: on a toy
# kernel, and on the real stack with a shared clone of kernel/, which must be
# filled.  No kernel is built and no guest run.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0
load stack

setup_file() {
	isolate
	make_toy
}

# -------------------------------------------------------------- the front door

@test "kmmu: help lists every verb with its summary" {
	toy
	kmmu 0 help
	for verb in "$co"/tools/verbs/*; do
		[[ $output =~ (^|$'\n')"  ${verb##*/}"\ +[a-z] ]]
	done
	kmmu 0 --help
	kmmu 2
	[[ $stderr == "usage: kmmu VERB"* ]]
}

@test "kmmu: every verb has --help" {
	toy
	for verb in "$co"/tools/verbs/*; do
		for option in --help -h; do
			kmmu 0 "${verb##*/}" "$option"
			[[ ${lines[0]} == "kmmu ${verb##*/}: "* && -z $stderr ]]
			[[ $output == *"Usage: kmmu ${verb##*/}"*"Exit status: "* && $output != *shellcheck* ]]
		done
	done
}

@test "kmmu: unknown verbs" {
	toy
	for verb in nonsense ../verbs/apply . .. '' --nonsense; do
		[[ -z $verb ]] || refused "$verb"
	done
	refused nonsense --help
}

@test "kmmu: unknown options and stacks, for every verb" {
	toy
	for verb in "$co"/tools/verbs/*; do
		verb=${verb##*/}
		refused "$verb" --nonsense
		refused "$verb" --stack
		refused "$verb" --stack nonsense
		[[ $stderr == *"no stack 'nonsense'; there are: "*linux-5.10* ]]
		refused "$verb" --stack ../stacks/toy
		KMMU_STACK=nonsense refused "$verb"
	done
}

@test "kmmu: unknown patches, points, profiles, variants, emulators, topics, tests, groups" {
	toy
	export KMMU_STACK=linux-5.10
	refused apply --until nonsense
	[[ $stderr == *"no patch 'nonsense'"* ]]
	refused apply --until
	refused apply --tree
	for verb in build boot test; do
		refused "$verb" --at nonsense
		refused "$verb" --at
		refused "$verb" --profile nonsense
		[[ $stderr == *"no profile 'nonsense'; there are: "*amd* ]]
	done
	for verb in boot test bench; do
		refused "$verb" --profile amd/nonsense
		refused "$verb" --profile amd-shadow/tdp_mmu=1
		refused "$verb" --profile /
	done
	refused boot --emulator nonsense
	refused boot --emulator bochs-vmx --profile amd
	refused bench nonsense
	refused test nonsense
	refused refresh --topic 'no such/name'
	refused setup --for nonsense
	refused setup --for build,nonsense
	[[ ! -e $co/build && ! -e $co/kernel ]]
}

@test "kmmu: a name that two patches share is refused" {
	toy
	mkdir "$co/patches/toy/other"
	cp "$co/patches/toy/alpha/x86-begin.patch" "$co/patches/toy/other/"
	echo toy/other/x86-begin.patch >>"$co/series.toy"
	refused apply --until x86-begin
	[[ $stderr == *"ambiguous: toy/alpha/x86-begin.patch toy/other/x86-begin.patch"* ]]
	kmmu 0 apply --until alpha/x86-begin
	[[ $output == "toy/alpha/x86-begin.patch "* && ${#lines[@]} == 1 ]]
}

@test "kmmu: a build directory that cannot be made" {
	toy
	KMMU_BUILD=/proc/nonsense refused setup --sources-only
	KMMU_BUILD=/proc/nonsense kmmu 2 apply
	[[ ${stderr_lines[-1]} == "kmmu apply: cannot write to /proc/nonsense" ]]
}

# ----------------------------------------------------------- apply --tree, git

@test "apply --tree: git: one commit a patch, with the ids that kmmu apply gives" {
	toy
	user_tree
	kmmu 0 apply
	want=$output
	[[ ${#lines[@]} == 4 ]]
	kmmu 0 apply --tree "$user"
	[[ $output == "$want" && ${stderr_lines[-1]} == *"applied 4 patches to $user" ]]
	[[ $(git -C "$user" log --reverse --format=%H "$base..HEAD") == "$(cut -d' ' -f2 <<<"$want")" ]]
	[[ $(git -C "$user" symbolic-ref HEAD) == refs/heads/base ]]
	run -0 git -C "$user" status --porcelain
	[[ -z $output ]]
	[[ $(cat "$user/arch/x86/kvm/mine.c") == mine && $(cat "$user/arch/x86/kvm/mine.o") == object ]]
	[[ $(git -C "$user" log -1 --format='%an <%ae>%n%s%n%b' HEAD~2) == 'Zoë Ünal <zoe@example.org>
KVM: x86: Go on
Say why: KVM: x86: Go on' ]]
	diff -r --exclude=.git --exclude='mine.*' "$user" "$tree"
	[[ -x $user/scripts/new.sh && ! -e $user/arch/x86/kvm/b.c ]]
	# Nothing but the commits is left in the user's repository.
	run -0 git -C "$user" for-each-ref --format='%(refname)'
	[[ $output != *refs/kmmu* ]]
	no_litter
}

@test "apply --tree: git: --until stops there" {
	toy
	user_tree
	kmmu 0 apply --tree "$user" --until x86-go-on.patch
	[[ ${#lines[@]} == 2 && ${lines[1]} == "toy/alpha/x86-go-on.patch $(git -C "$user" rev-parse HEAD)" ]]
	[[ -z $(git -C "$user" status --porcelain) ]]
}

@test "apply --tree: git: a detached HEAD, a linked work tree, a subdirectory as cwd, a sparse index" {
	toy
	user_tree
	git -C "$user" sparse-checkout set --cone --sparse-index arch
	git -C "$user" worktree add -q --detach "$BATS_TEST_TMPDIR/linked"
	cd "$BATS_TEST_TMPDIR/linked/arch"
	kmmu 0 apply --tree ..
	[[ $(git rev-list --count "$base..HEAD") == 4 && -z $(git status --porcelain) ]]
	[[ $(git -C "$user" rev-parse HEAD) == "$base" && ! -e $user/scripts ]]
	kmmu 0 apply --tree "$user"
	[[ $(git -C "$user" rev-parse HEAD) == "$(git rev-parse HEAD)" && -z $(git -C "$user" status --porcelain) ]]
	[[ ! -e $user/scripts && -e $user/arch/x86/kvm/c.c ]]
}

@test "apply --tree: git: a second time is refused" {
	toy
	user_tree
	kmmu 0 apply --tree "$user"
	state "$user" >"$BATS_TEST_TMPDIR/before"
	refused apply --tree "$user"
	[[ $stderr == *"toy/alpha/x86-begin.patch does not apply: "*arch/x86/kvm/a.c:* ]]
	state "$user" | diff "$BATS_TEST_TMPDIR/before" -
	no_litter
}

@test "apply --tree: git: other context is refused with patch, file and line" {
	toy
	user_tree
	sed -i 's/planted_28;/other;/' "$user/arch/x86/kvm/a.c"
	git -C "$user" commit -qam 'Port'
	state "$user" >"$BATS_TEST_TMPDIR/before"
	refused apply --tree "$user"
	[[ $stderr == "kmmu apply: toy/alpha/x86-go-on.patch does not apply: patch failed: arch/x86/kvm/a.c:29" ]]
	state "$user" | diff "$BATS_TEST_TMPDIR/before" -
	no_litter
}

@test "apply --tree: git: what lacks a file is refused with its name" {
	toy
	user_tree
	git -C "$user" rm -q arch/x86/kvm/b.c
	git -C "$user" commit -qm 'Drop'
	refused apply --tree "$user"
	[[ $stderr == *"toy/beta/x86-mmu-replace-b-c.patch does not apply: arch/x86/kvm/b.c"* ]]
}

@test "apply --tree: git: uncommitted changes are refused by name" {
	toy
	user_tree
	echo dirt >>"$user/arch/x86/kvm/a.c"
	refused apply --tree "$user"
	[[ $stderr == *"uncommitted changes (arch/x86/kvm/a.c)"* ]]
	git -C "$user" add -u
	refused apply --tree "$user"
	[[ $stderr == *"(arch/x86/kvm/a.c)"* ]]
	git -C "$user" reset -q --hard
	# More changes than a pipe holds.
	mkdir "$user/arch/many"
	(cd "$user/arch/many" && seq -f 'a-file-with-a-rather-long-name-%g' 3000 | xargs touch)
	git -C "$user" add -f arch/many
	refused apply --tree "$user"
	[[ $stderr == *"(arch/many/a-file-with"* ]]
}

@test "apply --tree: git: unfinished business is refused" {
	toy
	user_tree
	echo dirt >>"$user/arch/x86/kvm/a.c"
	git -C "$user" commit -qam One
	git -C "$user" checkout -q -b side HEAD~
	echo mud >>"$user/arch/x86/kvm/a.c"
	git -C "$user" commit -qam Two
	git -C "$user" format-patch -q -1 --stdout base >"$BATS_TEST_TMPDIR/mail"
	for business in 'rebase base' 'merge base' 'cherry-pick base' 'revert HEAD~' "am $BATS_TEST_TMPDIR/mail"; do
		# shellcheck disable=SC2086 # words are meant
		if git -C "$user" $business >/dev/null 2>&1; then
			git -C "$user" reset -q --hard side
			git -C "$user" -c core.editor=false revert -n HEAD
			git -C "$user" update-ref REVERT_HEAD HEAD
		fi
		# Even where nothing is left to see in the files.
		git -C "$user" reset -q --hard 2>/dev/null || true
		case $business in
		merge*) git -C "$user" update-ref MERGE_HEAD base ;;
		cherry*) git -C "$user" update-ref CHERRY_PICK_HEAD base ;;
		revert*) git -C "$user" update-ref REVERT_HEAD base ;;
		esac
		echo "$business"
		refused apply --tree "$user"
		[[ $stderr == *"in the middle of a rebase, am, merge, cherry-pick or revert"* ]]
		git -C "$user" "${business%% *}" --abort 2>/dev/null || git -C "$user" "${business%% *}" --quit
		git -C "$user" checkout -qf side
	done
	# That of the directory where kmmu is called is nobody's business.
	mkdir "$BATS_TEST_TMPDIR/elsewhere"
	git -C "$BATS_TEST_TMPDIR/elsewhere" init -q
	mkdir "$BATS_TEST_TMPDIR/elsewhere/.git/rebase-merge"
	git -C "$user" checkout -q "$base"
	cd "$BATS_TEST_TMPDIR/elsewhere"
	kmmu 0 apply --tree "$user"
}

@test "apply --tree: what is no kernel tree is refused" {
	toy
	mkdir "$BATS_TEST_TMPDIR/empty"
	refused apply --tree "$BATS_TEST_TMPDIR/empty"
	[[ $stderr == *"is no kernel source tree" ]]
	refused apply --tree "$BATS_TEST_TMPDIR/nonsense"
	refused apply --tree "$co/series.toy"
	plain_tree
	git -C "$plain" init -q
	refused apply --tree "$plain"
	[[ $stderr == *"has no commit yet" ]]
	# A checkout that git cannot read must not be taken for a plain tree.
	rm -rf "$plain/.git"
	echo "gitdir: $BATS_TEST_TMPDIR/other.git" >"$plain/.git"
	refused apply --tree "$plain"
	[[ $stderr == *"git cannot read $plain: "* ]]
	git init -q --bare "$BATS_TEST_TMPDIR/other.git"
	refused apply --tree "$plain"
	[[ $stderr == *"git cannot read $plain: "* ]]
}

@test "apply --tree: git: a file in the way is refused, ignored or not" {
	toy
	user_tree
	for file in arch/x86/kvm/c.c scripts/new.sh; do
		echo mine >"$user/$file"
		state "$user" >"$BATS_TEST_TMPDIR/before"
		refused apply --tree "$user"
		[[ $stderr == *"$user/$file is in the way: the stack adds that file" ]]
		state "$user" | diff "$BATS_TEST_TMPDIR/before" -
		rm "$user/$file"
	done
}

@test "apply: a patch without a date or without text is refused, whatever git says" {
	toy
	user_tree
	sed -i '/^Date: /d' "$co/patches/toy/alpha/x86-begin.patch"
	refused apply --tree "$user"
	[[ $stderr == *"x86-begin.patch does not apply: the mail has no date" ]]
	: >"$co/patches/toy/alpha/x86-begin.patch"
	refused apply --tree "$user"
	rm "$co/patches/toy/alpha/x86-begin.patch"
	refused apply --tree "$user"
	[[ $stderr == *"no file patches/toy/alpha/x86-begin.patch"* ]]
	plain_tree
	refused apply --tree "$plain"
	refused apply
	rm "$co/series.toy"
	refused apply
	[[ $stderr == *"no series file $co/series.toy" ]]
}

@test "apply: the ids depend on no configuration, environment or umask" {
	toy
	user_tree
	kmmu 0 apply --tree "$user"
	want=$output
	git -C "$user" reset -q --hard "$base"
	hostile_config
	(unset GIT_DIR GIT_INDEX_FILE; forget)
	kmmu 0 apply
	[[ $output == "$want" ]]
	unset GIT_DIR GIT_INDEX_FILE
	run -1 grep -rlI $'\r' "$tree/arch"
	GIT_CONFIG_GLOBAL=/dev/null run -0 git -C "$tree" status --porcelain
	[[ -z $output ]]
	git -C "$user" config diff.noprefix true
	git -C "$user" config apply.whitespace fix
	export GIT_DIR=$BATS_TEST_TMPDIR/other.git
	kmmu 0 apply --tree "$user"
	[[ $output == "$want" ]]
	unset GIT_DIR
	[[ $(git -C "$user" rev-parse HEAD) == "${want##* }" ]]
	plain_tree
	export GIT_DIR=$BATS_TEST_TMPDIR/other.git
	kmmu 0 apply --tree "$plain"
	diff -r --exclude=.git --exclude='mine.*' "$plain" "$tree"
	no_litter
}

@test "apply --tree: git: interrupted while committing, nothing has changed" {
	toy
	user_tree
	state "$user" >"$BATS_TEST_TMPDIR/before"
	slow_git write-tree
	interrupt apply --tree "$user"
	state "$user" | diff "$BATS_TEST_TMPDIR/before" -
	no_litter
	kmmu 0 apply --tree "$user"
}

@test "apply --tree: git: interrupted while moving, it moves back" {
	toy
	user_tree
	state "$user" | grep -v "^\./[^ ]* [df] " >"$BATS_TEST_TMPDIR/before"
	slow_git update-ref
	interrupt apply --tree "$user"
	state "$user" | grep -v "^\./[^ ]* [df] " | diff "$BATS_TEST_TMPDIR/before" -
	no_litter
	kmmu 0 apply --tree "$user"
}

@test "apply --tree: git: a full disk, and it is as it was" {
	toy
	user_tree
	# The patch adds more than there is room for.
	export KMMU_STACK=toy
	kmmu 0 apply
	seq 200000 >"$tree/arch/x86/kvm/big.c"
	seq 200000 >"$tree/arch/x86/kvm/a.c"
	toy_commit "$tree" 'KVM: x86: Grow'
	kmmu 0 refresh
	on_small_disk 3M '
		cp -r "$user" "$small/user"
		cd "$small/user"
		git status >/dev/null
		state . | grep -v "^\./[^ ]* [df] " >'"$BATS_TEST_TMPDIR"'/before
		status=0
		"$co/tools/kmmu" apply --tree . || status=$?
		state . | grep -v "^\./[^ ]* [df] " | diff '"$BATS_TEST_TMPDIR"'/before -
		echo "status $status"'
	[[ $output == "status 2" ]]
	[[ ${stderr_lines[-1]} == *"could not write to "*"it is as it was"* || ${stderr_lines[-1]} == *"No space left"* ]]
}

# --------------------------------------------------------- apply --tree, plain

@test "apply --tree: plain: the same files as with git, modes kept" {
	toy
	user_tree
	plain_tree
	kmmu 0 apply --tree "$user"
	kmmu 0 apply --tree "$plain"
	[[ ${#lines[@]} == 4 && ${stderr_lines[-1]} == *"applied 4 patches to $plain" ]]
	diff -r --exclude=.git --exclude='mine.*' "$plain" "$user"
	[[ -x $plain/scripts/new.sh && $(stat -c %a "$plain/arch/x86/kvm/a.c") == 640 ]]
	no_litter
}

@test "apply --tree: plain: hard-linked copies of the tree stay as they are" {
	toy
	plain_tree
	cp -al "$plain" "$BATS_TEST_TMPDIR/linked"
	cp -a "$plain" "$BATS_TEST_TMPDIR/copy"
	kmmu 0 apply --tree "$plain" --until x86-go-on
	[[ ${#lines[@]} == 2 ]]
	diff -r "$BATS_TEST_TMPDIR/linked" "$BATS_TEST_TMPDIR/copy"
}

@test "apply --tree: plain: a directory of another repository is plain" {
	toy
	mkdir "$BATS_TEST_TMPDIR/mono"
	git -C "$BATS_TEST_TMPDIR/mono" init -q
	plain_tree
	mv "$plain" "$BATS_TEST_TMPDIR/mono/linux"
	kmmu 0 apply --tree "$BATS_TEST_TMPDIR/mono/linux"
	[[ -f $BATS_TEST_TMPDIR/mono/linux/arch/x86/kvm/c.c ]]
	run -128 git -C "$BATS_TEST_TMPDIR/mono" rev-parse -q HEAD
}

@test "apply --tree: plain: what does not apply is refused, not a byte changed" {
	toy
	plain_tree
	sed -i 's/planted_50;/other;/' "$plain/arch/x86/kvm/b.c"
	state "$plain" >"$BATS_TEST_TMPDIR/before"
	refused apply --tree "$plain"
	[[ $stderr == "kmmu apply: toy/beta/x86-mmu-replace-b-c.patch does not apply: "*"arch/x86/kvm/b.c:1; $plain is as it was" ]]
	state "$plain" | diff "$BATS_TEST_TMPDIR/before" -
	kmmu 0 apply --tree "$plain" --until x86-go-on
	state "$plain" >"$BATS_TEST_TMPDIR/before"
	refused apply --tree "$plain"
	state "$plain" | diff "$BATS_TEST_TMPDIR/before" -
	no_litter
}

@test "apply --tree: plain: interrupted, nothing has changed" {
	toy
	plain_tree
	state "$plain" >"$BATS_TEST_TMPDIR/before"
	slow_git "$co/patches/toy/beta/x86-mmu-end.patch"
	interrupt apply --tree "$plain"
	state "$plain" | diff "$BATS_TEST_TMPDIR/before" -
	no_litter
	kmmu 0 apply --tree "$plain"
}

@test "apply --tree: plain: a full disk, and it is as it was" {
	toy
	plain_tree
	kmmu 0 apply
	seq 200000 >"$tree/arch/x86/kvm/big.c"
	toy_commit "$tree" 'KVM: x86: Grow'
	kmmu 0 refresh
	on_small_disk 600k '
		cp -a "$plain" "$small/plain"
		state "$small/plain" | sed "s/^\(\.[^ ]* d \).*/\1/" >'"$BATS_TEST_TMPDIR"'/before
		status=0
		"$co/tools/kmmu" apply --tree "$small/plain" >/dev/null || status=$?
		state "$small/plain" | sed "s/^\(\.[^ ]* d \).*/\1/" | diff '"$BATS_TEST_TMPDIR"'/before -
		echo "status $status"'
	[[ $output == "status 2" && $stderr == "kmmu apply: could not write to $small/plain, it is as it was: "*"No space left"* ]]
	[[ ${#stderr_lines[@]} == 1 ]]
}

# -------------------------------------------------------------- apply, own tree

@test "apply: makes the tree, follows patches/, goes back and forth" {
	toy
	kmmu 0 apply
	tip=${output##* }
	[[ $(git -C "$tree" rev-parse HEAD refs/heads/kmmu/toy) == "$tip"$'\n'"$tip" ]]
	kmmu 0 apply --until x86-begin
	[[ $(git -C "$tree" rev-parse HEAD) == "${output##* }" ]]
	kmmu 0 apply
	[[ ${output##* } == "$tip" && -z $(git -C "$tree" status --porcelain) ]]
	sed -i 's/^Say why/Say more/' "$co/patches/toy/beta/x86-mmu-end.patch"
	kmmu 0 apply
	[[ ${output##* } != "$tip" && $(git -C "$tree" rev-parse HEAD) == "${output##* }" ]]
	no_litter
}

@test "apply: an empty series gives the base" {
	toy
	echo '# Nothing.' >"$co/series.toy"
	kmmu 0 apply
	[[ -z $output && $(git -C "$tree" rev-parse HEAD) == "$base" ]]
	user_tree
	refused apply --tree "$user"
	[[ $stderr == *"the stack toy has no patches" ]]
}

@test "apply: work in the tree is not lost" {
	toy
	kmmu 0 apply
	tip=${output##* }
	echo dirt >>"$tree/arch/x86/kvm/a.c"
	refused apply
	[[ $stderr == *"$tree has uncommitted changes (arch/x86/kvm/a.c)"* ]]
	toy_commit "$tree" 'KVM: x86: Work'
	work=$(git -C "$tree" rev-parse HEAD)
	refused apply
	[[ $stderr == *"$tree has commits that patches/ has not"* ]]
	# Nor behind a HEAD that is elsewhere.
	git -C "$tree" checkout -q "$tip"
	refused apply
	[[ $(git -C "$tree" rev-parse refs/heads/kmmu/toy) == "$work" ]]
	# The advice does what it says.
	eval "${stderr##*drop them: }" 2>/dev/null
	kmmu 0 apply
	# A file that git ignores is not overwritten.
	kmmu 0 apply --until x86-begin
	echo mine >"$tree/arch/x86/kvm/c.c"
	refused apply
	[[ $stderr == *"arch/x86/kvm/c.c"* && $(cat "$tree/arch/x86/kvm/c.c") == mine ]]
}

@test "apply: a tree that was removed is made again" {
	toy
	kmmu 0 apply
	want=$output
	rm -rf "$tree"
	kmmu 0 apply
	[[ $output == "$want" && -f $tree/Makefile ]]
	git -C "$co/kernel-toy" worktree remove "$tree"
	kmmu 0 apply
	[[ $output == "$want" && -f $tree/Makefile ]]
	rm -rf "$co/build"
	forget
	kmmu 0 apply
	[[ $output == "$want" ]]
}

@test "apply: interrupted, the next one goes on" {
	toy
	forget
	slow_git write-tree
	interrupt apply
	no_litter
	slow_git checkout
	slow_git worktree
	interrupt apply
	no_litter
	kmmu 0 apply
	kmmu 0 apply --until x86-begin
	slow_git checkout
	interrupt apply
	kmmu 0 apply
	[[ $(git -C "$tree" rev-parse HEAD) == "${output##* }" && -z $(git -C "$tree" status --porcelain) ]]
}

# --------------------------------------------------------------------- refresh

# files: the series and the patches with their contents.
files() {
	(cd "$co" && sha256sum series.toy && find patches/toy -type f -print0 | sort -z | xargs -0 sha256sum)
}

# unchanged COMMAND...: it leaves the series and the patches as they are.
unchanged() {
	local before
	before=$(files)
	"$@"
	[[ $(files) == "$before" ]]
	no_litter
}

@test "refresh: right after apply it changes nothing and says nothing" {
	toy
	kmmu 0 apply
	unchanged kmmu 0 refresh
	[[ -z $output && -z $stderr ]]
	[[ $(cat "$co/series.toy") == '# The toy stack.

# alpha
toy/alpha/x86-begin.patch
toy/alpha/x86-go-on.patch

# beta
toy/beta/x86-mmu-replace-b-c.patch
toy/beta/x86-mmu-end.patch' ]]
	run -1 grep -rl Signed-off-by "$co/patches/toy"
	grep -q '^@@ .* @@ int planted_25;' "$co/patches/toy/alpha/x86-go-on.patch"
	# Whatever is checked out in the base's repository.
	rm -rf "$co"/kernel-toy/* "$co"/kernel-toy/.git?*
	unchanged kmmu 0 refresh
	[[ -z $output ]]
}

@test "refresh: the bytes depend on no configuration, environment or umask" {
	toy
	kmmu 0 apply
	git -C "$tree" commit -q --amend -m 'KVM: x86/mmu: End' -m 'Größe: 1 µs.' --author 'Zoë Ünal <zoe@example.org>'
	kmmu 0 refresh
	files >"$BATS_TEST_TMPDIR/before"
	rm -rf "$co"/patches/toy/*/*
	hostile_config
	kmmu 0 refresh
	files | diff "$BATS_TEST_TMPDIR/before" -
	unchanged kmmu 0 refresh
	[[ -z $output ]]
}

# edit COMMIT SED FILE: change that commit's code, with the later ones on top.
edit() {
	local onto
	onto=$(git -C "$tree" rev-parse "$1")
	git -C "$tree" checkout -q "$onto"
	sed -i "$2" "$tree/$3"
	git -C "$tree" commit -qa --amend --no-edit
	git -C "$tree" rebase -q --onto HEAD "$onto" kmmu/toy
}

@test "refresh: an edit of one commit changes that patch" {
	toy
	kmmu 0 apply
	edit HEAD~2 's/second;/seconds;/' arch/x86/kvm/a.c
	kmmu 0 refresh
	[[ $output == patches/toy/alpha/x86-go-on.patch ]]
	grep -q '^+int seconds;' "$co/patches/toy/alpha/x86-go-on.patch"
	# The tree then is what the patches give.
	kmmu 0 apply
	[[ $(git -C "$tree" rev-parse HEAD) == "${output##* }" ]]
	grep -q seconds "$tree/arch/x86/kvm/a.c"
	unchanged kmmu 0 refresh
	[[ -z $output ]]
}

@test "refresh: later patches change only where their hunks move" {
	toy
	kmmu 0 apply
	edit HEAD~3 's/int more;/&\nint most;/' arch/x86/kvm/a.c
	cp "$co/patches/toy/alpha/x86-go-on.patch" "$BATS_TEST_TMPDIR/"
	kmmu 0 refresh
	[[ $output == patches/toy/alpha/x86-begin.patch$'\n'patches/toy/alpha/x86-go-on.patch ]]
	run -1 diff "$BATS_TEST_TMPDIR/x86-go-on.patch" "$co/patches/toy/alpha/x86-go-on.patch"
	[[ -z $(grep '^[<>]' <<<"$output" | grep -v '^. \(@@\|index\) ') ]] || {
		echo "$output"
		false
	}
}

@test "refresh: a new text changes the patch, a new subject its name, not its topic" {
	toy
	kmmu 0 apply
	git -C "$tree" commit -q --amend -m 'KVM: x86/mmu: End' -m 'Say it better.'
	kmmu 0 refresh
	[[ $output == patches/toy/beta/x86-mmu-end.patch ]]
	# The first patch of a topic, and of the stack.
	for at in HEAD~3 HEAD~; do
		onto=$(git -C "$tree" rev-parse "$at")
		git -C "$tree" checkout -q "$onto"
		git -C "$tree" commit -q --amend -m "KVM: SVM: Reword \"$at\", (it's new)!"
		git -C "$tree" rebase -q --onto HEAD "$onto" kmmu/toy
	done
	kmmu 0 refresh
	[[ $output == "patches/toy/alpha/svm-reword-head-3-it-s-new.patch
patches/toy/beta/svm-reword-head-it-s-new.patch
series.toy
patches/toy/alpha/x86-begin.patch (removed)
patches/toy/beta/x86-mmu-replace-b-c.patch (removed)" ]]
	[[ $(grep -A1 '^# [ab]' "$co/series.toy") == '# alpha
toy/alpha/svm-reword-head-3-it-s-new.patch
--
# beta
toy/beta/svm-reword-head-it-s-new.patch' ]]
	[[ ! -e $co/patches/toy/alpha/x86-begin.patch ]]
	unchanged kmmu 0 refresh
}

@test "refresh: a new commit joins the topic before it, or --topic" {
	toy
	kmmu 0 apply
	git -C "$tree" checkout -q HEAD~2
	lines 1 3 >"$tree/arch/x86/kvm/d.c"
	toy_commit "$tree" 'KVM: x86: Add'
	git -C "$tree" rebase -q --onto HEAD HEAD~ kmmu/toy
	kmmu 0 refresh
	[[ $output == patches/toy/alpha/x86-add.patch$'\n'series.toy ]]
	[[ $(grep -A1 go-on "$co/series.toy") == $'toy/alpha/x86-go-on.patch\ntoy/alpha/x86-add.patch' ]]
	lines 1 3 >"$tree/arch/x86/kvm/e.c"
	toy_commit "$tree" 'KVM: x86: Add more'
	kmmu 0 refresh --topic gamma
	[[ $output == patches/toy/gamma/x86-add-more.patch$'\n'series.toy ]]
	[[ $(tail -n 3 "$co/series.toy") == $'\n# gamma\ntoy/gamma/x86-add-more.patch' ]]
	unchanged kmmu 0 refresh --topic delta
	[[ -z $output ]]
}

@test "refresh: the first commit of all needs --topic" {
	toy
	echo '# Nothing.' >"$co/series.toy"
	kmmu 0 apply
	lines 1 3 >"$tree/arch/x86/kvm/d.c"
	toy_commit "$tree" 'KVM: x86: Add'
	unchanged refused refresh
	[[ $stderr == *"no topic for 'KVM: x86: Add'; name one with --topic" ]]
	kmmu 0 refresh --topic alpha
}

@test "refresh: a dropped commit takes its file along, the last its topic" {
	toy
	kmmu 0 apply
	git -C "$tree" rebase -q --onto HEAD~3 HEAD~2
	kmmu 0 refresh
	[[ $output == *"patches/toy/alpha/x86-go-on.patch (removed)" && $output == *series.toy* ]]
	[[ ! -e $co/patches/toy/alpha/x86-go-on.patch ]]
	run -1 grep -q go-on "$co/series.toy"
	git -C "$tree" reset -q --hard HEAD~2
	kmmu 0 refresh
	[[ ! -e $co/patches/toy/beta ]]
	run -1 grep -q beta "$co/series.toy"
	git -C "$tree" reset -q --hard "$base"
	kmmu 0 refresh
	[[ $(cat "$co/series.toy") == '# The toy stack.' ]]
	kmmu 0 apply
	[[ $(git -C "$tree" rev-parse HEAD) == "$base" ]]
}

@test "refresh: a sign-off is dropped, and leaves no gap" {
	toy
	kmmu 0 apply
	git -C "$tree" commit -q --amend -s -m 'KVM: x86/mmu: End' -m 'Say why: KVM: x86/mmu: End'
	unchanged kmmu 0 refresh
	[[ -z $output ]]
	git -C "$tree" commit -q --amend -s -m 'KVM: x86/mmu: End' -m 'Why.' -m 'Fixes: 0123456789ab ("x")
Signed-off-by: Bob <bob@example.org>
Reviewed-by: Bob <bob@example.org>'
	kmmu 0 refresh
	[[ $(sed -n '/^Fixes/,/^---/p' "$co/patches/toy/beta/x86-mmu-end.patch") == 'Fixes: 0123456789ab ("x")
Reviewed-by: Bob <bob@example.org>
---' ]]
	git -C "$tree" commit -q --amend -s -m 'KVM: x86/mmu: End'
	kmmu 0 refresh
	[[ $(sed -n '/^Subject/,/^---/p' "$co/patches/toy/beta/x86-mmu-end.patch") == 'Subject: [PATCH] KVM: x86/mmu: End

---' ]]
	unchanged kmmu 0 refresh
	[[ -z $output ]]
}

@test "refresh: a tree that is not all committed is refused" {
	toy
	refused refresh
	[[ $stderr == *"no $tree; run 'kmmu apply' first" ]]
	kmmu 0 apply
	echo dirt >>"$tree/arch/x86/kvm/a.c"
	unchanged refused refresh
	[[ $stderr == *"uncommitted changes (arch/x86/kvm/a.c)"* ]]
	git -C "$tree" reset -q --hard
	# Stopped for an edit, where nothing shows that half of the stack is missing.
	GIT_SEQUENCE_EDITOR='sed -i 1s/^pick/edit/' git -C "$tree" rebase -q -i HEAD~2
	unchanged refused refresh
	[[ $stderr == *"in the middle of a rebase"* ]]
	git -C "$tree" rebase --abort
	git -C "$tree" checkout -q HEAD~2
	unchanged refused refresh
	[[ $stderr == *"$tree is not on its branch; git -C $tree checkout kmmu/toy" ]]
	git -C "$tree" checkout -q -b other
	unchanged refused refresh
}

@test "refresh: new files that git ignores are refused, objects are not" {
	toy
	kmmu 0 apply
	touch "$tree"/arch/x86/kvm/{a.o,.a.o.cmd} "$tree/vmlinux"
	mkdir "$tree/.cache"
	touch "$tree/.cache/index"
	unchanged kmmu 0 refresh
	for file in arch/x86/kvm/d.c tools/testing/new_test.c Documentation/virt/new.rst arch/x86/kvm/d.h arch/x86/e.S; do
		mkdir -p "$(dirname "$tree/$file")"
		touch "$tree/$file"
		unchanged refused refresh
		[[ $stderr == *"$tree/$file is new and in no commit; 'git add -f' and commit it, or remove it" ]]
		rm "$tree/$file"
	done
	kmmu 0 refresh --help
	[[ $output == *"git add -f"* ]]
}

@test "refresh: commits that make no stack are refused" {
	toy
	kmmu 0 apply
	tip=$(git -C "$tree" rev-parse HEAD)
	git -C "$tree" commit -q --allow-empty -m 'KVM: x86: Nothing'
	unchanged refused refresh
	[[ $stderr == *"changes nothing; drop it" ]]
	git -C "$tree" reset -q --hard "$tip"
	git -C "$tree" checkout -q -b side HEAD~
	lines 1 3 >"$tree/arch/x86/kvm/d.c"
	toy_commit "$tree" 'KVM: x86: Side'
	git -C "$tree" checkout -q kmmu/toy
	git -C "$tree" merge -q -m Merge side
	unchanged refused refresh
	[[ $stderr == *"has merges; a stack is linear" ]]
	git -C "$tree" reset -q --hard "$tip"
	for text in $'Why.\n---\nLost.' $'Why.\ndiff --git a/x b/x\nLost.'; do
		git -C "$tree" commit -q --amend -m 'KVM: x86/mmu: End' -m "$text"
		unchanged kmmu 2 refresh
		[[ ${stderr_lines[-1]} == *"reword '"* || ${stderr_lines[-1]} == *"does not apply"* ]]
	done
	git -C "$tree" commit -q --amend -m '[KVM] x86: End' -m 'Why.'
	unchanged refused refresh
	[[ $stderr == *"a mail cannot carry a commit's text; reword '[KVM] x86: End'" ]]
	git -C "$tree" commit -q --amend -m 'KVM: x86: Go on' -m 'Why.'
	unchanged refused refresh --topic alpha
	git -C "$tree" commit -q --amend -m '...' -m 'Why.'
	unchanged refused refresh
	[[ $stderr == *"the subject '...' gives no file name" ]]
	git -C "$tree" checkout -q --orphan alone
	git -C "$tree" commit -q -m 'KVM: x86: Alone'
	git -C "$tree" branch -q -M alone kmmu/toy
	unchanged refused refresh
	[[ $stderr == *"is not on top of the base" ]]
}

@test "refresh: interrupted, nothing is written, and the next one writes" {
	toy
	kmmu 0 apply
	edit HEAD~2 's/second;/seconds;/' arch/x86/kvm/a.c
	slow_git format-patch
	unchanged interrupt refresh
	slow_git commit-tree
	unchanged interrupt refresh
	# After the writing, before the tree has the new commits.
	slow_git update-ref
	sed -i 's/ update-ref / HEAD /' "$BATS_TEST_TMPDIR/slow/git"
	sed -i 's/^if .*/if [[ " $* " == *" -m kmmu refresh "* ]]; then/' "$BATS_TEST_TMPDIR/slow/git"
	interrupt refresh
	no_litter
	kmmu 0 refresh
	[[ -z $output ]]
	kmmu 0 apply
	grep -q '^+int seconds;' "$co/patches/toy/alpha/x86-go-on.patch"
	[[ $(git -C "$tree" rev-parse HEAD) == "${output##* }" ]]
}

@test "refresh: a full disk, and nothing is written" {
	toy
	on_small_disk 4M '
		cp -r "$co"/. "$small"
		cd "$small"
		rm -rf build
		tools/kmmu apply
		seq 70000 >build/toy/tree/arch/x86/kvm/a.c
		git -C build/toy/tree commit -qam "KVM: x86: Grow"
		dd if=/dev/zero of=fill bs=16k 2>/dev/null || true
		truncate -s -64k fill
		status=0
		tools/kmmu refresh || status=$?
		diff -r patches "$co/patches"
		diff series.toy "$co/series.toy"
		rm fill
		tools/kmmu refresh
		echo "status $status"'
	[[ ${lines[-1]} == "status 2" ]]
}

# ----------------------------------------------------------------------- setup

# no_kernel: co without the toy's kernel, and linux.tar, which holds it.
no_kernel() {
	toy
	rm -rf "$co/kernel-toy"
	mkdir "$co/kernel-toy"
	linux=$BATS_TEST_TMPDIR/linux-5.10
	toy_kernel "$linux"
	ln -s Kbuild "$linux/link"
	tarball
}

# tarball [TAR-OPTION...]: linux.tar from $linux.
tarball() {
	tar -C "$BATS_TEST_TMPDIR" "$@" -cf "$BATS_TEST_TMPDIR/linux.tar" linux-5.10
}

# nothing_kept: the last setup failed without a trace.
nothing_kept() {
	[[ -d $co/kernel-toy && -z $(ls -A "$co/kernel-toy") ]]
	no_litter
	[[ ! -e $co/build/toy ]]
}

@test "setup: what is no kernel tarball is refused, nothing is left" {
	no_kernel
	head -c 100000 /dev/urandom >"$BATS_TEST_TMPDIR/garbage.tar.xz"
	tar -C "$co" -cf "$BATS_TEST_TMPDIR/other.tar" tools
	rm "$linux/Makefile"
	tarball
	head -c 5000 "$BATS_TEST_TMPDIR/linux.tar" >"$BATS_TEST_TMPDIR/short.tar"
	for file in garbage.tar.xz other.tar short.tar linux.tar nonsense.tar no/such/dir.tar .; do
		kmmu 2 setup --sources-only --tarball "$BATS_TEST_TMPDIR/$file"
		[[ -z $output && ${stderr_lines[-1]} == "kmmu setup: "* ]]
		[[ $stderr == *"${file%.}"* || $file == linux.tar ]]
		run -0 grep -vc '^\[..:..:..\] importing into git$' <<<"$stderr"
		[[ $output == 1 ]]
		nothing_kept
	done
	refused setup --sources-only --git "$BATS_TEST_TMPDIR/nonsense"
	refused setup --sources-only --git "$linux"
	kmmu 2 setup --sources-only --git "$root/tools"
	nothing_kept
}

@test "setup: one tarball, one commit id on every machine" {
	no_kernel
	kmmu 0 setup --sources-only --tarball "$BATS_TEST_TMPDIR/linux.tar"
	want=$(git -C "$co/kernel-toy" rev-parse refs/kmmu/base HEAD)
	[[ $want == *$'\n'* && $stderr == *"base is ${want%$'\n'*}, not the pinned 0"* ]]
	[[ $(git -C "$co/kernel-toy" log -1 --format='%s %an %ae %aI %cI') == \
		"Linux 5.10.0 kmmu kmmu@localhost 2020-12-13T22:41:30+00:00 2020-12-13T22:41:30+00:00" ]]
	[[ -z $(git -C "$co/kernel-toy" status --porcelain --ignored) ]]
	rm -rf "$co/kernel-toy"
	find "$linux" -exec touch -h -d '2001-02-03' {} +
	tarball --sort=name --owner=eve:1234 --group=eve:1234
	hostile_config
	kmmu 0 setup --sources-only --tarball "$BATS_TEST_TMPDIR/linux.tar"
	unset GIT_DIR GIT_INDEX_FILE
	[[ $(git -C "$co/kernel-toy" rev-parse refs/kmmu/base HEAD) == "$want" ]]
	no_litter
	run -0 cat "$co/kernel-toy/scripts/run.sh"
	[[ $output == '#!/bin/sh' && -x $co/kernel-toy/scripts/run.sh ]]
}

@test "setup: a filled kernel stays, foreign files are not touched" {
	toy
	kmmu 0 setup --sources-only
	[[ $stderr == *"base is $base"* ]]
	kmmu 0 setup --sources-only --tarball "$BATS_FILE_TMPDIR/linux-toy.tar"
	[[ $stderr == *"$co/kernel-toy is filled already"* ]]
	rm -rf "$co/kernel-toy"
	mkdir "$co/kernel-toy"
	echo mine >"$co/kernel-toy/mine"
	refused setup --sources-only --tarball "$BATS_FILE_TMPDIR/linux-toy.tar"
	[[ $stderr == *"$co/kernel-toy has files but no base commit"* && -e $co/kernel-toy/mine ]]
}

@test "setup: --git takes HEAD of a checkout" {
	no_kernel
	git -C "$linux" init -q
	toy_commit "$linux" 'Begin'
	toy_commit "$linux" 'Go on' --allow-empty
	git -C "$linux" checkout -q HEAD~
	kmmu 0 setup --sources-only --git "$linux"
	[[ $(git -C "$co/kernel-toy" rev-parse refs/kmmu/base) == "$(git -C "$linux" rev-parse HEAD)" ]]
	kmmu 0 apply
}

@test "setup: kernel/ may be a link to where there is room" {
	no_kernel
	rmdir "$co/kernel-toy"
	mkdir "$BATS_TEST_TMPDIR/room"
	ln -s "$BATS_TEST_TMPDIR/room" "$co/kernel-toy"
	kmmu 0 setup --sources-only --tarball "$BATS_TEST_TMPDIR/linux.tar"
	[[ -L $co/kernel-toy && -f $BATS_TEST_TMPDIR/room/Makefile ]]
}

@test "setup: apply does it when the base is missing, and says so when it cannot" {
	no_kernel
	kmmu 2 apply
	[[ ${stderr_lines[-1]} == "kmmu setup: "* && $stderr != *"kmmu apply"* ]]
	nothing_kept || [[ -d $co/build/toy/download ]]
}

@test "setup: interrupted, nothing is left, and the next one works" {
	no_kernel
	slow_git add
	interrupt setup --sources-only --tarball "$BATS_TEST_TMPDIR/linux.tar"
	nothing_kept
	slow_git commit
	interrupt setup --sources-only --tarball "$BATS_TEST_TMPDIR/linux.tar"
	nothing_kept
	# One that was killed leaves its directory, which the next one removes.
	mkdir -p "$co/kernel-toy.import.1/arch"
	kmmu 0 setup --sources-only --tarball "$BATS_TEST_TMPDIR/linux.tar"
	[[ -f $co/kernel-toy/Makefile ]]
	no_litter
}

@test "setup: a full disk, and nothing is left" {
	no_kernel
	head -c 3000000 /dev/urandom >"$linux/arch/x86/kvm/big.c"
	tarball
	export TAR=$BATS_TEST_TMPDIR/linux.tar
	for size in 3M 5M; do
		on_small_disk "$size" '
			cp -r "$co" "$small/"
			cd "$small/co"
			mkdir -p build
			touch build/toy-base.lock
			find . | sort >'"$BATS_TEST_TMPDIR"'/before
			status=0
			tools/kmmu setup --sources-only --tarball "$TAR" || status=$?
			find . | sort | diff '"$BATS_TEST_TMPDIR"'/before -
			echo "status $status"'
		[[ $output == "status 2" && ${stderr_lines[-1]} == *"nothing was kept: "*"No space left"* ]]
	done
	[[ $stderr == *"importing into git"* ]]
}

# --------------------------------------------------------------- the real stack

@test "stack: the same ids everywhere, from a checkout and from a sparse clone" {
	real
	user=$BATS_TEST_TMPDIR/user
	git clone -q --shared --no-checkout "$co/kernel" "$user"
	git -C "$user" sparse-checkout set arch/x86 virt/kvm tools/testing/selftests/kvm Documentation/virt
	git -C "$user" checkout -q "$base"
	(
		hostile_config
		kmmu 0 apply --tree "$user"
		[[ ${#lines[@]} == "$(grep -c '^[^#]' "$co/series")" ]]
		unset GIT_DIR GIT_INDEX_FILE
		diff <(echo "$output") <(library stack_commits)
		[[ $(git -C "$user" rev-parse HEAD) == "$tip" && -z $(git -C "$user" status --porcelain) ]]
	)
	# Now with the line ends that the usual set-up gives.
	git -C "$user" rm -rq --cached . && git -C "$user" reset -q --hard
	state "$user" >"$BATS_TEST_TMPDIR/before"
	refused apply --tree "$user"
	[[ $stderr =~ ^'kmmu apply: linux-5.10/'[^\ ]+\.patch\ does\ not\ apply:\ patch\ failed:\ [^\ ]+:[0-9]+$ ]]
	state "$user" | diff "$BATS_TEST_TMPDIR/before" -
}

@test "stack: a plain tree, quilt and git am give the same files" {
	real
	real_files "$BATS_TEST_TMPDIR/plain"
	cp -r "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/quilt"
	cp -r "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/am"
	kmmu 0 apply --tree "$BATS_TEST_TMPDIR/plain"
	diff <(echo "$output") <(grep '^[^#]' "$co/series")

	cd "$BATS_TEST_TMPDIR/quilt"
	run -0 quilt --quiltrc "$co/tools/quiltrc" push -a
	[[ $output != *offset* && $output != *fuzz* ]] || { echo "$output"; false; }
	run -0 quilt --quiltrc "$co/tools/quiltrc" applied
	[[ ${#lines[@]} == $(grep -c '^[^#]' "$co/series") ]]
	rm -rf .pc
	diff -r . "$BATS_TEST_TMPDIR/plain"

	cd "$BATS_TEST_TMPDIR/am"
	git init -q
	git add -A -f
	git commit -q -m base
	mapfile -t mails < <(sed -n 's,^[^#],'"$co"'/patches/&,p' "$co/series")
	run -0 git am -q "${mails[@]}"
	[[ -z $(git status --porcelain) && $(git rev-list --count HEAD) == $((${#mails[@]} + 1)) ]]
	diff -r --exclude=.git . "$BATS_TEST_TMPDIR/plain"
}

@test "stack: every patch file is in the series, and none carries a sign-off" {
	toy
	diff <(cd "$co/patches" && find linux-5.10 -name '*.patch' | sort) <(grep '^[^#]' "$co/series" | sort)
	run -1 grep -rilE --include='*.patch' '^(signed-off-by|change-id):' "$co/patches/linux-5.10"
}

@test "stack: the patch files are what refresh writes" {
	real
	tree=$co/build/linux-5.10/tree
	git -C "$co/kernel" worktree add -q --no-checkout -B kmmu/linux-5.10 "$tree" "$tip"
	git -C "$tree" sparse-checkout set arch/x86/kvm
	git -C "$tree" checkout -q
	kmmu 0 refresh
	[[ -z $output ]]
	diff -r "$co/patches/linux-5.10" "$root/patches/linux-5.10"
	diff "$co/series" "$root/series"
}

# ------------------------------------------------------------ the configuration

@test "build: an option that Kconfig drops or changes is an error" {
	real
	local src=$co/build/linux-5.10/src files
	mkdir -p "$src"
	mapfile -t files < <(git -C "$co/kernel" ls-tree -r --name-only "$base" |
		grep -E '(^|/)Kconfig|^scripts/|^Makefile$|^arch/x86/(Makefile|[^/]*\.sh$)|^tools/build/')
	git -C "$co/kernel" archive "$base" -- "${files[@]}" | tar -x -C "$src"
	cat >"$BATS_TEST_TMPDIR/config" <<-'EOF'
	# CONFIG_64BIT is not set
	CONFIG_64BIT=y
	CONFIG_SMP=y
	CONFIG_NR_CPUS_RANGE_END=512
	CONFIG_LOCALVERSION="-toy"
	# CONFIG_SWAP is not set
	CONFIG_NO_SUCH_THING=n
	EOF
	config() {
		run -"$1" --separate-stderr library make_config "$BATS_TEST_TMPDIR/obj" "$BATS_TEST_TMPDIR/config" "${@:2}"
		echo "$output$stderr"
		tail -n 20 "$BATS_TEST_TMPDIR/obj/config.log"
	}
	config 0
	[[ -z $output$stderr ]]
	grep -qx CONFIG_SMP=y "$BATS_TEST_TMPDIR/obj/.config"
	# It needs something that is not set; there is no such thing; another option selects it.
	echo CONFIG_KVM_AMD=y >"$BATS_TEST_TMPDIR/more"
	echo CONFIG_NO_SUCH_THING=y >>"$BATS_TEST_TMPDIR/more"
	echo '# CONFIG_HAVE_KVM is not set' >>"$BATS_TEST_TMPDIR/more"
	config 2 "$BATS_TEST_TMPDIR/more"
	[[ $stderr == *"Kconfig dropped: CONFIG_HAVE_KVM=n CONFIG_KVM_AMD=y CONFIG_NO_SUCH_THING=y (asked for in ci/config)" ]]
	# And it stays one, though nothing has to be made again.
	config 2 "$BATS_TEST_TMPDIR/more"
}

@test "bench: takes topics of the stack alone" {
	toy
	[[ $(library stack_topics) == $'alpha\nbeta' ]]
	kmmu 2 bench
	[[ $stderr == *"no topic of the stack toy has a benchmark"* ]]
	kmmu 2 bench cr0-wp-v3
	[[ $stderr == *"the stack toy has no topic cr0-wp-v3"* ]]
}

@test "build: a fragment that a profile names is missing" {
	toy
	echo config=nonsense >>"$co/ci/profiles/amd-shadow"
	run -2 --separate-stderr library build_kernel 0 amd-shadow </dev/null
	[[ $stderr == *"no fragment ci/config/nonsense.config" && ${#stderr_lines[@]} == 1 ]]
}

@test "build: a stack's own fragments go on top of those for all" {
	toy
	mkdir "$co/ci/config/toy"
	echo '# CONFIG_SMP is not set' >"$co/ci/config/toy/base.config"
	run -0 library config_fragments amd
	[[ $output == "$co/ci/config/base.config"$'\n'"$co/ci/config/toy/base.config" ]]
	KMMU_STACK=linux-5.10 run -0 library config_fragments amd
	[[ $output == "$co/ci/config/base.config" ]]
}

@test "build: selftests are built anew when what else the stack names has changed" {
	toy
	[[ -z $(library test_sources "$base") ]]
	echo 'test_sources=Documentation/virt scripts' >>"$co/ci/stacks/toy"
	[[ $(library test_sources "$base" | cut -f2) == $'Documentation/virt\nscripts' ]]
}

# ------------------------------------------------------------------ the results

results() {
	run -"$1" --separate-stderr python3 "$root/tools/lib/results.py" "${@:2}"
	echo "$output"
	echo "$stderr"
}

# statuses FILE: "NAME STATUS" for each entry.
statuses() {
	python3 -c 'import json, sys
for e in json.load(open(sys.argv[1]))["entries"]: print(e["name"], e["status"])' "$1"
}

# plan NAME...: the file plan with these entries.
plan() {
	printf 'run\t%s\t60\t/tests/true\n' "$@" >plan
}

@test "results: a pass is kept and not run again, a failure never" {
	cd "$BATS_TEST_TMPDIR"
	plan good bad odd gone
	results 0 todo plan cache
	[[ ${#lines[@]} == 4 && $output == "$(cat plan)" ]]
	result run "$(entry good PASS)" "$(entry bad FAIL 'rc 1')" "$(entry odd SKIP 'rc 4')"
	results 0 merge plan cache run out
	[[ $(statuses out) == $'good PASS\nbad FAIL\nodd SKIP\ngone LOST' ]]
	[[ $(statuses cache) == $'good PASS\nodd SKIP' ]]
	results 0 todo plan cache
	[[ $output == "$(grep -P '\t(bad|gone)\t' plan)" ]]
	# Now without a run: what was kept counts, the rest is lost, not kept.
	results 0 merge plan cache nonsense out
	[[ $(statuses out) == $'good PASS\nbad LOST\nodd SKIP\ngone LOST' ]]
	[[ $(statuses cache) == $'good PASS\nodd SKIP' ]]
	# What the kernel says at boot spoils what ran, not what was kept.
	result run "$(entry boot FAIL 'WARNING: at foo')" "$(entry bad PASS)" "$(entry gone SKIP)"
	results 0 merge plan cache run out
	[[ $(statuses out) == $'good PASS\nbad FAIL\nodd SKIP\ngone FAIL' ]]
	[[ $(statuses cache) == $'good PASS\nodd SKIP' ]]
	grep -q '"reason": "boot: WARNING: at foo"' out
}

@test "results: a failure is known only if the base fails the same way" {
	cd "$BATS_TEST_TMPDIR"
	result dir/amd/base.json "$(entry same FAIL 'rc 254' one '  lib/a.c:12: bad')" "$(entry other FAIL 'rc 254')" \
		"$(entry line FAIL 'rc 254' '  lib/a.c:12: bad')" "$(entry hang TIMEOUT '60 s')" \
		"$(entry fixed FAIL 'rc 1')" "$(entry fine PASS)" "$(entry skips SKIP)"
	result dir/amd/tip.json "$(entry same FAIL 'rc 254' two '  lib/a.c:12: bad')" "$(entry other FAIL 'signal 6')" \
		"$(entry line FAIL 'rc 254' '  lib/a.c:13: bad')" "$(entry hang TIMEOUT '60 s')" \
		"$(entry fixed PASS)" "$(entry fine PASS)" "$(entry skips SKIP 'rc 4' 'skip: no')"
	results 1 compare dir tip amd
	[[ ${lines[-1]} == "2 passed, 3 failed, 2 skipped" ]]
	[[ $output == *"known failures:"$'\n'"  same: FAIL rc 254 (amd)"* ]]
	[[ $output == *"failures:"$'\n'"  other: FAIL signal 6 (amd)"$'\n'"  line: FAIL rc 254 (amd)"$'\n'"  hang: TIMEOUT 60 s (amd)"* ]]
	[[ $output == *"skips: skip: no (amd)"* ]]
	[[ $(awk '$1 == "fixed" { print $2 }' <<<"$output") == fixed ]]
	grep -qx 'ok 1 amd:same # SKIP the base fails alike' dir/results.ktap
	grep -qx 'not ok 2 amd:other # FAIL signal 6' dir/results.ktap
	grep -qx '1..7' dir/results.ktap
	python3 -c 'import sys, xml.etree.ElementTree as t
s = t.parse("dir/junit.xml").getroot()
sys.exit([len(s.findall(".//" + x)) for x in ("testcase", "failure", "skipped")] != [7, 3, 2])'
	# Skipped and known alone are fine.
	result dir/amd/tip.json "$(entry same FAIL 'rc 254' '  lib/a.c:12: bad')" "$(entry skips SKIP)" \
		"$(entry other PASS)" "$(entry line PASS)" "$(entry hang PASS)" "$(entry fixed PASS)" "$(entry fine PASS)" "$(entry new PASS)"
	results 0 compare dir tip amd
	[[ ${lines[-1]} == "6 passed, 0 failed, 2 skipped" ]]
	[[ $(awk '$1 == "new" { print $2 }' <<<"$output") == ok+ ]]
}

@test "results: a failure that the base does not have, or in its own run, counts" {
	cd "$BATS_TEST_TMPDIR"
	result dir/amd/tip.json "$(entry new FAIL 'rc 1')"
	results 1 compare dir tip amd
	[[ ${lines[-1]} == "0 passed, 1 failed, 0 skipped" ]]
	result dir/amd/base.json "$(entry old FAIL 'rc 1')"
	results 1 compare dir base amd
	[[ ${lines[-1]} == "0 passed, 1 failed, 0 skipped" ]]
}

@test "results: what left no result is lost, and so is what only the base has" {
	cd "$BATS_TEST_TMPDIR"
	result dir/amd/base.json "$(entry fine PASS)" "$(entry gone PASS)"
	result dir/amd/tip.json "$(entry fine PASS)"
	results 1 compare dir tip amd
	[[ ${lines[-1]} == "1 passed, 1 failed, 0 skipped" && $output == *"gone: LOST not at tip (amd)"* ]]
	results 1 compare dir tip amd intel
	[[ ${lines[-1]} == "1 passed, 2 failed, 0 skipped" && $output == *"run: LOST no result (intel)"* ]]
}

@test "results: what cannot be read or written is status 2 and one line" {
	cd "$BATS_TEST_TMPDIR"
	plan a
	echo '{"entries": [{}]}' >broken
	echo '{' >worse
	for file in broken worse /; do
		results 2 todo plan "$file"
		[[ ${#stderr_lines[@]} == 1 ]]
	done
	results 2 todo nonsense cache
	results 2 merge plan cache run /proc/nonsense/out
	[[ ${#stderr_lines[@]} == 1 ]]
	results 2 merge plan
	results 2 nonsense plan cache
	results 2
}

# ---------------------------------------------------------------- the benchmark

# guest POINT.N LINE...: the result of a guest that printed these lines.
guest() {
	result "dir/amd/$1/result.json" "$(entry topic PASS '' "${@:2}")"
}

bench() {
	run -"$1" --separate-stderr python3 "$root/tools/lib/bench.py" topic spec dir 'amd:qemu:kvm.x=1 y=a:b'
	echo "$output"
	echo "$stderr"
}

# figures EXPRESSION: of the printed JSON, rows.
figures() {
	python3 -c 'import json, sys
rows = json.loads(sys.argv[2])
sys.exit(not eval(sys.argv[1]))' "$1" "$output"
}

bench_guests() {
	cd "$BATS_TEST_TMPDIR"
	printf 'test=toy_test -n 1\nmetric=cost|instructions|mode=a|cost\nmetric=exits|exits|mode=b|exits/toggles\n' >spec
	for n in 1 2; do
		guest "base.$n" 'mode=a cost=1000.5' 'mode=b exits=300 toggles=100' 'odd line'
		guest "tip.$n" 'mode=a cost=500.25' 'mode=b exits=0 toggles=100'
	done
}

@test "bench: values, ratios and the shape of the JSON" {
	bench_guests
	bench 0
	figures '[list(r)[:9] for r in rows] == [["topic", "metric", "unit", "emulator", "profile", "params", "base", "tip", "peers"]] * 2'
	figures 'rows[0]["topic"] == "topic" and rows[0]["metric"] == "cost" and rows[0]["unit"] == "instructions"'
	figures 'rows[0]["profile"] == "amd" and rows[0]["emulator"] == "qemu" and rows[0]["peers"] == {}'
	figures 'rows[0]["params"] == {"command": "toy_test -n 1", "cmdline": "kvm.x=1 y=a:b"}'
	figures '(rows[0]["base"], rows[0]["tip"], rows[1]["base"], rows[1]["tip"]) == (1000.5, 500.25, 3, 0)'
	figures 'all(r["repeatable"] for r in rows)'
	[[ $output == "$(cat dir/bench.json)" ]]
	[[ $stderr =~ cost\ +instructions\ +amd\ +1000.50\ +500.25\ +0.500 && $stderr != *differ* ]]
}

@test "bench: two runs that differ are marked" {
	bench_guests
	guest tip.2 'mode=a cost=500.8' 'mode=b exits=0 toggles=100'
	bench 0
	figures '[r["repeatable"] for r in rows] == [False, True] and rows[0]["runs"]["tip"] == [500.25, 500.8]'
	[[ $stderr == *"runs differ by more than 0.1%"* ]]
	guest tip.2 'mode=a cost=500.3' 'mode=b exits=0 toggles=100'
	bench 0
	figures 'all(r["repeatable"] for r in rows)'
}

@test "bench: what is over its limit is status 1" {
	bench_guests
	printf 'limit=amd|cost|instructions|500\nlimit=amd|exits|exits|base\nlimit=intel|cost|instructions|1\n' >>spec
	bench 1
	[[ $stderr == *"bench: amd: cost, instructions: 500.25 exceeds the limit of 500.00"* && $stderr != *exits,* ]]
	sed -i 's/|500$/|501/' spec
	bench 0
	sed -i 's/|cost|instructions|501$/|price|instructions|501/' spec
	bench 1
	[[ $stderr == *"bench: amd: no metric 'price' in instructions for its limit"* ]]
	echo 'limit=amd|cost|instructions|much' >>spec
	bench 2
}

@test "bench: limits that are a multiple of the base" {
	bench_guests
	echo 'limit=amd|cost|instructions|base*0.49' >>spec
	bench 1
	[[ $stderr == *"bench: amd: cost, instructions: 500.25 exceeds the limit of 490.25"* ]]
	sed -i 's/|base.*/|base*0.51/' spec
	bench 0
	sed -i 's/|base.*/|base*much/' spec
	bench 2
}

@test "bench: limits that are the tip's value in another run" {
	bench_guests
	echo 'limit=amd|cost|instructions|tip:amd*0.9' >>spec
	bench 1
	[[ $stderr == *"bench: amd: cost, instructions: 500.25 exceeds the limit of 450.23"* ]]
	sed -i 's/|tip:.*/|tip:amd/' spec
	bench 0
	sed -i 's/|tip:.*/|tip:intel*0.9/' spec
	bench 0
}

@test "bench: metrics of which more is better" {
	bench_guests
	sed -i 's/|cost$/|cost|higher/' spec
	echo 'limit=amd|cost|instructions|501' >>spec
	bench 1
	[[ $stderr == *"bench: amd: cost, instructions: 500.25 is below the limit of 501.00"* ]]
	figures 'rows[0]["better"] == "higher" and "better" not in rows[1]'
	sed -i 's/|501$/|500/' spec
	bench 0
	sed -i 's/|higher$/|nicer/' spec
	bench 2
	[[ ${#stderr_lines[@]} == 1 ]]
}

@test "bench: guests with several CPUs give medians" {
	bench_guests
	printf 'cpus=2\nrepeat=3\n' >>spec
	guest base.3 'mode=a cost=3' 'mode=b exits=9 toggles=3'
	guest tip.2 'mode=a cost=7' 'mode=b exits=1 toggles=1'
	bench 1
	guest tip.3 'mode=a cost=600' 'mode=b exits=1 toggles=1'
	bench 0
	figures 'rows[0]["base"] == 1000.5 and rows[0]["tip"] == 500.25 and rows[1]["tip"] == 1'
	figures 'rows[0]["runs"]["tip"] == [500.25, 7, 600] and "repeatable" not in rows[0]'
	[[ $stderr == *"median of 3: base 3.00-1000.50, tip 7.00-600.00"* ]]
}

@test "bench: a zero on the base has no ratio" {
	bench_guests
	for n in 1 2; do
		guest "base.$n" 'mode=a cost=1000.5' 'mode=b exits=0 toggles=100'
	done
	bench 0
	figures 'rows[1]["base"] == 0'
}

@test "bench: a guest that failed or a metric that is missing is status 1" {
	bench_guests
	for line in 'mode=a price=1' 'mode=a cost=none' 'mode=a cost=nan' 'mode=c cost=1' ''; do
		guest tip.2 "$line" 'mode=b exits=0 toggles=100'
		bench 1
		[[ $stderr == *"bench: amd: "* && $output != *nan* && $stderr != *Traceback* ]]
	done
	guest tip.2 'mode=a cost=1' 'mode=b exits=0 toggles=0'
	bench 1
	[[ $stderr != *Traceback* ]]
	result dir/amd/tip.2/result.json "$(entry topic FAIL 'rc 1' 'mode=a cost=1' 'mode=b exits=0 toggles=100')"
	bench 1
	[[ $stderr == *"topic FAIL rc 1"* ]]
	rm dir/amd/tip.2/result.json
	bench 1
	[[ $stderr == *"no result of the guest (dir/amd/tip.2/result.json)"* ]]
	[[ $output == "[]" && $(cat dir/bench.json) == "[]" ]]
}

@test "bench: a topic file that cannot be read is status 2 and one line" {
	bench_guests
	echo 'metric=cost|instructions' >>spec
	bench 2
	[[ ${#stderr_lines[@]} == 1 ]]
	rm spec
	bench 2
	[[ ${#stderr_lines[@]} == 1 ]]
	bench_guests
	echo '{' >dir/amd/tip.1/result.json
	bench 2
	[[ ${#stderr_lines[@]} == 1 ]]
}
