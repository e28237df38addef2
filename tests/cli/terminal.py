"""terminal.py - a pseudo-terminal for tests, and on it a shell of our own that starts jobs and puts them into the foreground."""
import os
import pty
import select
import shutil
import signal
import sys
import tempfile
import time

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
