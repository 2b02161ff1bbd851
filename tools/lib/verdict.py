#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Judge a guest run by what it left behind.

Every entry of the plan is LOST until the verdict port proves otherwise, and a
result is proven only when the guest lived to report what comes after it.  The
console never makes a result better, only worse: a line that matches the deny
list, and not the allow list, fails the entry that ran when it appeared.

An entry is PASS, SKIP, FAIL, TIMEOUT or LOST.  Exit status: 0 all entries
passed or were skipped, 1 some did not, 2 nothing could be judged.
"""

import argparse
import dataclasses
import json
import os
import re
import sys
import xml.etree.ElementTree as ET

# What the kernel sets when it complains: machine check, bad page, die, WARN,
# soft lockup (Documentation/admin-guide/tainted-kernels.rst).
TAINT_COMPLAINT = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14

# What XML 1.0 cannot hold.
NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Unjudgeable(Exception):
    """The environment is to blame: exit 2."""


class Lost(Exception):
    """What follows in the report cannot be trusted."""


@dataclasses.dataclass
class Entry:
    name: str
    begun: bool = False
    status: str = "LOST"
    reason: str = "not reached"
    seconds: float = 0.0
    taint: int = 0
    output: list = dataclasses.field(default_factory=list)
    splats: list = dataclasses.field(default_factory=list)
    allowed: list = dataclasses.field(default_factory=list)

    def fail(self, reason):
        """It failed for a better reason than the one that stands."""
        if self.reason:
            reason += f" ({self.status}: {self.reason})"
        self.status, self.reason = "FAIL", reason


def read_lines(path):
    """The lines of a file; the last one is empty, or has no newline."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as f:
            return [line.rstrip("\r") for line in f.read().split("\n")]
    except OSError as e:
        raise Unjudgeable(f"cannot read {path}: {e.strerror}") from e


def read_plan(path):
    """The nonce and the entries of the plan that the guest got."""
    nonce, entries = "", []
    for line in read_lines(path):
        record, *fields = line.split("\t")
        if record == "nonce":
            nonce = fields[0]
        elif record == "run":
            entries.append(Entry(fields[0]))
    if not nonce or not entries:
        raise Unjudgeable(f"{path} has no nonce or no entry")
    return nonce, entries


def read_patterns(path, need_reason):
    """The expressions of a splat list: one a line, '#' starts a comment line.

    In the allow list each is followed by ' ## ' and the reason.
    """
    patterns = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, reason = line.partition(" ## ")
        if need_reason and not reason.strip():
            raise Unjudgeable(f"{path}:{number}: no ' ## ' and reason")
        try:
            patterns.append(re.compile(pattern))
        except re.error as e:
            raise Unjudgeable(f"{path}:{number}: {e}") from e
    return patterns


def read_result(line, number, name):
    """Status and reason that a KTAP result line claims."""
    m = re.fullmatch(r"(ok|not ok) (\d+) (\S+)(?: # (.+))?", line)
    if not m or m[2] != str(number) or m[3] != name:
        raise Lost(f"bad result line '{line}'")
    reason = m[4] or ""
    word, _, rest = reason.partition(" ")
    if word == {"ok": "SKIP", "not ok": "TIMEOUT"}[m[1]]:
        return word, rest
    return ("PASS" if m[1] == "ok" else "FAIL"), reason


def expect(line, wanted):
    if line != wanted:
        raise Lost(f"the guest reported '{line}' in place of '{wanted}'")


def read_entry(lines, nonce, number, entry):
    """Read one entry's output and result; returns the status and reason it claims."""
    end = re.compile(rf"# kmmu-end {nonce} {number} us=(\d+) tainted=(\d+)")
    while not (m := end.fullmatch(line := next(lines))):
        if line.startswith(f"# kmmu-tripped {nonce} "):
            raise Lost(f"the emulator failed: {line.split(' ', 3)[3]}")
        if not line.startswith("# "):
            raise Lost(f"the guest reported '{line}' amid the output")
        entry.output.append(line[2:])
    entry.seconds, entry.taint = int(m[1]) / 1e6, int(m[2])
    return read_result(next(lines), number, entry.name)


def read_verdict(lines, nonce, statuses):
    """Check the verdict, which comes last, against the results before it."""
    n_pass, n_skip = statuses.count("PASS"), statuses.count("SKIP")
    expect(re.sub(r" tainted=\d+$", "", next(lines)),
           f"# kmmu-verdict {nonce} pass={n_pass}"
           f" fail={len(statuses) - n_pass - n_skip} skip={n_skip}")
    for line in lines:
        raise Lost(f"the guest reported '{line}' after its verdict")


def read_report(lines, nonce, entries):
    """Give the entries the statuses that the verdict port proves.

    Raises StopIteration where the report ends early, Lost where it cannot be
    trusted any more.
    """
    expect(next(lines), "KTAP version 1")
    expect(next(lines), f"1..{len(entries)}")
    claims = []
    for number, entry in enumerate(entries, 1):
        expect(next(lines), f"# kmmu-begin {nonce} {number} {entry.name}")
        entry.begun, entry.reason = True, "the guest died"
        # That this entry began proves the result of the one before.
        if claims:
            entries[number - 2].status, entries[number - 2].reason = claims[-1]
        claims.append(read_entry(lines, nonce, number, entry))
        entry.reason = "the guest died after its result"
        # A failure needs no proof.
        if claims[-1][0] in ("FAIL", "TIMEOUT"):
            entry.status, entry.reason = claims[-1]
    read_verdict(lines, nonce, [status for status, _ in claims])
    entries[-1].status, entries[-1].reason = claims[-1]


def judge_report(lines, nonce, entries, killed):
    """Read the report, and tell why when it stops short of its end."""
    reason = killed
    try:
        read_report(iter(lines), nonce, entries)
    except Lost as e:
        reason = str(e)
    except StopIteration:
        pass
    if not entries[0].begun:
        entries[0].reason = reason or "the guest did not get that far"
    for entry in entries:
        if entry.begun and entry.status == "LOST" and reason:
            entry.reason = reason
            if reason.startswith("hung"):
                entry.status = "TIMEOUT"


def scan_console(lines, entries, deny, allow):
    """Give each entry the splats that appeared from its begin to the next.

    What comes before the first one belongs to the boot, which is returned.
    """
    boot = current = Entry("boot", status="PASS", reason="")
    by_name = {entry.name: entry for entry in entries}
    for line in lines:
        m = re.search(r"kmmu: begin (\S+)$", line)
        if m:
            current = by_name.get(m[1], current)
        if any(p.search(line) for p in deny):
            good = any(p.search(line) for p in allow)
            (current.allowed if good else current.splats).append(line)
    return boot


def apply_splats(boot, entries):
    """Fail entries for splats, and for taint that no splat explains."""
    taint = 0
    for entry in [boot] + entries:
        new = entry.taint & ~taint & TAINT_COMPLAINT
        taint |= entry.taint
        # The boot's taint is first seen at the end of the first entry.
        excused = entry.allowed or (entry is entries[0] and boot.allowed + boot.splats)
        if entry.splats:
            entry.fail("splat: " + re.sub(r"^\[[^]]*\] ", "", entry.splats[0]))
        elif new and not excused:
            entry.fail(f"tainted the kernel ({entry.taint}) with no splat to see")


def ktap_line(number, entry):
    line = "ok" if entry.status in ("PASS", "SKIP") else "not ok"
    word = "" if entry.status in ("PASS", "FAIL") else entry.status
    why = f"{word} {entry.reason}".strip()
    return f"{line} {number} {entry.name}" + (f" # {why}" if why else "")


def ktap(entries):
    lines = ["KTAP version 1", f"1..{len(entries)}"]
    for number, entry in enumerate(entries, 1):
        lines += ["# " + line for line in entry.output + entry.splats]
        lines.append(ktap_line(number, entry))
    return "\n".join(lines) + "\n"


def count(entries):
    passed = sum(e.status == "PASS" for e in entries)
    skipped = sum(e.status == "SKIP" for e in entries)
    return {"passed": passed, "failed": len(entries) - passed - skipped, "skipped": skipped}


def junit(entries, suite):
    tags = {"FAIL": "failure", "TIMEOUT": "error", "LOST": "error", "SKIP": "skipped"}
    used = [tags.get(e.status) for e in entries]
    root = ET.Element("testsuite", name=suite, tests=str(len(entries)),
                      failures=str(used.count("failure")),
                      errors=str(used.count("error")),
                      skipped=str(used.count("skipped")),
                      time=f"{sum(e.seconds for e in entries):.6f}")
    for entry in entries:
        case = ET.SubElement(root, "testcase", classname=suite, name=entry.name,
                             time=f"{entry.seconds:.6f}")
        if entry.status in tags:
            ET.SubElement(case, tags[entry.status], type=entry.status,
                          message=NOT_XML.sub("?", entry.reason))
        text = "\n".join(entry.output + entry.splats)
        ET.SubElement(case, "system-out").text = NOT_XML.sub("?", text)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def result_json(entries, suite, killed):
    result = {"suite": suite, "killed": killed, **count(entries)}
    keys = ("name", "status", "reason", "seconds", "taint", "splats", "output")
    result["entries"] = [{k: getattr(e, k) for k in keys} for e in entries]
    return json.dumps(result, indent=1) + "\n"


def write_file(path, text):
    """All of it or nothing."""
    try:
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".new", path)
    except OSError as e:
        raise Unjudgeable(f"cannot write {path}: {e.strerror}") from e


def table(entries):
    width = max(len(e.name) for e in entries)
    lines = [f"{e.status:7} {e.name:{width}} {e.seconds:10.3f} s  {e.reason}".rstrip()
             for e in entries]
    numbers = count(entries)
    lines.append(", ".join(f"{n} {what}" for what, n in numbers.items()))
    return "\n".join(lines)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--plan", required=True, help="the plan that the guest got")
    parser.add_argument("--console", required=True)
    parser.add_argument("--verdict", required=True, help="log of the verdict port")
    parser.add_argument("--deny", required=True, help="list of splats")
    parser.add_argument("--allow", required=True, help="list of exceptions, with reasons")
    parser.add_argument("--killed", default="", help="why the guest was killed, if it was")
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--suite", required=True, help="name of the run in the results")
    parser.add_argument("--before", action="store_true",
                        help="the run has not started: everything is lost")
    return parser.parse_args()


def judge(args):
    nonce, entries = read_plan(args.plan)
    deny = read_patterns(args.deny, need_reason=False)
    allow = read_patterns(args.allow, need_reason=True)
    if not deny:
        raise Unjudgeable(f"{args.deny} is empty")
    if args.before:
        for entry in entries:
            entry.reason = "the run did not finish"
    else:
        # A truncated line proves nothing on the verdict port.
        judge_report(read_lines(args.verdict)[:-1], nonce, entries, args.killed)
        boot = scan_console(read_lines(args.console), entries, deny, allow)
        apply_splats(boot, entries)
        if boot.status != "PASS":
            entries.insert(0, boot)
    return entries


def main():
    args = parse_args()
    try:
        entries = judge(args)
        for name, text in (("results.ktap", ktap(entries)),
                           ("junit.xml", junit(entries, args.suite)),
                           ("result.json", result_json(entries, args.suite, args.killed))):
            write_file(os.path.join(args.out, name), text)
    except Unjudgeable as e:
        print(f"verdict: {e}", file=sys.stderr)
        return 2
    print(table(entries))
    return 1 if count(entries)["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
