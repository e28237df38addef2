#!/usr/bin/env python3
"""messages.py - the messages of the command, out of its sources and out of docs/MESSAGES.md.

    messages.py sources    each message that cli/ can write, once: "FILE:LINE<tab>message", every value in it as "..."
    messages.py table      each row of the document: "STATUS<tab>message", STATUS "-" where a message changes none
"""
import os
import re
import sys

ROOT = os.environ.get("SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLI = os.path.join(ROOT, "cli")

# The function, and which of its arguments is the format.
FORMAT = {"say": 0, "warn": 0, "announce": 1, "usage_error": 1}
CALL = re.compile(r"\b(say|warn|announce|usage_error|snprintf)\(")
# Messages that are put together before they are said.
COMPOSED = ("message", "because")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|[^\s\w]')
VALUE = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[diouxXcsp]")


def arguments(text, at):
    """The arguments of the call whose bracket opens before at, as lists of tokens."""
    found, depth = [[]], 0
    for match in TOKEN.finditer(text, at):
        token = match.group()
        if token in ")]}" and depth == 0:
            return found
        depth += (token in "([{") - (token in ")]}")
        if token == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found


def texts(tokens):
    """The strings of an argument: one, or those of a choice."""
    text = None
    for token in tokens + [None]:
        if token and token[0] == '"':
            text = (text or "") + token[1:-1]
        elif token and token.startswith("PRI") and text is not None:
            text += "u"
        elif text is not None:
            yield text.replace('\\"', '"').replace("\\\\", "\\")
            text = None


def with_dots(text):
    return re.sub(r"(\.\.\.)+", "...", VALUE.sub("...", text).replace("%%", "%"))


def messages(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment.group()), file.read(), flags=re.S)
    for call in CALL.finditer(text):
        given = arguments(text, call.end())
        if call.group(1) == "snprintf":
            wanted = 2 if given[0][-1:] and given[0][-1] in COMPOSED else len(given)
        else:
            wanted = FORMAT[call.group(1)]
        for found in texts(given[wanted]) if wanted < len(given) else ():
            if with_dots(found) not in ("...", ""):
                yield text.count("\n", 0, call.start()) + 1, with_dots(found)


def sources():
    seen = set()
    for name in sorted(os.listdir(CLI)):
        for line, text in messages(os.path.join(CLI, name)) if name.endswith(".c") else ():
            if text not in seen:
                seen.add(text)
                yield "cli/%s:%d" % (name, line), text


def table():
    status = None
    with open(os.path.join(ROOT, "docs", "MESSAGES.md"), encoding="utf-8") as file:
        for line in file:
            heading = re.match(r"## (?:Status (\d+))?", line)
            row = re.match(r"\| (`+) ?(.*?) ?\1 \|", line)
            if heading:
                status = heading.group(1) or "-"
            elif row:
                yield status, row.group(2)


for columns in {"sources": sources, "table": table}[sys.argv[1]]():
    print("\t".join(columns))
