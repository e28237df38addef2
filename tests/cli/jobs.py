#!/usr/bin/env python3
"""jobs.py - job control: `pawl run` under a pseudo-terminal, below a shell of our own that puts jobs into the foreground."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tap"))
from tap import check, equal, finish

PAWL = os.environ["PAWL"]
os.environ["TERM"] = "xterm"
PATIENCE = 20
PYTHON = sys.executable


class Shell:
    """A session of its own on a terminal of its own; it does what it reads from a pipe and answers through another."""

    def __init__(self, place):
        self.place = place
        ask, self.ask = os.pipe()
        self.answers, answer = os.pipe()
        self.output = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.close(self.ask)
            os.close(self.answers)
            try:
                self.serve(ask, answer)
            finally:
                os._exit(0)
        os.close(ask)
        os.close(answer)

    # -- in the shell's process
    def serve(self, ask, answer):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        job = 0
        for line in os.fdopen(ask):
            words = eval(line)
            if words[0] == "start":
                job = self.start(words[1], words[2], words[3])
                reply = job
            elif words[0] == "foreground":
                os.tcsetpgrp(0, job)
                os.killpg(job, signal.SIGCONT)
                reply = True
            elif words[0] == "background":
                os.tcsetpgrp(0, os.getpgrp())
                os.killpg(job, signal.SIGCONT)
                reply = True
            elif words[0] == "owner":
                reply = os.tcgetpgrp(0)
            elif words[0] == "wait":
                _, status = os.waitpid(job, os.WUNTRACED)
                if os.WIFSTOPPED(status):
                    reply = "stopped"
                    os.tcsetpgrp(0, os.getpgrp())
                elif os.WIFSIGNALED(status):
                    reply = "signal %d" % os.WTERMSIG(status)
                else:
                    reply = os.WEXITSTATUS(status)
            os.write(answer, (repr(reply) + "\n").encode())

    def start(self, argv, foreground, output):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            if foreground:
                os.tcsetpgrp(0, os.getpgrp())
            for number in (signal.SIGTTOU, signal.SIGINT, signal.SIGTSTP, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            if output:
                os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT, 0o600), 1)
            os.execv(argv[0], argv)
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass
        return pid

    # -- in the test's process
    def do(self, *words):
        os.write(self.ask, (repr(words) + "\n").encode())
        line = b""
        end = time.monotonic() + PATIENCE
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.answers, self.terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                return "no answer to %s" % (words,)
            if self.terminal in ready:
                self.output += os.read(self.terminal, 4096)
            if self.answers in ready:
                byte = os.read(self.answers, 1)
                if not byte:
                    return "the shell is gone"
                line += byte
        return eval(line)

    def type(self, text):
        os.write(self.terminal, text)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def await_text(path, text=""):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = read(path)
        if found and text in found:
            return True
        time.sleep(0.02)
    return False


def state_of(pid):
    for line in read("/proc/%d/status" % pid).splitlines():
        if line.startswith("State:"):
            return line.split()[1]
    return "gone"


def await_state(pid, states):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and state_of(pid) not in states:
        time.sleep(0.02)
    return state_of(pid) in states


def in_terminal(test):
    place = tempfile.mkdtemp(prefix="pawl-test.")
    os.environ["PAWL_URL"] = "local:%s/locks" % place
    shell = Shell(place)
    try:
        test(shell, place)
    finally:
        shell.close()
        shutil.rmtree(place, ignore_errors=True)


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


def top(shell, place):
    os.system("%s acquire looked/at >/dev/null" % PAWL)
    shell.do("start", [PAWL, "top", "--interval", "50ms"], True, None)
    end = time.monotonic() + PATIENCE
    while b"looked/at" not in shell.output and time.monotonic() < end:
        shell.do("owner")
    check("top shows what is held", b"looked/at" in shell.output, shell.output)
    shell.type(b"q")
    equal("q ends it", shell.do("wait"), 0)
    seen = len(shell.output)
    shell.do("start", ["/usr/bin/env", "TERM=dumb", PAWL, "top"], True, None)
    equal("a terminal that cannot move its cursor gets one snapshot", shell.do("wait"), 0)
    check("and no commands for one that can", b"\033" not in shell.output[seen:].split(b"pawl top")[-1], shell.output[seen:])
    shell.do("start", [PAWL, "top", "--count", "9", "--interval", "60s"], True, place + "/snapshots")
    check("what top writes to a file is there at once", await_text(place + "/snapshots", "looked/at"))
    shell.type(b"\x1a")
    check("^Z stops it there, too", shell.do("wait") == "stopped")
    shell.do("foreground")
    shell.type(b"\x03")
    equal("^C ends it", shell.do("wait"), 130)


def screen(output, rows):
    """What a terminal of that many lines shows after output: only what top uses is understood."""
    lines, row = [""] * rows, 0
    for part in re.findall(rb"\033\[[?\d;]*[A-Za-z]|\r|\n|[^\033\r\n]+", output):
        if part == b"\033[H":
            row, fresh = 0, [True] * rows
        elif part == b"\033[J":
            lines[row:] = [""] * (rows - row)
            fresh = [True] * rows
        elif part == b"\033[K":
            if fresh[row]:
                lines[row] = ""
        elif part == b"\n":
            row = min(row + 1, rows - 1)
        elif part[:1] not in (b"\033", b"\r"):
            lines[row] = part.decode() if fresh[row] else lines[row] + part.decode()
            fresh[row] = False
    return lines


def await_screen(shell, rows, test):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        shell.do("owner")
        frames = shell.output.split(b"\033[H")
        if len(frames) > 2 and test(screen(b"\033[H" + frames[-2], rows)):
            return True
        time.sleep(0.02)
    return False


def top_scrolls(shell, place):
    """60 columns and 10 lines: six rows at once, a name of 250 bytes among twenty."""
    for name in ["a" * 250] + ["name/%02d" % i for i in range(19)]:
        os.system("%s acquire --ttl 10m %s >/dev/null" % (PAWL, name))
    fcntl.ioctl(shell.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
    shell.do("start", [PAWL, "top", "--interval", "50ms"], True, None)

    def columns_stand(lines):
        at = lines[2].find("TOKEN")
        return at > 0 and lines[3].startswith("aaa") and all(line[at:at + 3].isdigit() and line[at - 1] == " " for line in lines[3:9])

    check("a long name leaves the columns where they are", await_screen(shell, 10, columns_stand), shell.output[-2000:])
    check("no line is longer than the screen", await_screen(shell, 10, lambda lines: max(map(len, lines)) <= 60))
    check("it is said which rows are seen", await_screen(shell, 10, lambda lines: lines[9].startswith("1-6 of 20")))
    for what, keys, first in (("down", b"\033[B", "name/00"), ("page down", b"\033[6~", "name/06"), ("up", b"\033OA", "name/05"),
                              ("end", b"\033[F", "name/13"), ("beyond the end", b"\033[6~", "name/13"),
                              ("page up", b"\033[5~", "name/07"), ("two keys at once", b"kk", "name/05"), ("home", b"\033[H", "aaa")):
        shell.type(keys)
        check("key: " + what, await_screen(shell, 10, lambda lines: lines[3].startswith(first)), shell.output[-2000:])
    fcntl.ioctl(shell.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 200, 0, 0))
    check("a larger screen has all of it", await_screen(shell, 30, lambda lines: "name/18" in lines[22] and not lines[29]))
    shell.type(b"q")
    equal("q ends it there, too", shell.do("wait"), 0)


for test in (foreground, interrupted, script, stopped, stopped_too_long, background, piped, nested, waiting, spoken, top, top_scrolls):
    in_terminal(test)
finish()
