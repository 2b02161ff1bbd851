#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn a topic's cover-letter.md into what a mail needs.

  cover.py text FILE
      The letter as plain text: the title, a blank line, the rest with
      paragraphs wrapped for mail, tables in columns, and no mark-up.
  cover.py section FILE NAME
      The lines below the heading NAME, as they are; nothing if there is none.
  cover.py addresses TO CC [EXCEPT...]
      "to ADDRESS" and "cc ADDRESS" for the addresses in the files TO and CC, one
      a line, each once, in the form of mail headers.  Those in EXCEPT are left
      out.

Exit status: 0 ok, 2 usage or environment.
"""

import re
import sys
import textwrap
from email.utils import formataddr, parseaddr

from dispatch import dispatch

WIDTH = 75
ITEM = re.compile(r"( *)([-*+]|\d+\.) +")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


def plain(text):
    """Text without marks for code, emphasis and links."""
    out = []
    for n, part in enumerate(re.split(r"`([^`]+)`", text)):
        if n % 2 == 0:
            part = re.sub(r"\[([^]]+)\]\((\S+)\)", r"\1 <\2>", part)
            part = re.sub(r"(?<![\w*])(\*{1,2})(?=\S)([^*]+?)(?<=\S)\1(?![\w*])", r"\2", part)
        out.append(part)
    return "".join(out)


def wrap(text, first="", rest=""):
    return textwrap.wrap(plain(text), WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)


def table(rows):
    """A table in columns, without its line of dashes."""
    cells = [[plain(c.strip()) for c in row.strip().strip("|").split("|")] for row in rows]
    cells = [row for row in cells if not all(re.fullmatch(r":?-+:?", c) for c in row)]
    widths = [max(len(row[n]) for row in cells if n < len(row)) for n in range(max(map(len, cells)))]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]


def starts_block(line):
    return not line.strip() or line.startswith(("#", "|", "    ")) or ITEM.match(line)


def item(lines):
    """A list item that lines start with, and the rest of the lines."""
    m = ITEM.match(lines[0])
    text, n = lines[0][m.end():], 1
    while n < len(lines) and lines[n].strip() and not ITEM.match(lines[n]) and not lines[n].startswith("#"):
        text, n = f"{text} {lines[n].strip()}", n + 1
    return wrap(text, m[0], " " * m.end()), lines[n:]


def take(lines, wanted):
    n = 0
    while n < len(lines) and wanted(lines[n]):
        n += 1
    return lines[:n], lines[n:]


def render(lines):
    out = []
    while lines:
        line = lines[0]
        if line.startswith("#"):
            title = plain(line.lstrip("#").strip())
            new, lines = [title, "=" * len(title)], lines[1:]
        elif line.startswith("|"):
            rows, lines = take(lines, lambda text: text.startswith("|"))
            new = table(rows)
        elif ITEM.match(line):
            new, lines = item(lines)
        elif line.startswith("    ") or not line.strip():
            new, lines = [line.rstrip()], lines[1:]
        else:
            words, rest = take(lines[1:], lambda text: not starts_block(text))
            new, lines = wrap(" ".join([line, *words])), rest
        out += new
    return out


def text(path):
    lines = read(path)
    if not lines or not re.match(r"# +\S", lines[0]):
        raise ValueError(f"{path} does not begin with '# TITLE'")
    body = "\n".join(render(lines[1:])).strip("\n")
    print(f"{plain(lines[0].lstrip('# '))}\n\n{body}")


def section(path, name):
    inside = False
    for line in read(path):
        if line.startswith("#"):
            inside = line.lstrip("# ").lower() == name.lower()
        elif inside:
            print(line)


def addresses(to, cc, *excepted):
    seen = {parseaddr(a)[1].lower() for a in excepted}
    for kind, path in (("to", to), ("cc", cc)):
        for line in read(path):
            name, address = parseaddr(line)
            if "@" in address and address.lower() not in seen:
                seen.add(address.lower())
                print(kind, formataddr((name, address)))


COMMANDS = {"text": text, "section": section, "addresses": addresses}


if __name__ == "__main__":
    sys.exit(dispatch(sys.argv, COMMANDS, __doc__))
