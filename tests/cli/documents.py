#!/usr/bin/env python3
"""documents.py - each option that a document gives to a command of pawl is one that the command has. What the blocks of a document do
is tested beside it (readme.sh, runbook.sh, night.sh, fencing.sh, migrating.sh, kubernetes.sh); this finds the rest: a line of text, a
table, the page of an engine."""
import os
import re
import shlex
import subprocess
import sys

ROOT, PAWL = os.environ["SOURCE_DIR"], os.environ["PAWL"]
OPTION = re.compile(r"  (?:-(\w), |    )--([\w-]+)( \S+)?")
CODE = re.compile(r"^(```|~~~).*?^\1|(?<=\n\n)(?: {4}[^\n]*\n)+|`[^`\n]+`", re.M | re.S)
CALL = re.compile(r"(?:^ *|[`;&|(*'\"] *|-- |exec )pawl ((?:-e \S+ |--engine \S+ )?[a-z]+)([^\n|;&)#`]*)", re.M)
# Behind so many words of their own COMMAND begins, whose options are its own.
RUNS = {"run": 1, "elect": 1, "once": 1, "limit": 1, "fence": 2, "put": 2}
helps = {}


def options_of(command):
    """name -> does it take a value. None: there is no such command."""
    if command not in helps:
        done = subprocess.run([PAWL, command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        table = {}
        for line in done.stdout.splitlines():
            found = OPTION.match(line)
            if found:
                for name in found.group(1), found.group(2):
                    if name:
                        table[name] = bool(found.group(3))
        helps[command] = table if done.returncode == 0 else None
    return helps[command]


def unknown(command, rest):
    """Options in the words of a call that the command does not have."""
    known = options_of(command)
    try:
        words = shlex.split(rest.partition(" -> ")[0], comments=True)
    except ValueError:  # cut off in the middle of a quotation
        words = rest.split()
    own = RUNS.get(command, 99)
    while words:
        word = words.pop(0)
        if word == "--" or (not word.startswith("-") and own == 0):
            return
        if not word.startswith("-") or word == "-":
            own -= 1
        elif word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if name not in known:
                yield word
            elif known[name] and not value and words:
                words.pop(0)
        else:
            for at, letter in enumerate(word[1:], 1):
                if letter not in known:
                    yield "-" + letter
                elif known[letter]:
                    if at == len(word) - 1 and words:
                        words.pop(0)
                    break


def problems(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    for code in CODE.finditer(text):
        for call in CALL.finditer(code.group().replace("\\\n", "   ")):
            global calls
            calls += 1
            command = call.group(1).split()[-1]
            if options_of(command) is None:
                yield "%s: there is no command 'pawl %s'" % (path, command)
                continue
            quote, rest = call.group()[0], call.group(2)
            for option in unknown(command, rest.partition(quote)[0] if quote in "'\"" else rest):
                yield "%s: 'pawl %s' has no option %s: %s" % (path, command, option, call.group())


def documents():
    """The documents of the project; what was decided once stays as it was written."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False).stdout.split()
    if not listed:
        listed = [os.path.relpath(os.path.join(directory, name), ROOT) for directory, _, names in os.walk(ROOT)
                  for name in names if name.endswith(".md")]
    return sorted(path for path in listed if not path.startswith(("docs/decisions/", "build", "CHANGES.md")))


calls = 0  # over all documents
failed = False
print("TAP version 13")
paths = documents()
for number, path_ in enumerate(paths, 1):
    found_ = sorted(set(problems(path_)))
    print("%s %d - %s: commands and options are there" % ("not ok" if found_ else "ok", number, path_))
    for problem in found_:
        print("# " + problem)
    failed = failed or bool(found_)
print("%s %d - there are calls in the documents" % ("ok" if calls > 100 else "not ok", len(paths) + 1))
print("# %d calls" % calls)
print("1..%d" % (len(paths) + 1))
sys.exit(1 if failed or calls <= 100 else 0)
