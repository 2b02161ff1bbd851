#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Completion for bash: as a shell asks for it, against what the verbs say and take.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats sets output and friends
bats_require_minimum_version 1.5.0
load stack

# complete LINE: what a shell with our completion makes of the line, one a line.
complete_line() {
	run -0 bash -c '
		source <("$1" completion)
		COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=("$1")
		_kmmu
		printf "%s\n" "${COMPREPLY[@]}"' _ "$root/tools/kmmu" "kmmu $1"
}

# offers LINE WORD...: these are among them.
offers() {
	local word
	complete_line "$1"
	for word in "${@:2}"; do
		grep -qxF -- "$word" <<<"$output" || { echo "'$1' does not offer '$word' but: $output"; return 1; }
	done
}

# only LINE [WORD...]: these are all of them.
only() {
	complete_line "$1"
	[[ $output == "$(printf '%s\n' "${@:2}" | sort)" ]] || { echo "'$1' offers: $output"; return 1; }
}

@test "completion: every verb, and every option that its usage names" {
	local verb option
	offers '' help
	for verb in "$root"/tools/verbs/*; do
		verb=${verb##*/}
		offers "${verb:0:2}" "$verb"
		complete_line "$verb -"
		for option in $("$root/tools/kmmu" "$verb" --help | sed -n '/^Usage/,/^$/p' | grep -oE '(^|[[ ])--[a-z-]+' | tr -d '[ '); do
			grep -qxF -- "$option" <<<"$output"
		done
	done
}

@test "completion: values come from the data" {
	only 'send --waive che' check checkpatch
	only 'bisect --tests ' bad each
	only 'bisect --lost s' skip
	only 'boot --profile amd-' amd-shadow
	only 'status --stack linux-5.1' linux-5.10
	offers 'test --at ' base tip "$(sed -n 's,^[^#].*/\(.*\)\.patch,\1,p' "$root/series" | tail -1)"
	offers 'bisect --good base --bad ' tip
	offers 'send --self ' "$(sed -n 's,^[^#/]*/\([^/]*\)/.*,\1,p' "$root/series" | head -1)"
	offers 'check --only ' checkpatch sparse
	offers 'setup --for ' build send
	offers 'bisect --good base --bad tip -- ' smm_test amd
	offers 'boot --emulator ' qemu-svm
	# bash takes what follows '=' for a word of its own.
	only 'boot --profile amd/tdp_mmu=' 0 1
	# What is no list is left to the shell.
	only 'apply --tree /' ''
	only 'nonsense --' ''
}

@test "completion: bash takes it" {
	run -0 bash -ic 'source <("$1" completion); complete -p kmmu' _ "$root/tools/kmmu"
	[[ $output == *"complete -o default -F _kmmu kmmu"* ]]
}
