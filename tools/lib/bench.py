#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the guests' outputs of a benchmark into a table and JSON.

  bench.py TOPIC SPEC DIR RUN:EMULATOR:CMDLINE...

SPEC is the topic's file in ci/bench; DIR/RUN/{base,tip}.N/result.json are the
guests' results, N being 1 to the number of repetitions.  Writes DIR/bench.json and prints the table on stderr, the
JSON on stdout.  Exit status: 0 ok, 1 a guest failed, a metric is missing or over
its limit, 2 usage or environment.
"""

import json
import math
import os
import statistics
import sys
from dataclasses import dataclass, field

from verdict import Unjudgeable, write_file

# Two runs that differ by more than this are reported as not repeatable.
TOLERANCE = 0.001
POINTS = ("base", "tip")


class Missing(Exception):
    """A guest failed, or its output lacks a metric."""


@dataclass
class Spec:
    """A topic's file.  Metrics are (name, unit, token, fields, better), limits
    (run, name, unit, limit).  Guests whose clock is the host's are noisy."""
    topic: str
    test: str = ""
    metrics: list = field(default_factory=list)
    limits: list = field(default_factory=list)
    repeat: int = 2
    noisy: bool = False


def read_spec(topic, path):
    spec = Spec(topic)
    with open(path, encoding="utf-8") as f:
        for line in f:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "test":
                spec.test = value
            elif key == "metric":
                name, unit, token, fields, *better = value.split("|")
                if better not in ([], ["higher"]):
                    raise ValueError(f"{path}: no '{'|'.join(better)}' metrics, but 'higher'")
                spec.metrics.append((name, unit, token, fields.split("/"), (better or ["lower"])[0]))
            elif key == "limit":
                spec.limits.append(value.split("|"))
            elif key == "repeat":
                spec.repeat = int(value)
            elif key == "cpus":
                spec.noisy = True
    return spec


def guest_output(path):
    try:
        with open(path, encoding="utf-8") as f:
            entries = json.load(f)["entries"]
    except OSError as e:
        raise Missing(f"no result of the guest ({path})") from e
    bad = [e for e in entries if e["status"] != "PASS"]
    if bad:
        raise Missing(f"{bad[0]['name']} {bad[0]['status']} {bad[0]['reason']} ({path})")
    return [dict(word.partition("=")[::2] for word in line.split()) for e in entries for line in e["output"]]


def value_of(lines, token, fields):
    key, _, wanted = token.partition("=")
    for line in lines:
        if line.get(key) == wanted and all(f in line for f in fields):
            try:
                numbers = [float(line[f]) for f in fields]
                value = numbers[0] / numbers[1] if len(fields) > 1 else numbers[0]
            except (ValueError, ZeroDivisionError) as e:
                raise Missing(f"{'/'.join(fields)} for {token}: {e}") from e
            if not math.isfinite(value):
                raise Missing(f"{'/'.join(fields)} for {token} is {value}")
            return value
    raise Missing(f"no {'/'.join(fields)} for {token}")


def measure(spec, directory, run, emulator, cmdline):
    numbers = range(1, spec.repeat + 1)
    outputs = {point: [guest_output(os.path.join(directory, run, f"{point}.{n}", "result.json"))
                       for n in numbers] for point in POINTS}
    for name, unit, token, fields, better in spec.metrics:
        values = {point: [value_of(lines, token, fields) for lines in outputs[point]] for point in POINTS}
        row = {"topic": spec.topic, "metric": name, "unit": unit, "emulator": emulator, "profile": run,
               "params": {"command": spec.test, "cmdline": cmdline}}
        # An exact figure is the same in all runs, up to what is complained about.
        row.update((p, statistics.median(v) if spec.noisy else v[0]) for p, v in values.items())
        row["peers"] = {}
        if better != "lower":
            row["better"] = better
        row["runs"] = values
        if not spec.noisy:
            spread = max((max(v) - min(v)) / max(max(v), 1e-9) for v in values.values())
            row["repeatable"] = spread <= TOLERANCE
        yield row


def bound(limit, row, rows):
    """The number that a limit means: NUMBER, or base or tip:RUN, i.e. the tip's value
    in another run, alone or *NUMBER.  None if that run was not measured."""
    word, _, factor = limit.partition("*")
    if word == "base":
        return row["base"] * float(factor or 1)
    if word.startswith("tip:"):
        like = (word[len("tip:"):], row["metric"], row["unit"])
        return next((r["tip"] * float(factor or 1) for r in rows
                     if (r["profile"], r["metric"], r["unit"]) == like), None)
    return float(limit)


def breaches(rows, limits):
    """The limits that rows break, in words; a limit that no row is about counts
    only if its run was measured."""
    for run, name, unit, limit in limits:
        for row in rows:
            if (row["profile"], row["metric"], row["unit"]) == (run, name, unit):
                edge = bound(limit, row, rows)
                higher = row.get("better") == "higher"
                if edge is None:
                    break
                if row["tip"] < edge if higher else row["tip"] > edge:
                    word = "is below" if higher else "exceeds"
                    yield f"{run}: {name}, {unit}: {row['tip']:.2f} {word} the limit of {edge:.2f}"
                break
        else:
            if any(row["profile"] == run for row in rows):
                yield f"{run}: no metric '{name}' in {unit} for its limit"


def remark(row):
    """What the reader of a row has to know about its runs."""
    runs = row["runs"]
    if "repeatable" not in row:
        spans = ", ".join(f"{p} {min(v):.2f}-{max(v):.2f}" for p, v in runs.items())
        return f"  median of {len(runs['tip'])}: {spans}"
    if not row["repeatable"]:
        return f"  runs differ by more than {TOLERANCE:.1%}: {runs}"
    return ""


def show(rows):
    print(f"{'metric':20} {'unit':13} {'profile':18} {'base':>12} {'tip':>12} {'ratio':>8}", file=sys.stderr)
    for row in rows:
        ratio = f"{row['tip'] / row['base']:8.3f}" if row["base"] else " " * 8
        print(f"{row['metric']:20} {row['unit']:13} {row['profile']:18} {row['base']:12.2f}"
              f" {row['tip']:12.2f} {ratio}{remark(row)}", file=sys.stderr)
    print("\nEmulated CPUs: counts of instructions and events, not times of real hardware.", file=sys.stderr)


def report(topic, spec_file, directory, args):
    rows, failed = [], 0
    spec = read_spec(topic, spec_file)
    for arg in args:
        run, emulator, cmdline = arg.split(":", 2)
        try:
            rows += measure(spec, directory, run, emulator, cmdline)
        except Missing as e:
            print(f"bench: {run}: {e}", file=sys.stderr)
            failed = 1
    show(rows)
    for breach in breaches(rows, spec.limits):
        print(f"bench: {breach}", file=sys.stderr)
        failed = 1
    text = json.dumps(rows, indent=1) + "\n"
    write_file(os.path.join(directory, "bench.json"), text)
    sys.stdout.write(text)
    return failed


def main(argv):
    if len(argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return report(*argv[1:4], argv[4:])
    except (OSError, ValueError, KeyError, Unjudgeable) as e:
        print(f"bench.py: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
