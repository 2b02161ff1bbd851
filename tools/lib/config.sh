# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Configuration fragments, and what a configuration lacks of what they ask for.

# fragment_files NAME...: the files of these fragments, in the order to merge them.
# What the current stack's kernel needs otherwise is in ci/config/STACK.
fragment_files() {
	local name
	for name; do
		[[ -f $kmmu_root/ci/config/$name.config ]] || die "no fragment ci/config/$name.config"
		printf '%s\n' "$kmmu_root/ci/config/$name.config"
		[[ ! -f $kmmu_root/ci/config/$stack/$name.config ]] ||
			printf '%s\n' "$kmmu_root/ci/config/$stack/$name.config"
	done
}

# lost_options WANTED GOT: settings that a configuration does not have; the last
# line about an option counts, and what is not set need not be mentioned.
lost_options() {
	awk '{ k = $0; sub(/^# /, "", k); sub(/[= ].*/, "", k) }
		!/^(CONFIG_[A-Za-z0-9_]+=|# CONFIG_[A-Za-z0-9_]+ is not set$)/ { next }
		/ is not set$|=n$/ { $0 = k "=n" }
		NR == FNR { got[k] = $0; next }
		{ want[k] = $0 }
		END {
			for (k in want)
				if (want[k] != (k in got ? got[k] : k "=n"))
					print want[k]
		}' "$2" "$1" | sort | tr '\n' ' '
}
