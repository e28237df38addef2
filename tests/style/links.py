#!/usr/bin/env python3
"""links.py - what a document names is there: files and headings that it links to, files of the project that it names, and
commands of pawl."""
import os
import re

from style import ROOT, check, done, files, read

LINK = re.compile(r"(?<!!)\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
# A file of the project as text names it; what begins with one of these folders and has an ending.
NAMED = re.compile(r"(?<![\w/.*-])((?:\.ci|bench|cli|docs|examples|include|man|models|src|tests)/[\w./-]*\w\.(?:md|c|h|hpp|sh|py|sql|lua|1|3|7))\b")
IN_PROSE = re.compile(r"`pawl ([a-z]+)\b")
IN_CODE = re.compile(r"(?:^ *|[;&|(] *|-- |exec |\$\()pawl (?:-e \S+ )?([a-z]+)\b", re.M)
INDENTED = re.compile(r"^ {4}.*", re.M)

documents = files(".md")
# What was decided once stays as it was written, whatever became of the files; the notes of an engine name those of its store.
living = [path for path in documents
          if not path.startswith("docs/decisions/") and path != "CHANGES.md" and not path.endswith("/NOTES.md")]


def without_code(text):
    return FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)


def anchors(path):
    """As the hosts of repositories make them of headings: lower case, no punctuation, blanks are dashes."""
    seen, result = {}, set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", without_code(read(path)), re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        result.add("%s-%d" % (slug, number) if number else slug)
    return result


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def broken_links(path):
    text = without_code(read(path))
    for found in LINK.finditer(text):
        target = found.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        goal = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(ROOT, goal)):
            yield "%s:%d: %s is not there" % (path, line_of(text, found.start()), target)
        elif anchor and anchor not in anchors(goal):
            yield "%s:%d: %s has no heading #%s" % (path, line_of(text, found.start()), goal, anchor)


def missing_files(path):
    text = read(path)
    for found in NAMED.finditer(text):
        places = (found.group(1), os.path.join(os.path.dirname(path), found.group(1)))
        if found.group(1).endswith("/X.md"):  # any one
            continue
        if not any(os.path.exists(os.path.join(ROOT, place)) for place in places):
            yield "%s:%d: %s is not there" % (path, line_of(text, found.start()), found.group(1))


def commands():
    main = read("cli/main.c")
    return set(re.findall(r"&cmd_(\w+)", main)) | {"help", "version"}


def unknown_commands(path, known):
    text = read(path)
    places = [(found.group(1), found.start()) for found in IN_PROSE.finditer(text)]
    for pattern in FENCE, INDENTED:
        for code in pattern.finditer(text):
            places += [(found.group(1), code.start() + found.start()) for found in IN_CODE.finditer(code.group())]
    for word, position in places:
        if word not in known:
            yield "%s:%d: there is no command 'pawl %s'" % (path, line_of(text, position), word)


check("there are documents", [] if len(documents) > 10 else documents)
check("there are commands", [] if {"run", "ls", "doctor"} <= commands() else commands())
check("links lead to a file or a heading", (problem for path in documents for problem in broken_links(path)))
check("files that a document names are there", (problem for path in living for problem in missing_files(path)))
check("commands that a document names are there",
      (problem for path in living for problem in unknown_commands(path, commands())))
done()
