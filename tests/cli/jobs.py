#!/usr/bin/env python3
"""jobs.py - job control: `pawl run` under a pseudo-terminal, below a shell of our own that puts jobs into the foreground."""
import os
import re
import shutil
import signal
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "../tap")]
from tap import check, equal, finish
from terminal import PATIENCE, PAWL, PYTHON, await_state, await_text, in_terminal, read


# COMMAND: says whether it is in the foreground, counts INT, reads a line if told to.
COMMAND = """
import os, signal, sys, time
place = sys.argv[1]
got = []
def on_interrupt(*_):
    got.append(1)
    open(place + "/ints", "a").write("int\\n")
signal.signal(signal.SIGINT, on_interrupt)
open(place + "/front.tmp", "w").write(str(os.tcgetpgrp(0) == os.getpgrp()) + "\\n" + str(os.getpid()) + "\\n")
os.rename(place + "/front.tmp", place + "/front")
if "read" in sys.argv:
    open(place + "/line", "w").write(sys.stdin.readline())
    sys.exit(0)
while not os.path.exists(place + "/end"):
    with open(place + "/ticks", "a") as ticks:
        ticks.write("tick\\n")
    time.sleep(0.02)
sys.exit(7)
"""


def command(place, *more):
    return [PYTHON, "-c", COMMAND, place] + list(more)


def foreground(shell, place):
    job = shell.do("start", [PAWL, "run", "x"] + command(place), True, None)
    await_text(place + "/front")
    check("COMMAND is in the foreground", read(place + "/front").startswith("True"), read(place + "/front"), shell.output)
    shell.type(b"\x03")
    await_text(place + "/ints")
    time.sleep(0.2)
    check("^C reaches COMMAND, once", read(place + "/ints") == "int\n", read(place + "/ints"))
    open(place + "/end", "w").close()
    equal("and its status comes back", shell.do("wait"), 7)
    equal("the terminal belongs to pawl's group again", shell.do("owner"), job)


def interrupted(shell, place):
    shell.do("start", [PAWL, "run", "x", "sh", "-c", "echo $$ >%s/pid; exec sleep 600" % place], True, None)
    await_text(place + "/pid")
    shell.type(b"\x03")
    check("^C that kills COMMAND ends pawl by the same signal", shell.do("wait") == "signal 2")
    equal("the lock is free", os.system("%s run -n x true" % PAWL), 0)


def script(shell, place):
    text = "%s run x sh -c 'echo $$ >%s/pid; exec sleep 600'; echo survived >%s/survived" % (PAWL, place, place)
    for name in ("bash", "sh"):
        path = shutil.which(name)
        if not path:
            continue
        shell.do("start", [path, "-c", text], True, None)
        await_text(place + "/pid")
        os.unlink(place + "/pid")
        shell.type(b"\x03")
        check("^C ends the script (%s) in which pawl stands" % name, shell.do("wait") == "signal 2")
        check("before its next line", not os.path.exists(place + "/survived"))


def stopped(shell, place):
    job = shell.do("start", [PAWL, "run", "--ttl", "60s", "x"] + command(place), True, None)
    await_text(place + "/ticks")
    pid = int(read(place + "/front").split()[1])
    shell.type(b"\x1a")
    check("^Z stops the job", shell.do("wait") == "stopped")
    check("COMMAND is stopped", await_state(pid, "T"))
    check("and pawl", await_state(job, "T"))
    ticks = read(place + "/ticks")
    shell.do("foreground")
    check("fg continues it", await_text(place + "/ticks", ticks + "tick"))
    equal("in the foreground", shell.do("owner"), pid)
    shell.type(b"\x1a")
    check("^Z stops it again", shell.do("wait") == "stopped")
    ticks = read(place + "/ticks")
    shell.do("background")
    check("bg continues it", await_text(place + "/ticks", ticks + "tick"))
    check("in the background", shell.do("owner") != pid)
    open(place + "/end", "w").close()
    equal("its status comes back", shell.do("wait"), 7)


def stopped_too_long(shell, place):
    job = shell.do("start", [PAWL, "run", "--ttl", "500ms", "x"] + command(place), True, None)
    await_text(place + "/ticks")
    shell.type(b"\x1a")
    check("^Z stops a job with a short lease", shell.do("wait") == "stopped")
    ticks = read(place + "/ticks")
    equal("the lease ends, and another one gets the lock", os.system("%s run -w 20s x true" % PAWL), 0)
    shell.do("foreground")
    equal("fg of a job that lost its lock is 123", shell.do("wait"), 123)
    equal("its command never ran on", read(place + "/ticks"), ticks)
    equal("the terminal belongs to pawl's group again", shell.do("owner"), job)


def background(shell, place):
    shell.do("start", [PAWL, "run", "--ttl", "60s", "x"] + command(place, "read"), False, None)
    await_text(place + "/front")
    check("in the background COMMAND is not in the foreground", read(place + "/front").startswith("False"))
    check("when it reads from the terminal the job stops", shell.do("wait") == "stopped")
    shell.do("foreground")
    shell.type(b"hello\n")
    equal("fg lets it read", shell.do("wait"), 0)
    check("what was typed", read(place + "/line") == "hello\n")


def piped(shell, place):
    job = shell.do("start", [PAWL, "run", "--ttl", "60s", "x"] + command(place), True, place + "/output")
    await_text(place + "/ticks")
    equal("with its output elsewhere COMMAND does not take the terminal", shell.do("owner"), job)
    shell.type(b"\x03")
    await_text(place + "/ints")
    time.sleep(0.2)
    check("^C still reaches it, once", read(place + "/ints") == "int\n")
    shell.type(b"\x1a")
    check("^Z still stops the job", shell.do("wait") == "stopped")
    shell.do("foreground")
    open(place + "/end", "w").close()
    equal("its status comes back", shell.do("wait"), 7)
    os.unlink(place + "/end")
    os.unlink(place + "/front")
    shell.do("start", [PAWL, "run", "--ttl", "60s", "x"] + command(place, "read"), True, place + "/output")
    await_text(place + "/front")
    shell.type(b"typed\n")
    equal("it gets the terminal when it reads from it", shell.do("wait"), 0)
    check("and reads what was typed", read(place + "/line") == "typed\n")


def nested(shell, place):
    shell.do("start", [PAWL, "run", "--ttl", "60s", "outer", PAWL, "run", "--ttl", "60s", "inner"] + command(place), True,
             None)
    await_text(place + "/ticks")
    check("below two locks COMMAND is in the foreground", read(place + "/front").startswith("True"))
    shell.type(b"\x1a")
    check("^Z stops all of them", shell.do("wait") == "stopped")
    ticks = read(place + "/ticks")
    shell.do("foreground")
    check("fg continues all of them", await_text(place + "/ticks", ticks + "tick"))
    shell.type(b"\x03")
    await_text(place + "/ints")
    time.sleep(0.2)
    check("^C reaches COMMAND, once", read(place + "/ints") == "int\n")
    open(place + "/end", "w").close()
    equal("its status comes back through both", shell.do("wait"), 7)
    shell.do("start", [PAWL, "run", "outer", PAWL, "run", "inner", "sh", "-c", "echo $$ >%s/pid; exec sleep 600" % place],
             True, None)
    await_text(place + "/pid")
    shell.type(b"\x03")
    check("^C that kills COMMAND ends both", shell.do("wait") == "signal 2")


def waiting(shell, place):
    held = os.spawnv(os.P_NOWAIT, PAWL, [PAWL, "run", "x", "sh", "-c", "echo $$ >%s/pid; exec sleep 600" % place])
    await_text(place + "/pid")
    job = shell.do("start", [PAWL, "run", "x", "true"], True, None)
    await_state(job, "S")
    time.sleep(0.3)
    shell.type(b"\x1a")
    check("^Z stops a job that waits for its lock", shell.do("wait") == "stopped")
    shell.do("foreground")
    os.kill(held, signal.SIGTERM)
    os.waitpid(held, 0)
    equal("which gets it when it goes on", shell.do("wait"), 0)


def spoken(shell, place):
    """At a terminal one line says what it waits for; it is updated in place and gone in the end."""
    held = os.spawnv(os.P_NOWAIT, PAWL, [PAWL, "run", "x", "sh", "-c", "echo $$ >%s/pid; exec sleep 600" % place])
    await_text(place + "/pid")
    shell.do("start", [PAWL, "run", "x", "true"], True, None)
    end = time.monotonic() + PATIENCE
    while shell.output.count(b"waiting for 'x'") < 3 and time.monotonic() < end:
        shell.do("owner")
        time.sleep(0.05)
    check("the wait is shown", b"\rpawl: waiting for 'x': held by " in shell.output, shell.output)
    check("and updated", shell.output.count(b"waiting for 'x'") >= 3, shell.output)
    check("in place", b"\n" not in shell.output, shell.output)
    os.kill(held, signal.SIGTERM)
    os.waitpid(held, 0)
    equal("it gets the lock", shell.do("wait"), 0)
    shell.do("owner")
    check("and takes the line away", shell.output.endswith(b"\r\x1b[K"), shell.output)


def asked(shell, place):
    """`pawl break` at a terminal shows who has the lock, and asks; who came meanwhile is not broken."""
    def hold(*more):
        return os.popen("%s acquire --ttl 1h %s x" % (PAWL, " ".join(more))).read().split()

    def breaks(keys, *more, before=None):
        shell.output = b""
        shell.do("start", [PAWL, "break", "x"] + list(more), True, None)
        end = time.monotonic() + PATIENCE
        while b"[y/N]" not in shell.output and time.monotonic() < end:
            shell.do("owner")
            time.sleep(0.02)
        if before:
            before()
        shell.type(keys)
        status = shell.do("wait")
        shell.do("owner")
        return status

    token, lease = hold("--note", "backup.sh")
    equal("no is no", breaks(b"n\n"), 1)
    check("it was asked, with who has the lock", re.search(
        rb"pawl: 'x' is held by \S+ \(backup.sh\) for \S+ \(lease ends within \S+\), token " + token.encode() + rb"\r\nbreak it\? \[y/N\]",
        shell.output), shell.output)
    check("and says that nothing was done", b"'x' was not broken" in shell.output, shell.output)
    equal("so is an empty line", breaks(b"\n"), 1)
    equal("so is the end of the input", breaks(b"\x04"), 1)
    equal("and another word", breaks(b"yippie\n"), 1)

    def replaced():
        os.system("%s release %s" % (PAWL, lease))
        hold("--note", "newcomer")
    equal("who came meanwhile was not agreed to", breaks(b"y\n", before=replaced), 1)
    check("which is said", b"was not broken, token " + token.encode() in shell.output and b"(newcomer)" in shell.output, shell.output)
    equal("yes is yes", breaks(b"y\n"), 0)
    equal("it is broken", os.system("%s run -n x true" % PAWL), 0)
    shared = [hold("-s")[0] for _ in range(3)]
    equal("holders who share are all shown", breaks(b"yes\n"), 0)
    check("each with its token", all(b"token " + one.encode() in shell.output for one in shared), shell.output)
    equal("and all broken", os.system("%s run -n x true" % PAWL), 0)
    shared = [hold("-s")[0] for _ in range(2)]
    equal("with --if-token one", breaks(b"y\n", "--if-token", shared[0]), 0)
    check("the other is neither shown", shared[1].encode() not in shell.output, shell.output)
    check("nor broken", os.popen("%s show x" % PAWL).read().split("\n")[1].split()[2] == shared[1])
    shell.output = b""
    shell.do("start", [PAWL, "break", "--yes", "x"], True, None)
    equal("--yes does not ask", shell.do("wait"), 0)
    shell.do("owner")
    check("nor say anything", shell.output == b"", shell.output)
    shell.do("start", [PAWL, "break", "x"], True, None)
    equal("of a free lock nothing is asked", shell.do("wait"), 1)


for test in (foreground, interrupted, script, stopped, stopped_too_long, background, piped, nested, waiting, spoken, asked):
    in_terminal(test)
finish()
