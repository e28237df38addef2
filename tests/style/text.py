#!/usr/bin/env python3
"""text.py - layout, lengths and words: what a reader trips over."""
import os
import re
import shutil

from style import check, done, files, read, run, skip

LONGEST = 90  # lines of a function; STYLE: one function is one thought
UNFINISHED = re.compile("|".join((r"\bTO" r"DO\b", r"\bFIX" r"ME\b", r"\bXX" r"X\b", r"\bHA" r"CK\b",
                                  r"\bnot implem" r"ented\b", r"\bunimplem" r"ented\b", r"\bst" r"ub\b")))
OF_A_MACHINE = re.compile(r"/(wo" r"rk|fa" r"rm|ro" r"ot|ho" r"me/\w+)/|/tmp/(bash_jobs|lab|spike)")

sources = [path for path in files(".c", ".h") if not path.startswith("tests/fuzz/corpus")]
texts = [path for path in files() if "/corpus/" not in path and not path.endswith((".png", ".bin"))]


def functions(path):
    """Yields name, line and length of each function; a body begins and ends in the first column. The lines of a table of
    strings or structs do not count: a table is one thought, however long."""
    name, start, rows = "", 0, 0
    for number, line in enumerate(read(path).splitlines(), 1):
        if re.match(r"^[A-Za-z_].*\(", line) and not line.rstrip().endswith(";"):
            name = line
        if line == "{":
            start, rows = number, 0
        elif line.startswith("}") and start:
            yield name, start, number - start - 1 - rows
            start = 0
        elif re.match(r"\s+[\"{].*,(\s*/\*.*\*/)?$", line):
            rows += 1


def lines_with(pattern, paths):
    for path in paths:
        for number, line in enumerate(read(path).splitlines(), 1):
            if pattern.search(line):
                yield "%s:%d: %s" % (path, number, line.strip()[:120])


def format_problems():
    status, text = run("clang-format", "--dry-run", "-Werror", *sources)
    if status == 0:
        return []
    return sorted({line.split(": ")[0] for line in text.splitlines() if "error:" in line}) or [text]


sentence = "the layout is clang-format's"
if shutil.which("clang-format"):
    check(sentence, format_problems())
else:
    skip(sentence, "missing: clang-format")

lengths = sorted(((length, path, line, name) for path in sources for name, line, length in functions(path)),
                 reverse=True)
check("no function is longer than %d lines" % LONGEST,
      ("%s:%d: %d lines: %s" % (path, line, length, name) for length, path, line, name in lengths if length > LONGEST))
if lengths:
    print("# %d functions, median %d lines, longest %d" % (len(lengths), lengths[len(lengths) // 2][0], lengths[0][0]))

check("every C file opens by saying what lives in it",
      (path for path in sources if not read(path).startswith("/* %s - " % os.path.basename(path))))
check("nothing sounds unfinished", lines_with(UNFINISHED, texts))
check("nothing names a path of somebody's machine", lines_with(OF_A_MACHINE, texts))
check("no line ends in a blank, no C line holds a tab",
      [*lines_with(re.compile(r"[ \t]+$"), texts), *lines_with(re.compile(r"\t"), sources)])
# clang-format keeps code within 120 columns and leaves comments alone.
check("no line is longer than 125 columns", lines_with(re.compile(r"^.{126,}"), sources))
check("every script says what it is for", (path for path in files(".sh", ".py", "/run") if not re.search(
    r'^(#!.*\n)?(# \S|""")', read(path))))
done()
