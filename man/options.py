#!/usr/bin/env python3
"""options.py PAGE... - the pages of the commands and `pawl COMMAND --help` name the same options, with the same letters and
values; every command has a page."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SOURCE_DIR"], "tests/tap"))
from tap import check, equal, finish

PAWL = os.environ["PAWL"]
MACROS = {"Ar", "Cm", "Fl", "Li", "Nm", "Ns", "Oc", "Oo", "Op", "Pq", "Xr", "Ev", "Sx", "Ql", "Dq", "No"}
END = set(",.;:()|")


def help_of(*words):
    return subprocess.run([PAWL, *words, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


# ---- the tables: (letter, name, value), each "" if there is none

def options_of(command):
    lines = re.findall(r"^  (?:-(.), | {4})--([a-z-]+)(?: (\S+))?(?:  .*)?$", help_of(command), re.MULTILINE)
    return {tuple(line) for line in lines}


COMMANDS = re.findall(r"^  ([a-z]+) ", help_of(), re.MULTILINE)
TABLES = {command: options_of(command) for command in COMMANDS}
COMMON = set.intersection(*TABLES.values())


def flags_of(options):
    return {flag for letter, name, _ in options for flag in (letter, "-" + name) if flag}


# ---- the pages

def words_of(line):
    return line.replace('"', " ").split()


def items_of(page):
    """The options that have an entry in a list: .It Fl w , -wait Ar DUR"""
    found = set()
    for line in re.findall(r"^\.It (Fl .*)", page, re.MULTILINE):
        words = words_of(line)
        end = next((i for i, word in enumerate(words) if word in MACROS - {"Fl"}), len(words))
        flags = [word for word in words[:end] if word != "Fl" and word not in END]
        letters = [flag for flag in flags if not flag.startswith("-")]
        names = [flag[1:] for flag in flags if flag.startswith("-")]
        value = "".join(word for word in words[end:] if word not in MACROS)
        found.add(("".join(letters), "".join(names), value))
    return found


def flags_named(line):
    """All options in a line: -n, --wait, and the letters of -nsx."""
    flags, words = set(), words_of(line.lstrip("."))
    for i, word in enumerate(words):
        if word != "Fl":
            continue
        for flag in words[i + 1:]:
            if flag in MACROS:
                break
            if flag not in END and flag != "-":
                flags |= {flag} if flag.startswith("-") else set(flag)
    return flags


def commands_named(line):
    """The commands that a line is about: .Nm pawl Cm break, .Nm pawl doctor, .Xr pawl-run 1"""
    return [word for word in re.findall(r"(?:(?<=Cm )|(?<=Nm )|(?<=pawl[ -]))([a-z]+)", line) if word in TABLES]


def commands_of(page):
    names = re.search(r"^\.Sh NAME\n(.*?)^\.Nd", page, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"^\.Nm pawl-([a-z]+)", names, re.MULTILINE)


PAGES = {}
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        PAGES[os.path.basename(path)] = file.read()
MAIN = PAGES.pop("pawl.1")
PAGE_OF = {command: name for name, page in PAGES.items() for command in commands_of(page)}


def one_page(name, page):
    commands = commands_of(page)
    equal("%s: its commands exist" % name, [command for command in commands if command not in TABLES], [])
    table = set().union(*(TABLES.get(command, set()) for command in commands))
    own, written = table - COMMON, items_of(page)
    equal("%s: options that are missing" % name, sorted(own - written), [])
    equal("%s: options that do not exist" % name, sorted(written - table), [])
    strange = set()
    for line in page.splitlines():
        others = set().union(*(TABLES[command] for command in commands_named(line)))
        strange |= flags_named(line) - flags_of(table | others)
    equal("%s: options that are named and do not exist" % name, sorted(strange - allowed(page)), [])


def allowed(page):
    """Options of another command whose page is referred to just before: .Xr pawl-run 1 does what its .Fl -on-asked says."""
    found = set()
    for command, text in re.findall(r"^\.Xr pawl-([a-z]+) 1\n((?:.*\n){0,3})", page, re.MULTILINE):
        found |= set().union(*map(flags_named, text.splitlines())) & flags_of(TABLES.get(command, set()))
    return found


for command in COMMANDS:
    if command not in ("help", "version"):  # they are part of pawl(1)
        check("pawl-%s(1) is there" % command, command in PAGE_OF)
for name, page in sorted(PAGES.items()):
    one_page(name, page)

equal("pawl(1): the options of all commands", sorted(COMMON - {("e", "engine", "URL")} - items_of(MAIN)), [])
check("pawl(1): -e", ("e", "engine", "URL") in items_of(MAIN))
equal("pawl(1): entries that do not exist", sorted(items_of(MAIN) - COMMON), [])
listed = re.findall(r"^\.It Nm Cm ([a-z]+)", MAIN, re.MULTILINE)
equal("pawl(1): every command once", sorted(listed), sorted(COMMANDS))
for line in re.findall(r"^\.It Nm Cm .*", MAIN, re.MULTILINE):
    command = commands_named(line)[0]
    equal("pawl(1): the options of %s exist" % command, sorted(flags_named(line) - flags_of(TABLES[command])), [])
everything = flags_of(set().union(*TABLES.values())) | {"-version"}
equal("pawl(1): so do all others", sorted(set().union(*map(flags_named, MAIN.splitlines())) - everything), [])
equal("pawl(1): every page is referred to", sorted(name for name in PAGES if ".Xr %s 1" % name[:-2] not in MAIN), [])
finish()
