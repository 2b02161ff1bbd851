#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the guests' outputs of a benchmark into a table and JSON.

  bench.py TOPIC SPEC DIR RUN:EMULATOR:CMDLINE...

SPEC is the topic's file in ci/bench; DIR/RUN/{base,tip}.{1,2}/result.json are
the guests' results.  Writes DIR/bench.json and prints the table on stderr, the
JSON on stdout.  Exit status: 0 ok, 1 a guest failed, a metric is missing or over
its limit, 2 usage or environment.
"""

import json
import math
import os
import sys

from verdict import Unjudgeable, write_file

# Two runs that differ by more than this are reported as not repeatable.
TOLERANCE = 0.001
POINTS = ("base", "tip")


class Missing(Exception):
    """A guest failed, or its output lacks a metric."""


def read_spec(path):
    """The test's command, the metrics as (name, unit, token, fields), and the
    limits as (run, name, unit, limit)."""
    test, metrics, limits = "", [], []
    with open(path, encoding="utf-8") as f:
        for line in f:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "test":
                test = value
            elif key == "metric":
                name, unit, token, fields = value.split("|")
                metrics.append((name, unit, token, fields.split("/")))
            elif key == "limit":
                limits.append(value.split("|"))
    return test, metrics, limits


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


def measure(spec, directory, run, emulator, cmdline, topic):
    test, metrics, _ = spec
    outputs = {(point, n): guest_output(os.path.join(directory, run, f"{point}.{n}", "result.json"))
               for point in POINTS for n in (1, 2)}
    for name, unit, token, fields in metrics:
        values = {key: value_of(lines, token, fields) for key, lines in outputs.items()}
        spread = max(abs(values[p, 1] - values[p, 2]) / max(values[p, 1], values[p, 2], 1e-9) for p in POINTS)
        yield {"topic": topic, "metric": name, "unit": unit, "emulator": emulator, "profile": run,
               "params": {"command": test, "cmdline": cmdline},
               "base": values["base", 1], "tip": values["tip", 1], "peers": {},
               "runs": {p: [values[p, 1], values[p, 2]] for p in POINTS},
               "repeatable": spread <= TOLERANCE}


def breaches(rows, limits):
    """The limits that rows exceed, in words; a limit that no row is about counts
    only if its run was measured."""
    for run, name, unit, limit in limits:
        for row in rows:
            if (row["profile"], row["metric"], row["unit"]) == (run, name, unit):
                most = row["base"] if limit == "base" else float(limit)
                if row["tip"] > most:
                    yield f"{run}: {name}, {unit}: {row['tip']:.2f} exceeds the limit of {most:.2f}"
                break
        else:
            if any(row["profile"] == run for row in rows):
                yield f"{run}: no metric '{name}' in {unit} for its limit"


def show(rows):
    print(f"{'metric':20} {'unit':13} {'profile':18} {'base':>12} {'tip':>12} {'ratio':>8}", file=sys.stderr)
    for row in rows:
        ratio = f"{row['tip'] / row['base']:8.3f}" if row["base"] else " " * 8
        note = "" if row["repeatable"] else f"  two runs differ by more than {TOLERANCE:.1%}: {row['runs']}"
        print(f"{row['metric']:20} {row['unit']:13} {row['profile']:18} {row['base']:12.2f}"
              f" {row['tip']:12.2f} {ratio}{note}", file=sys.stderr)
    print("\nEmulated CPUs: counts of instructions and events, not times of real hardware.", file=sys.stderr)


def report(topic, spec_file, directory, args):
    rows, failed = [], 0
    spec = read_spec(spec_file)
    for arg in args:
        run, emulator, cmdline = arg.split(":", 2)
        try:
            rows += measure(spec, directory, run, emulator, cmdline, topic)
        except Missing as e:
            print(f"bench: {run}: {e}", file=sys.stderr)
            failed = 1
    show(rows)
    for breach in breaches(rows, spec[2]):
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
