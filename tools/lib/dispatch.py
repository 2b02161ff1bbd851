# SPDX-License-Identifier: GPL-2.0
"""Command lines of the form: PROGRAM COMMAND ARGUMENT..."""

import os
import sys


def dispatch(argv, commands, usage, *errors):
    """Run the function that commands has under argv[1] with the rest of argv.

    Returns its value or 0, or 2 with a line on stderr if it raised what bad input
    or a bad environment does raise, or one of errors; 2 with the usage if there is
    no such command, or no argument.
    """
    if len(argv) < 3 or argv[1] not in commands:
        print(usage, file=sys.stderr)
        return 2
    try:
        return commands[argv[1]](*argv[2:]) or 0
    except (OSError, ValueError, KeyError, TypeError, *errors) as e:
        print(f"{os.path.basename(argv[0])} {argv[1]}: {e}", file=sys.stderr)
        return 2
