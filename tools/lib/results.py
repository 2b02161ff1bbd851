#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Keep, compare and show the results of guest runs.

  results.py todo PLAN CACHE
      Print the lines of PLAN whose entries have no result in CACHE.
  results.py merge PLAN CACHE RUN OUT
      Join CACHE and the result.json of RUN, for the entries of PLAN, to OUT.
      What passed or was skipped is added to CACHE; nothing else ever is.
      An entry that neither has is LOST.  RUN may be absent.
  results.py compare DIR POINT RUN...
      Compare DIR/RUN/base.json with DIR/RUN/POINT.json for each RUN; print a
      table, the failures and the totals, and write DIR/results.ktap and
      DIR/junit.xml.  A failure is known if the base fails the same way.
  results.py passed RUN
      Did all entries of the result.json RUN pass?  If not, print the first one.
  results.py caught RUN HOW
      Did a test fail in the way HOW in the result.json RUN?  Print the evidence,
      or what happened instead.  HOW is "output REGEX" (the test failed, and
      printed that), "splat REGEX" (the kernel complained) or "hang".

Exit status: 0 ok, 1 something failed that the base does not fail alike, 2 usage
or environment.
"""

import json
import os
import re
import sys
import xml.etree.ElementTree as ET

from dispatch import dispatch
from verdict import NOT_XML, Unjudgeable, write_file

GOOD = ("PASS", "SKIP")


def load(path):
    """The entries of a result file by name; none if there is no such file."""
    try:
        with open(path, encoding="utf-8") as f:
            return {e["name"]: e for e in json.load(f)["entries"]}
    except FileNotFoundError:
        return {}


def save(path, entries):
    write_file(path, json.dumps({"entries": list(entries)}, indent=1) + "\n")


def plan_lines(path):
    with open(path, encoding="utf-8") as f:
        return [(line.split("\t")[1], line) for line in f if line.startswith("run\t")]


def todo(plan, cache):
    have = load(cache)
    for name, line in plan_lines(plan):
        if name not in have:
            sys.stdout.write(line)


def lost(name, reason):
    return {"name": name, "status": "LOST", "reason": reason, "seconds": 0.0,
            "splats": [], "output": []}


def merge(plan, cache, run, out):
    kept, new = load(cache), load(run)
    # A complaint before the first entry spoils the whole run.
    boot = new.get("boot")
    entries = []
    for name, _ in plan_lines(plan):
        entry = kept.get(name) or new.get(name) or lost(name, "no result")
        if boot and name not in kept:
            entry = {**entry, "status": "FAIL", "reason": f"boot: {boot['reason']}"}
        if entry["status"] in GOOD:
            kept[name] = entry
        entries.append(entry)
    save(cache, kept.values())
    save(out, entries)


def symptom(entry):
    """What a failure has in common with the same failure elsewhere: the exit
    status, and where the test says that it failed."""
    where = re.search(r"\S+\.[ch]:\d+: .*", "\n".join(entry["output"]))
    return entry["reason"], where and where[0]


def judge(base, tip):
    """Outcome of one test at the point: pass, skip, known or fail."""
    if tip["status"] == "PASS":
        return "pass"
    if tip["status"] == "SKIP":
        return "skip"
    # That both got lost or timed out says nothing about either.
    if base and base["status"] == tip["status"] == "FAIL" and symptom(base) == symptom(tip):
        return "known"
    return "fail"


def cell(base, outcome, tip):
    if tip is None:
        return "-"
    text = {"pass": "ok", "skip": "skip", "known": "known"}.get(outcome, tip["status"])
    if base and base["status"] not in GOOD and outcome == "pass":
        text = "fixed"
    return text if base else text + "+"


def show_table(rows, runs):
    width = max([len(name) for name in rows] + [4])
    print(f"{'':{width}}  " + "  ".join(runs))
    for name, row in rows.items():
        print(f"{name:{width}}  " + "  ".join(f"{row.get(run, '-'):{len(run)}}" for run in runs).rstrip())
    print("\nok: passes; fixed: fails on the base; known: the base fails alike; +: not on the base")


def write_reports(directory, results):
    """KTAP and JUnit of everything; results are (run, test, outcome, entry)."""
    lines = ["KTAP version 1", f"1..{len(results)}"]
    suite = ET.Element("testsuite", name="kvm", tests=str(len(results)))
    for number, (run, name, outcome, entry) in enumerate(results, 1):
        good = outcome != "fail"
        why = {"skip": f"SKIP {entry['reason']}", "known": "SKIP the base fails alike",
               "fail": f"{entry['status']} {entry['reason']}"}.get(outcome, "")
        lines += [f"# {line}" for line in entry["output"] + entry["splats"]]
        lines.append(f"{'ok' if good else 'not ok'} {number} {run}:{name}" + (f" # {why}" if why else ""))
        case = ET.SubElement(suite, "testcase", classname=run, name=name, time=f"{entry['seconds']:.3f}")
        if outcome != "pass":
            ET.SubElement(case, "failure" if outcome == "fail" else "skipped",
                          message=NOT_XML.sub("?", why))
        ET.SubElement(case, "system-out").text = NOT_XML.sub("?", "\n".join(entry["output"] + entry["splats"]))
    write_file(os.path.join(directory, "results.ktap"), "\n".join(lines) + "\n")
    write_file(os.path.join(directory, "junit.xml"),
               ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")


def show_notes(results):
    """Why tests were skipped, are known to fail, or fail; each reason once."""
    for outcome, title in (("skip", "skipped"), ("known", "known failures"), ("fail", "failures")):
        reasons = {}
        for run, name, got, entry in results:
            if got == outcome:
                text = f"{name}: {entry['status']} {entry['reason']}".rstrip()
                for line in entry["output"]:
                    if outcome == "skip" and "skip" in line.lower():
                        text = f"{name}: {line}"
                reasons.setdefault(text, []).append(run)
        if reasons:
            print(f"\n{title}:")
        for text, where in reasons.items():
            print(f"  {text} ({', '.join(where)})")


def compare(directory, point, *runs):
    rows, results = {}, []
    for run in runs:
        base = load(os.path.join(directory, run, "base.json"))
        tip = load(os.path.join(directory, run, point + ".json")) if point != "base" else base
        if not tip:
            tip = {"run": lost("run", "no result")}
        else:
            # What only the base has was not built, or not found, at the point.
            tip.update((name, lost(name, f"not at {point}")) for name in base if name not in tip)
        for name, entry in tip.items():
            # The base itself has nothing to be compared with.
            other = base.get(name) if point != "base" else None
            outcome = judge(other, entry)
            rows.setdefault(name, {})[run] = cell(base.get(name), outcome, entry)
            results.append((run, name, outcome, entry))
    show_table(rows, runs)
    show_notes(results)
    write_reports(directory, results)
    count = [r[2] for r in results]
    failed = count.count("fail")
    print(f"\n{count.count('pass')} passed, {failed} failed, {count.count('skip') + count.count('known')} skipped")
    return 1 if failed else 0


def first_line(entry):
    text = [line for line in entry["splats"] + entry["output"] if line.strip()]
    return f"{entry['name']}: {entry['status']} {entry['reason']}".rstrip() + (f" ({text[0]})" if text else "")


def passed(run):
    for entry in load(run).values() or [lost("run", "no result")]:
        if entry["status"] != "PASS":
            print(first_line(entry))
            return 1
    return 0


def caught(run, how):
    kind, _, pattern = how.partition(" ")
    entries = list(load(run).values()) or [lost("run", "no result")]
    for entry in entries:
        if kind == "hang":
            found = [entry["reason"]] if entry["status"] == "TIMEOUT" else []
        elif kind in ("output", "splat"):
            lines = entry["splats"] if kind == "splat" else entry["output"]
            found = [line for line in lines if entry["status"] not in GOOD and re.search(pattern, line)]
        else:
            raise ValueError(f"'{how}' is no way to fail")
        if found:
            print(found[0].strip() or "hang")
            return 0
    print("not caught by", how, "but:", "; ".join(map(first_line, entries)))
    return 1


COMMANDS = {"todo": todo, "merge": merge, "compare": compare, "passed": passed, "caught": caught}


if __name__ == "__main__":
    sys.exit(dispatch(sys.argv, COMMANDS, __doc__, re.error, Unjudgeable))
