#!/usr/bin/env python3
"""run_test.py - tests/run counts what TAP says: a failure that is not counted would be a lie in the last line."""
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "run")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run", RUN)
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)
number = 0


def is_(sentence, actual, expected):
    global number
    number += 1
    print("%s %d - %s" % ("ok" if actual == expected else "not ok", number, sentence))
    if actual != expected:
        print("# actual: %r\n# expected: %r" % (actual, expected))


def read(stdout, result, suite="unit"):
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as log:
        log.write(json.dumps({"name": "pawl:%s / x" % suite, "stdout": stdout, "result": result}) + "\n")
        log.flush()
        shown, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
        try:
            return run.read_log("gcc", log.name)
        finally:
            sys.stdout.close()
            sys.stdout = shown


def counted(stdout, result="OK", ci=False):
    """What the runner makes of one program that wrote this."""
    run.CI = ci
    return read(stdout, result)["unit", "x"][0].line()


def tried(first, second, suite="contract"):
    """What it makes of one that wrote this, and that when it was run alone."""
    again = read(second, "OK", suite)
    return run.settle(read(first, "ERROR", suite), again.get).line()


TWO = "TAP version 13\n1..2\n"
print("TAP version 13")
is_("what passed is counted", counted(TWO + "ok 1 - a\nok 2 - b\n"), "2 passed, 0 failed")
is_("what failed is counted", counted(TWO + "ok 1 - a\nnot ok 2 - b\n", "ERROR"), "1 passed, 1 failed")
is_("what failed is counted even if the program says it is well", counted(TWO + "ok 1 - a\nnot ok 2 - b\n"),
    "1 passed, 1 failed")
is_("what was skipped is counted apart", counted(TWO + "ok 1 - a\nok 2 - b # SKIP no moon\n"),
    "1 passed, 0 failed, 1 skipped")
is_("a plan at the end is a plan", counted("TAP version 13\nok 1 - a\n1..1\n"), "1 passed, 0 failed")
is_("a program that ended early has failed", counted(TWO + "ok 1 - a\n"), "1 passed, 1 failed")
is_("one without a plan has failed", counted("TAP version 13\nok 1 - a\n"), "1 passed, 1 failed")
is_("one that gave up has failed", counted("TAP version 13\n1..1\nok 1 - a\nBail out! no\n"), "1 passed, 1 failed")
is_("one that ended badly after all its tests has failed", counted(TWO + "ok 1 - a\nok 2 - b\n", "ERROR"),
    "2 passed, 1 failed")
is_("one that took too long has failed", counted("", "TIMEOUT"), "0 passed, 1 failed")
is_("one without TAP counts as one", counted("hello\n"), "1 passed, 0 failed")
is_("what is missing is skipped at home", counted("TAP version 13\n1..1\nok 1 - a # SKIP missing: redis\n"),
    "0 passed, 0 failed, 1 skipped")
is_("and fails where CI=true", counted("TAP version 13\n1..1\nok 1 - a # SKIP missing: redis\n", ci=True),
    "0 passed, 1 failed")
is_("another skip does not", counted("TAP version 13\n1..1\nok 1 - a # SKIP not root\n", ci=True),
    "0 passed, 0 failed, 1 skipped")
is_("diagnostics count for nothing", counted("TAP version 13\n1..1\n# not ok 1 - x\nok 1 - a\n# ok 2\n"),
    "1 passed, 0 failed")
BAD, GOOD = "1..1\nnot ok 1 - it_comes_in_time\n", "1..1\nok 1 - it_comes_in_time\n"
is_("what holds at the second try is counted, and named", tried(BAD, GOOD), "1 passed, 0 failed, 1 unsteady")
is_("what fails twice has failed", tried(BAD, BAD), "0 passed, 1 failed")
is_("not every suite has a second try", tried(BAD, GOOD, "chaos"), "0 passed, 1 failed")
is_("nor has a token that went back", tried("1..1\nnot ok 1 - tokens_only_grow\n", GOOD), "0 passed, 1 failed")
is_("nor what a sanitizer saw", tried("1..1\nok 1 - a\n==1==ERROR: AddressSanitizer: x\n", GOOD), "1 passed, 1 failed")
print("1..%d" % number)
