#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# header.py: does a stored patch (a mail) keep to the policy for its headers,
# subject, changelog and tags?  The policy is a table, ci/policy/header.tsv;
# this file only knows how to take a mail apart into the fields it names.
#
# Usage: header.py POLICY MAIL...
#
# Prints "MAIL: RULE: MESSAGE" per finding (warnings say so after the rule).
# Exit status: 0 clean, 250 warnings only, 1 violations, 2 usage.
"""Check patch mails against a table of rules."""
import email
import email.header
import email.policy
import re
import sys
from collections import Counter
from fnmatch import fnmatch

EXIT_OK, EXIT_FAIL, EXIT_USAGE, EXIT_WARN = 0, 1, 2, 250

TAG = re.compile(r"([A-Z][A-Za-z]*(?:-[A-Za-z]+)*): +(\S.*)")
TAG_ONLY_NAMES = {"Fixes", "Cc", "Link", "Closes"}
STAT_TOTAL = re.compile(r" (\d+) files? changed"
                        r"(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@(.*)")
# A word with an underscore that is no member, option, path, struct or event.
IDENTIFIER = re.compile(r"(?<![\w.>:/%$-])(?<!struct )(?<!enum )(?<!union )"
                        r"([a-z_]\w*_\w*)(?![\w({/*:=-]|\.\w)"
                        r"(?! (?:tracepoint|event|parameter|field|test|selftest)\b)")


def is_tag_block(paragraph):
    """Tags are a paragraph of "Name: value" lines, one of them a tag for sure."""
    matches = [TAG.fullmatch(line) for line in paragraph]
    return all(matches) and any(m[1] in TAG_ONLY_NAMES or "-" in m[1] for m in matches)


def paragraphs(lines):
    """Split lines at blank ones."""
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def diff_lines(lines):
    """Yield (file, kind, text) for each line of a diff's hunks; kind is one of
    "+", "-", " " or "@" (what follows the second @@)."""
    name, old, new = "", 0, 0
    for line in lines:
        hunk = HUNK.match(line)
        if old > 0 or new > 0:
            kind = line[:1] or " "
            old -= kind in " -"
            new -= kind in " +"
            if kind in " +-":
                yield name, kind, line[1:]
        elif line.startswith(("--- a/", "+++ b/")):
            name = line[6:].split("\t")[0]
        elif hunk:
            old, new = int(hunk[1] or 1), int(hunk[2] or 1)
            yield name, "@", hunk[3]


class Patch:
    """A patch mail, taken apart."""

    def __init__(self, data):
        mail = email.message_from_bytes(data, policy=email.policy.compat32)
        self.headers = {name: [str(email.header.make_header(email.header.decode_header(
            re.sub(r"\n\s+", " ", value)))) for value in mail.get_all(name)]
            for name in mail.keys()}
        body = mail.get_payload(decode=True).decode("utf-8").split("\n")
        start = next((i for i, line in enumerate(body) if line.startswith("diff --git ")),
                     len(body))
        self.text = body[:start]
        self.diff = list(diff_lines(body[start:]))
        self.diffs = [line for line in body[start:] if line.startswith("diff --git ")]
        cut = self.text.index("---") if "---" in self.text else len(self.text)
        self.changelog = list(paragraphs(self.text[:cut]))
        self.tags = [TAG.fullmatch(line).groups() for block in self.changelog
                     if is_tag_block(block) for line in block]

    def files(self):
        """The files that the patch touches."""
        return sorted({re.sub(r"^diff --git a/.* b/", "", line) for line in self.diffs})

    def subject(self):
        """The subject without [PATCH ...]: what becomes the commit's first line."""
        return [re.sub(r"^(\[[^]]*\]\s*)+", "", s) for s in self.headers.get("Subject", [])]

    def prose(self):
        """The changelog's paragraphs, each on one line, without tags, quotations
        and indented blocks (code, tables, command lines)."""
        plain = [[line for line in block if not re.match(r"\t|    |>", line)]
                 for block in self.changelog if not is_tag_block(block)]
        return [" ".join(line.strip() for line in block) for block in plain if block]

    def bare_functions(self, texts):
        """Names in texts that the diff uses as functions only, without ()."""
        code = "\n".join(text for name, _, text in self.diff if name.endswith((".c", ".h")))
        uses = Counter(re.findall(r"\b([a-z_]\w*)\b(?!\()", code))
        calls = set(re.findall(r"\b([a-z_]\w*)\(", code)) - set(uses)
        return sorted({m for text in texts for m in IDENTIFIER.findall(text)} & calls)

    def stale_diffstat(self):
        """What the diffstat's total should say, if it says something else."""
        kinds = Counter(kind for _, kind, _ in self.diff)
        want = (len(self.diffs), kinds["+"], kinds["-"])
        said = [tuple(int(n or 0) for n in m.groups())
                for m in map(STAT_TOTAL.fullmatch, self.text) if m]
        return ["%d files, +%d -%d" % want] if self.diffs and said and said != [want] else []

    def values(self, field, in_scope):
        """The values of a policy field."""
        group, _, name = field.partition(":")
        return {
            "header": lambda: self.headers.get(name, []),
            "subject": self.subject,
            "changelog": self.prose,
            "tag": lambda: [value for tag, value in self.tags if tag in name.split(",")],
            "tag-name": lambda: [tag for tag, _ in self.tags],
            "text": lambda: self.text,
            "file": self.files,
            "separator": lambda: [line for line in self.text if line == "---"],
            "diffstat": lambda: [line for line in self.text if STAT_TOTAL.fullmatch(line)],
            "stale-diffstat": self.stale_diffstat,
            "subject-function": lambda: self.bare_functions(self.subject()),
            "changelog-function": lambda: self.bare_functions(self.prose()),
            "added": lambda: [text for file, kind, text in self.diff
                              if kind == "+" and in_scope(file)],
        }[group]()


# How many values a field may have, for the needs that limit it.
COUNTS = {"unique": range(1, 2), "required": range(1, sys.maxsize)}


class Rule:
    """One line of the policy."""

    def __init__(self, line):
        self.name, self.scope, self.field, self.need, form, self.message = line.split("\t")
        if self.need not in {*COUNTS, "repeatable", "never", "avoid"}:
            raise ValueError(f"{self.name}: no such need: {self.need}")
        self.form = re.compile(form)

    def in_scope(self, file):
        """Is this rule about that file?  "!" in front of the scope inverts it."""
        hit = any(fnmatch(file, glob) for glob in self.scope.lstrip("!").split(","))
        return hit != self.scope.startswith("!")

    def applies(self, patch):
        """A scope holds for a patch if any file is in it, an inverted one if all are."""
        quantifier = all if self.scope.startswith("!") else any
        return self.scope == "*" or quantifier(map(self.in_scope, patch.files()))

    def findings(self, patch):
        """Yield the offending texts."""
        values = patch.values(self.field, self.in_scope)
        if len(values) not in COUNTS.get(self.need, range(sys.maxsize)):
            yield f"found {len(values)}"
        for value in values:
            match = self.form.search(value)
            if self.need in ("never", "avoid"):
                if match:
                    yield match[0].strip()
            elif not match:
                yield value


def read_policy(path):
    """The rules of a policy file."""
    with open(path, encoding="utf-8") as file:
        return [Rule(line.rstrip("\n")) for line in file
                if line.strip() and not line.startswith("#")]


def check(rules, path):
    """Print the findings about one mail; return its exit status."""
    with open(path, "rb") as file:
        patch = Patch(file.read())
    status = EXIT_OK
    for rule in rules:
        if not rule.applies(patch):
            continue
        warning = rule.need == "avoid"
        for text in dict.fromkeys(rule.findings(patch)):
            print(f"{path}: {rule.name}:{' warning:' if warning else ''} "
                  f"{rule.message} ({text})")
            if not warning:
                status = EXIT_FAIL
            elif status == EXIT_OK:
                status = EXIT_WARN
    return status


def main(argv):
    """Check the mails named on the command line."""
    if len(argv) < 3:
        print("usage: header.py POLICY MAIL...", file=sys.stderr)
        return EXIT_USAGE
    rules = read_policy(argv[1])
    statuses = {check(rules, path) for path in argv[2:]}
    return next(s for s in (EXIT_FAIL, EXIT_WARN, EXIT_OK) if s in statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
