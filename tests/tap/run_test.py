#!/usr/bin/env python3
"""run_test.py - tests/run counts what TAP says, retries what it may, and names what is flaky: a failure that is not counted would
be a lie in the last line. The programs here are small shell scripts in a scratch directory."""
import importlib.machinery
import importlib.util
import io
import os
import signal
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run", os.path.join(TESTS, "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)
from runner import place, plan, programs, result, schedule, screen  # noqa: E402

number = failed = 0


def is_(sentence, actual, expected):
    global number, failed
    number += 1
    failed += actual != expected
    print("%s %d - %s" % ("ok" if actual == expected else "not ok", number, sentence))
    if actual != expected:
        print("#   expected: %r\n#   actual:   %r" % (expected, actual))


class Scripts:
    """Stands for a build: programs that are shell scripts. $tries is a file that lasts from one try to the next."""

    def __init__(self, scripts):
        self.scripts = scripts

    def queue(self, display, directory):
        queue = programs.Queue([], programs.Times(os.path.join(directory, "times")), display)
        for name, (suite, script, timeout) in self.scripts.items():
            test = {"suite": ["pawl:" + suite], "name": name, "workdir": directory,
                    "cmd": ["sh", "-c", script] if script else ["/nonexistent/program"],
                    "env": {"tries": os.path.join(directory, name)}, "timeout": timeout}
            queue.add([programs.Program("gcc", test, directory)])
        return queue


# A program with a helper in a session of its own, as servers are, that does not stop when it is asked to; and files in both places.
VICTIM = """trap "" TERM HUP INT
setsid sh -c 'trap "" TERM HUP INT; touch "$TMPDIR/left"; mkdir "$PAWL_TEST_MEMORY/left"; echo $$ >"$0.helper"; exec sleep 1000' "$tries" &
until [ -s "$tries.helper" ]; do sleep 0.05; done
echo "$PAWL_TEST_SERVERS $PAWL_TEST_MEMORY" >"$tries.new"; mv "$tries.new" "$tries.where"
sleep 1000; sleep 1000"""


def be_victim(directory):
    """In a process of its own: a run with that program."""
    display = screen.Screen(io.StringIO())
    where = place.Place(display.line)
    schedule.adopt_orphans()
    queue = display.queue = Scripts({"victim": ("unit", VICTIM, 1000)}).queue(display, directory)
    run.run_all(queue, display, run.read_arguments([]), where)


if sys.argv[1:2] == ["--victim"]:
    be_victim(sys.argv[2])
    sys.exit()


def counted(stdout, ending=None, ci=False):
    """(passed, failed, skipped) of one program that wrote this."""
    result.CI = ci
    seen = result.read_output(stdout, ending)
    result.CI = False
    return seen.passed, len(seen.failures), len(seen.skips)


BAD_END = "exited with status 1"
TWO = "TAP version 13\n1..2\n"
ONE_SKIP = "TAP version 13\n1..1\nok 1 - a # SKIP %s\n"
print("TAP version 13")
is_("what passed is counted", counted(TWO + "ok 1 - a\nok 2 - b\n"), (2, 0, 0))
is_("what failed is counted", counted(TWO + "ok 1 - a\nnot ok 2 - b\n", BAD_END), (1, 1, 0))
is_("what failed is counted even if the program exits with 0", counted(TWO + "ok 1 - a\nnot ok 2 - b\n"), (1, 1, 0))
is_("what was skipped is counted separately", counted(TWO + "ok 1 - a\nok 2 - b # SKIP no moon\n"), (1, 0, 1))
is_("a plan at the end is a plan", counted("TAP version 13\nok 1 - a\n1..1\n"), (1, 0, 0))
is_("a program that ended early has failed", counted(TWO + "ok 1 - a\n"), (1, 1, 0))
is_("one without a plan has failed", counted("TAP version 13\nok 1 - a\n"), (1, 1, 0))
is_("one that gave up has failed", counted("TAP version 13\n1..1\nok 1 - a\nBail out! no\n"), (1, 1, 0))
is_("one that ended badly after all its tests has failed", counted(TWO + "ok 1 - a\nok 2 - b\n", BAD_END), (2, 1, 0))
is_("one that took too long has failed", counted("", "did not end within 5 s"), (0, 1, 0))
is_("one without TAP counts as one", counted("hello\n"), (1, 0, 0))
is_("what is missing is skipped by default", counted(ONE_SKIP % "missing: redis"), (0, 0, 1))
is_("and fails where CI=true", counted(ONE_SKIP % "missing: redis", ci=True), (0, 1, 0))
is_("another skip does not", counted(ONE_SKIP % "not root", ci=True), (0, 0, 1))
is_("diagnostics count for nothing", counted("TAP version 13\n1..1\n# not ok 1 - x\nok 1 - a\n# ok 2\n"), (1, 0, 0))

# ---- whole runs --------------------------------------------------------------------------------------------------------------


def whole_run(scripts, patience=1):
    """(exit status and last line, what was shown) of a run of these."""
    shown = io.StringIO()
    with tempfile.TemporaryDirectory() as directory:
        display = screen.Screen(shown)
        queue = display.queue = Scripts(scripts).queue(display, directory)
        run.PATIENCE = patience
        def environment(program):
            return dict(os.environ, **program.extra)
        schedule.Scheduler(queue, display, environment, patience).run()
        flaky = run.retry_alone(queue, display, environment)
        before, sys.stdout = sys.stdout, shown
        try:
            status = run.finish(queue, flaky, {"gcc": plan.VARIANTS["gcc"]}, False, 0)
        finally:
            sys.stdout = before
    return "%d: %s" % (status, shown.getvalue().strip().splitlines()[-1]), shown.getvalue()


def once_bad(sentence, more=""):
    """Fails at the first try and passes at the second."""
    return 'echo 1..1; [ -e "$tries" ] && { echo "ok 1 - %s"; exit; }; >"$tries"; echo "not ok 1 - %s"; %s exit 1' % (
        sentence, sentence, more)


GOOD = 'echo 1..1; echo "ok 1 - it works"'
is_("programs that pass are added up", whole_run({"a": ("unit", GOOD, 5), "b": ("unit", GOOD, 5)})[0],
    "0: 2 passed, 0 failed, 0 flaky")
is_("nothing to run is a failure", whole_run({})[0], "1: no program matches")
line, text = whole_run({"a": ("chaos", None, 5)})
is_("a program that is not there has failed", line, "1: 0 passed, 1 failed, 0 flaky")
is_("and the reason is given", "cannot be started: " in text, True)
four_bad = "; ".join('echo "not ok %d - x%d"' % (n, n) for n in range(1, 5))
four_good = "; ".join('echo "ok %d - x%d"' % (n, n) for n in range(1, 5))
is_("more than three flaky tests fail the run",
    whole_run({"a": ("unit", 'echo 1..4; [ -e "$tries" ] && { %s; exit; }; >"$tries"; %s; exit 1' % (four_good, four_bad), 5)})[0],
    "1: 4 passed, 1 failed, 4 flaky")
line, text = whole_run({"a": ("contract", once_bad("it_comes_in_time"), 5)})
is_("what passes only when retried alone is reported as flaky", line, "0: 1 passed, 0 failed, 1 flaky")
is_("and by name", "flaky: gcc: contract: a: it_comes_in_time" in text, True)
is_("a failure is shown at once, with the command that repeats it",
    "to repeat it: tests/run --variant gcc --suite contract --case 'it_comes_in_time' '^a$'" in text, True)
is_("what fails twice has failed", whole_run({"a": ("contract", "echo 1..1; echo not ok 1 - x; exit 1", 5)})[0],
    "1: 0 passed, 1 failed, 0 flaky")
is_("not every suite is retried", whole_run({"a": ("chaos", once_bad("it_comes_in_time"), 5)})[0], "1: 0 passed, 1 failed, 0 flaky")
is_("nor is a token that went back", whole_run({"a": ("contract", once_bad("tokens_only_grow"), 5)})[0],
    "1: 0 passed, 1 failed, 0 flaky")
is_("nor what a sanitizer reports",
    whole_run({"a": ("contract", once_bad("x", "echo ==1==ERROR: AddressSanitizer: x;"), 5)})[0], "1: 0 passed, 1 failed, 0 flaky")
line, text = whole_run({"a": ("chaos", "sleep 100", 1)})
is_("a program that hangs is ended", line, "1: 0 passed, 1 failed, 0 flaky")
is_("and the reason is given", "did not end within 1 s" in text, True)
line, text = whole_run({"a": ("contract", "echo 1..2; echo ok 1 - a; sleep 100", 1)})
is_("also if it hangs after some of its tests", "did not end within 1 s; 2 tests planned, 1 ran" in text, True)
is_("and it is not tried again: that would take as long", text.count("---- failed"), 1)

# ---- runs that are ended -----------------------------------------------------------------------------------------------------

def eventually(condition):
    for _ in range(1200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def exists(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def end_victim(number):
    """Whether its helper has ended, and whether its directories are gone."""
    with tempfile.TemporaryDirectory() as directory:
        victim = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--victim", directory], stdin=subprocess.DEVNULL)
        file = os.path.join(directory, "victim")
        if not eventually(lambda: os.path.exists(file + ".where")):
            victim.kill()
            return "it has not started"
        with open(file + ".helper", encoding="utf-8") as text:
            helper = int(text.read())
        with open(file + ".where", encoding="utf-8") as text:
            places = text.read().split()
        victim.send_signal(number)
        victim.wait()
        ended = eventually(lambda: not exists(helper))
        gone = eventually(lambda: not any(os.path.exists(name) for name in places))
        if not ended:
            os.kill(helper, signal.SIGKILL)
    return ended, gone


for number_of, words in ((signal.SIGINT, "is interrupted"), (signal.SIGTERM, "is asked to end"), (signal.SIGKILL, "is killed")):
    is_("a run that %s leaves no process and no file" % words, end_victim(number_of), (True, True))

# ---- the plan ----------------------------------------------------------------------------------------------------------------

gap = Scripts({"x": ("unit", GOOD, 5)}).queue(screen.Screen(io.StringIO()), "/")
gap.everything = {("unit", "x"), ("contract", "contract redis caller")}
is_("a program that no variant runs is found", run.never_run(gap), ["contract: contract redis caller"])
is_("a program has a reason where it is left out", bool(plan.VARIANTS["gcc"].why_not("contract", "contract redis caller")), True)
is_("and none where it runs", plan.VARIANTS["asan"].why_not("contract", "contract redis caller"), None)
print("1..%d" % number)
sys.exit(1 if failed else 0)
