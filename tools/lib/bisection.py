#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Judge the guests of a bisection.

  bisection.py judge KNOWN RESULT...
      Print "good", "bad", "late", "lost" or "skip", a tab and the reason, for
      result.json files.  What the file KNOWN names, one a line, fails on the good
      end as well and does not count.
  bisection.py failing RESULT...
      Print the names of what fails.
  bisection.py value KEY=VALUE:FIELD[/FIELD] RESULT...
      Print the median of a metric: of the output line with the word KEY=VALUE the
      value of FIELD=, divided by that of the second one.
  bisection.py side GOOD BAD VALUE
      Print "good" or "bad", whichever of the ends' values VALUE is closer to.

Exit status: 0 ok, 1 no such metric, or ends that do not differ, 2 usage or
environment.
"""

import json
import statistics
import sys

from bench import TOLERANCE, Missing, guest_output, value_of
from dispatch import dispatch

FAILED = ("FAIL", "TIMEOUT")


def entries(paths):
    for path in paths:
        try:
            with open(path, encoding="utf-8") as f:
                yield from json.load(f)["entries"]
        except FileNotFoundError:
            yield {"name": "guest", "status": "LOST", "reason": f"no {path}"}


def judge(known, *paths):
    with open(known, encoding="utf-8") as f:
        excused = set(f.read().split())
    found = {}
    for entry in entries(paths):
        if entry["name"] not in excused:
            found.setdefault(entry["status"], f"{entry['name']}: {entry['status']} {entry['reason']}".rstrip())
    for status, word in (("FAIL", "bad"), ("TIMEOUT", "late"), ("LOST", "lost"), ("PASS", "good"), ("SKIP", "skip")):
        if status in found:
            print(word, found[status] if word != "good" else "passed", sep="\t")
            return
    print("skip", "nothing to run", sep="\t")


def failing(*paths):
    for entry in entries(paths):
        if entry["status"] in FAILED:
            print(entry["name"])


def value(spec, *paths):
    token, colon, fields = spec.rpartition(":")
    if not colon or "=" not in token:
        raise ValueError(f"'{spec}' is not KEY=VALUE:FIELD[/FIELD]")
    print(statistics.median(value_of(guest_output(path), token, fields.split("/")) for path in paths))


def side(good, bad, this):
    good, bad, this = float(good), float(bad), float(this)
    if abs(good - bad) <= 5 * TOLERANCE * max(abs(good), abs(bad)):
        raise Missing(f"{good:g} on the good end and {bad:g} on the bad one hardly differ")
    print("good" if abs(this - good) < abs(this - bad) else "bad")


COMMANDS = {"judge": judge, "failing": failing, "value": value, "side": side}


def main(argv):
    try:
        return dispatch(argv, COMMANDS, __doc__)
    except Missing as e:
        print(e, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
