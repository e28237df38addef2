#!/usr/bin/env python3
"""schema.py - what is printed as JSON is what docs/json says: every command, every member of it."""
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tap"))
from tap import check, equal, finish

PAWL = os.environ["PAWL"]
DOCUMENTS = os.path.join(os.environ["SOURCE_DIR"], "docs/json")
PATIENCE = 60
# The store does not let these be provoked at will.
NOT_SEEN = {"refused.ahead", "watch.error", "watch.message"}


# ---- the part of JSON Schema that we use

class Schema:
    KEYWORDS = {"$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "const", "pattern", "minimum",
                "oneOf"}
    TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "null": type(None)}

    def __init__(self, text):
        self.definitions = json.loads(text)["$defs"]
        self.seen = set()

    def everywhere(self):
        """Every schema in it, with the definition that it is part of."""
        for name, definition in self.definitions.items():
            todo = [definition]
            while todo:
                schema = todo.pop()
                yield name, schema
                todo += list(schema.get("properties", {}).values()) + schema.get("oneOf", [])
                if "items" in schema:
                    todo.append(schema["items"])

    def members(self):
        return {"%s.%s" % (name, member) for name, schema in self.everywhere() for member in schema.get("properties", {})}

    def is_type(self, value, name):
        return isinstance(value, self.TYPES[name]) and (name != "integer" or not isinstance(value, bool))

    def judge(self, value, name):
        """What is wrong with the value, as text; None: nothing."""
        problem, seen = self.compare(value, self.definitions[name], name, name)
        self.seen |= seen
        return problem

    def compare(self, value, schema, where, name):
        """What is wrong, and the members that were seen."""
        if "$ref" in schema:
            name = schema["$ref"].split("/")[-1]
            return self.compare(value, self.definitions[name], where, name)
        if "oneOf" in schema:
            results = [self.compare(value, one, where, name) for one in schema["oneOf"]]
            good = [seen for problem, seen in results if not problem]
            return (None, good[0]) if len(good) == 1 else ("%s: %d of %d fit: %s" % (where, len(good), len(results), results), set())
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(self.is_type(value, one) for one in types):
            return "%s: %r is no %s" % (where, value, " or ".join(types)), set()
        if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
            return "%s: %r is not %r" % (where, value, schema["const"]), set()
        if "enum" in schema and value not in schema["enum"]:
            return "%s: %r is none of %s" % (where, value, schema["enum"]), set()
        if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
            return "%s: %r does not match" % (where, value), set()
        if "minimum" in schema and isinstance(value, int) and value < schema["minimum"]:
            return "%s: %r is too small" % (where, value), set()
        if isinstance(value, dict):
            return self.compare_object(value, schema, where, name)
        if isinstance(value, list):
            return self.compare_all(((one, schema["items"], "%s[%d]" % (where, i)) for i, one in enumerate(value)), name)
        return None, set()

    def compare_object(self, value, schema, where, name):
        properties = schema["properties"]
        missing = set(schema["required"]) - set(value)
        unknown = set(value) - set(properties)
        if missing or unknown:
            return "%s: missing %s, unknown %s" % (where, sorted(missing), sorted(unknown)), set()
        problem, seen = self.compare_all(((one, properties[key], "%s.%s" % (where, key)) for key, one in value.items()), name)
        return problem, seen | {"%s.%s" % (name, key) for key in value}

    def compare_all(self, values, name):
        seen = set()
        for value, schema, where in values:
            problem, more = self.compare(value, schema, where, name)
            if problem:
                return problem, set()
            seen |= more
        return None, seen


def read(name):
    with open(os.path.join(DOCUMENTS, name), encoding="utf-8") as file:
        return file.read()


SCHEMA = Schema(read("pawl.schema.json"))
README = read("README.md")


def schema_is_sound():
    unknown = {key for _, schema in SCHEMA.everywhere() for key in schema} - Schema.KEYWORDS
    equal("the schema has no keyword that is not checked here", sorted(unknown), [])
    open_ones = {name for name, schema in SCHEMA.everywhere() if schema.get("type") == "object" and
                 (schema.get("additionalProperties") is not False or not set(schema["required"]) <= set(schema["properties"]))}
    equal("every object is closed", sorted(open_ones), [])
    spelled = {name for name in SCHEMA.members() if re.search(r"_(s|sec|seconds|us|ns|at|time)$|^(wait|waited|remaining|delay|ttl)$",
                                                              name.split(".")[1])}
    equal("durations are called *_ms", sorted(spelled), [])


def wrong_values_are_seen():
    """A judge that knows no wrong value is none."""
    good = {"name": "x", "token": "7", "remaining_ms": 5}
    equal("a good one", SCHEMA.judge(good, "renew"), None)
    for what, change in (("a number for a token", {"token": 7}), ("a token of 0", {"token": "0"}), ("a text for a duration", {"remaining_ms": "5"}),
                         ("a fraction", {"remaining_ms": 5.5}), ("true for a number", {"remaining_ms": True}),
                         ("less than nothing", {"remaining_ms": -1}), ("one member more", {"since": 5}), ("null", {"name": None})):
        check("wrong: " + what, SCHEMA.judge(dict(good, **change), "renew"))
    check("wrong: one member less", SCHEMA.judge({"name": "x", "token": "7"}, "renew"))
    check("wrong: seconds for a time", SCHEMA.judge(1795133665.25, "time"))
    check("wrong: a time of some zone", SCHEMA.judge("2026-11-19T04:22:07.123+01:00", "time"))
    check("wrong: neither held nor refused", SCHEMA.judge(dict(good, event="held", held=False, lease="l"), "acquire"))
    check("wrong: deep inside", SCHEMA.judge([{"severity": "bad", "where": "x", "what": "y", "mend": None}], "doctor"))
    SCHEMA.seen.clear()


def documents_agree():
    table = re.findall(r"^\| .* \| (`.*`) \|", README, re.MULTILINE)
    defined = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    equal("what the README has in its table is defined", sorted(defined - set(SCHEMA.definitions)), [])
    commands = re.findall(r"^  ([a-z]+) ", run("--help"), re.MULTILINE)
    with_json = {command for command in commands if re.search(r"^ +--json ", run(command, "--help"), re.MULTILINE)}
    equal("every command with --json is in the table", sorted(with_json - defined), [])
    equal("and no other, but hold, whose lines are JSON, and messages", sorted(defined - with_json), ["hold", "log"])
    examples = re.findall(r"^```json (\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    check("there are examples", len(examples) >= 3)
    for name, text in examples:
        for line in text.splitlines():
            equal("the example of %s" % name, SCHEMA.judge(json.loads(line), name), None)
    SCHEMA.seen.clear()


# ---- the commands

PLACE = tempfile.mkdtemp(prefix="pawl-test.")
os.environ.update(PAWL_URL="local:%s/locks" % PLACE, SHELL="/bin/sh")
STORE = "file:%s/marks" % PLACE


def run(*words, text=""):
    return subprocess.run([PAWL, *words], input=text, stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE).stdout


def prints(name, *words, lines=1):
    """The command's lines, each as its definition says. What it printed last."""
    found = run(name, *words).splitlines()
    sentence = " ".join((name,) + tuple(word for word in words if not word.startswith("file:")))
    equal("pawl %s: %d lines" % (sentence, lines), len(found), lines)
    for line in found:
        equal("pawl %s" % sentence, SCHEMA.judge(json.loads(line), name), None)
    return json.loads(found[-1]) if found else {}


class Program:
    """One that goes on running, and the lines it writes."""

    def __init__(self, *words, errors=False):
        self.errors = errors
        self.process = subprocess.Popen([PAWL, *words], stdin=subprocess.PIPE, text=True,
                                        **{"stderr" if errors else "stdout": subprocess.PIPE})
        self.stream = self.process.stderr if errors else self.process.stdout

    def next(self, name, **wanted):
        """The next line with these members."""
        end = time.monotonic() + PATIENCE
        while select.select([self.stream], [], [], max(0, end - time.monotonic()))[0]:
            line = self.stream.readline()
            if not line:
                break
            value = json.loads(line)
            equal("a line of %s" % name, SCHEMA.judge(value, name), None)
            if all(value.get(key) == one for key, one in wanted.items()):
                return value
        check("%s says %s" % (name, wanted), False)
        return {}

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


def locks():
    lease = prints("acquire", "--json", "--ttl", "1h", "--note", "a \"note\"", "x").get("lease", "")
    prints("renew", "--json", lease)
    prints("acquire", "--json", "-n", "x")
    prints("acquire", "--json", "-w", "10ms", "x")
    for _ in range(2):
        prints("acquire", "--json", "-N", "3", "--ttl", "1h", "shared")
    waiter = Program("-v", "--log-format", "json", "run", "--owner", "first", "x", "true", errors=True)
    second = None
    try:
        waiter.next("log", event="waiting")
        second = Program("--log-format", "json", "run", "--owner", "second", "x", "true", errors=True)
        equal("one is ahead", second.next("log", event="waiting").get("ahead"), 1)
        rows = prints("show", "--json", "x")
        equal("a waiter is shown", [row["role"] for row in rows], ["holder", "waiter", "waiter"])
        prints("break", "--json", "--owner", "first", "--if-token", "1", "x")
        prints("ls", "--json")
        prints("top", "--json", "--count", "2", "--interval", "10ms", lines=2)
        run("release", lease)
        waiter.next("log", event="held")
        waiter.process.wait(timeout=PATIENCE)
        second.process.wait(timeout=PATIENCE)
    finally:
        for program in filter(None, (waiter, second)):
            program.end()
    rows = prints("show", "--json", "x")
    equal("past owners are shown", {row["role"] for row in rows}, {"past"})
    prints("acquire", "--json", "--lock-delay", "1h", "delayed")
    prints("break", "--json", "--if-token", prints("ls", "--json", "delayed")[0]["token"], "--reason", "it hangs", "delayed")
    prints("break", "--json", "delayed")
    past = prints("show", "--json", "delayed")[-1]
    equal("who broke it, and why", (past["how"], past.get("reason"), bool(past.get("broken_by"))), ("broken", "it hangs", True))
    equal("a lock-delay", prints("ls", "--json", "delayed")[0]["role"], "free")
    check("is told", prints("acquire", "--json", "-n", "delayed").get("delay_ms", 0) > 0)
    refused = Program("--log-format", "json", "acquire", "-n", "delayed", errors=True)
    check("in messages too", refused.next("log", event="refused").get("delay_ms", 0) > 0)
    refused.end()
    prints("show", "--json", "nobody/knows")


def holding():
    holder = Program("hold", "held")
    holder.next("hold", event="held")
    prints("hold", "-n", "held")
    run("break", "held")
    holder.next("hold", event="lost")
    holder.end()


def watching():
    watch = Program("watch", "--json", "--interval", "10ms", "watched")
    watch.next("watch", event="free")
    first = run("acquire", "--ttl", "1h", "watched").split(" ", 1)[1].strip()
    watch.next("watch", event="acquired")
    second = Program("run", "watched", "true")
    watch.next("watch", event="waiting", waiters=1)
    run("release", first)
    check("how long it was held", watch.next("watch", event="released").get("held_ms", -1) >= 0)
    second.process.wait(timeout=PATIENCE)
    second.end()
    watch.end()


def messages():
    # COMMAND has its standard error from us; it says nothing there.
    command = ["--", "sh", "-c", "exec sleep 60"]
    runner = Program("-v", "--log-format", "json", "run", "told", *command, errors=True)
    runner.next("log", event="held")
    refused = Program("--log-format", "json", "run", "-n", "told", *command, errors=True)
    refused.next("log", event="refused")
    refused.end()
    run("ask", "told")
    runner.next("log", event="asked")
    run("break", "told")
    runner.next("log", event="lost")
    runner.end()
    ending = Program("--log-format", "json", "run", "--no-renew", "--ttl", "1s", "brief", *command, errors=True)
    ending.next("log", event="ending")
    ending.end()
    wrong = Program("--log-format", "json", "run", "-e", "nonsense://x", "x", "true", errors=True)
    wrong.next("log", level="error")
    wrong.end()


def recipes():
    observer = Program("elect", "--observe", "--json", "boss")
    observer.next("elect", epoch=None)
    leader = Program("elect", "--value", "here", "boss", "--", "sh", "-c", "echo leads; exec sleep 60")
    equal("it leads", leader.stream.readline(), "leads\n")
    equal("the observer sees it", observer.next("elect", value="here").get("value"), "here")
    equal("so does --who", prints("elect", "--who", "--json", "boss").get("value"), "here")
    leader.end()
    observer.end()
    for words in ((["k", "--", "echo", "done"]), (["k", "--", "echo", "done"]), (["--look", "k"]),
                  (["--only-success", "failed", "--", "sh", "-c", "exit 3"])):
        prints("once", "--json", *words)
    for _ in range(2):
        prints("limit", "--json", "-n", "--rate", "1/1h", "rate")


def guards():
    os.mkdir("%s/marks" % PLACE)
    run("put", "--store", STORE, "r", "9007199254740993", text="x")
    equal("the mark", prints("marks", "--json", "--store", STORE)[0]["token"], "9007199254740993")
    prints("doctor", "--json", "--store", STORE)
    prints("prune", "--json", "--store", STORE, "5")


def the_rest():
    prints("doctor", "--json")
    prints("engines", "--json")
    prints("ttl", "--json", "--work", "5s")


try:
    for test in (schema_is_sound, wrong_values_are_seen, documents_agree, locks, holding, watching, messages, recipes, guards, the_rest):
        test()
finally:
    subprocess.run(["rm", "-rf", PLACE], check=False)
equal("every member of the schema was seen", sorted(SCHEMA.members() - SCHEMA.seen - NOT_SEEN), [])
finish()
