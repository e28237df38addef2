"""schedule.py - runs programs beside each other: as many as the processors have idle time for, because most of a test is waiting.

The runner adopts what its programs leave behind (a subreaper), so that the CPU time of servers is counted too."""
import ctypes
import os
import resource
import signal
import subprocess
import tempfile
import time

CORES = os.cpu_count() or 2
AT_LEAST = 4 * CORES
AT_MOST = 10 * CORES
IDLE_SHARE = 0.15  # of the processors; below it no further program is started
PAUSE = 0.25       # seconds from one start to the next: a new program's load must show in the reading
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# CPU seconds of what is not a program: the builds, and servers and others that programs left to us, by command.
left_behind = {}


def command_of(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def cpu_used():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Idleness:
    """The idle share of the processors over the last second or so."""

    def __init__(self):
        self.samples = [self.sample()]

    @staticmethod
    def sample():
        with open("/proc/stat", encoding="ascii") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    def share(self):
        self.samples = self.samples[-5:] + [self.sample()]
        total, idle = (new - old for new, old in zip(self.samples[-1], self.samples[0]))
        return idle / total if total else 0.0


def plain_signals():
    """However the runner was started (nohup, in the background), a test begins with the signals it expects."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN,
                   signal.SIGTTOU, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class Running:
    """A started program. Its output goes to files: a pipe would have to be read while it runs."""

    def __init__(self, program, environment, limit):
        self.program = program
        self.output = tempfile.TemporaryFile()
        self.errors = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.deadline = self.began + limit
        self.limit = limit
        self.timed_out = False
        self.child = subprocess.Popen(program.command, cwd=program.directory, env=environment, stdin=subprocess.DEVNULL,
                                      stdout=self.output, stderr=self.errors, start_new_session=True,
                                      preexec_fn=plain_signals)

    def stop(self):
        """First a request, so that it can stop its servers; five seconds later without asking."""
        if not self.timed_out:
            self.timed_out = True
            self.deadline = time.monotonic() + 5
            self.signal(signal.SIGTERM)
        else:
            self.deadline = float("inf")
            self.signal(signal.SIGKILL)

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def ending(self, status):
        """How it ended, in words; None if well."""
        if self.timed_out:
            return "did not end within %d s" % self.limit
        if os.WIFSIGNALED(status):
            return "was killed by signal %d (%s)" % (os.WTERMSIG(status), signal.strsignal(os.WTERMSIG(status)))
        if os.WEXITSTATUS(status):
            return "exited with status %d" % os.WEXITSTATUS(status)
        return None

    def text(self, file):
        file.seek(0)
        return file.read().decode("utf-8", "replace")

    def finish(self, status, used):
        """Tells the program how it went."""
        self.child.returncode = os.waitstatus_to_exitcode(status)
        self.signal(signal.SIGKILL)  # what is left of its group
        self.program.seconds = time.monotonic() - self.began
        self.program.cpu = used.ru_utime + used.ru_stime
        self.program.ended(self.text(self.output), self.text(self.errors), self.ending(status))
        self.output.close()
        self.errors.close()


class Scheduler:
    """Runs what `queue` offers until it is empty. queue.take(running) gives a program, or None for the moment; queue.left() says how
    many are still to come. screen.show(running) is called a few times each second."""

    def __init__(self, queue, screen, environment, patience):
        self.queue = queue
        self.screen = screen
        self.environment = environment
        self.patience = patience
        self.running = {}
        self.idleness = Idleness()
        self.last_start = 0.0

    def may_start(self):
        if len(self.running) < AT_LEAST:
            return True
        idle = self.idleness.share()
        return (len(self.running) < AT_MOST and idle > IDLE_SHARE
                and time.monotonic() - self.last_start > PAUSE)

    def start(self):
        while self.may_start():
            program = self.queue.take([running.program for running in self.running.values()])
            if not program:
                return
            running = Running(program, self.environment(program), program.timeout * self.patience)
            self.running[running.child.pid] = running
            self.last_start = time.monotonic()

    def reap(self):
        """Programs that ended, and what earlier ones left behind."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            name = command_of(ended.si_pid)
            pid, status, used = os.wait4(ended.si_pid, 0)
            running = self.running.pop(pid, None)
            if running:
                running.finish(status, used)
                self.screen.finished(running.program)
            elif pid in self.queue.children:
                self.queue.child_ended(pid, os.waitstatus_to_exitcode(status))
                left_behind["builds"] = left_behind.get("builds", 0.0) + used.ru_utime + used.ru_stime
            else:
                left_behind[name] = left_behind.get(name, 0.0) + used.ru_utime + used.ru_stime

    def run(self):
        try:
            while self.queue.left() or self.running:
                self.start()
                time.sleep(0.05)
                self.reap()
                for running in self.running.values():
                    if time.monotonic() > running.deadline:
                        running.stop()
                self.screen.show(self.running.values())
        finally:
            self.stop_all()

    def stop_all(self):
        for running in self.running.values():
            running.signal(signal.SIGTERM)
        until = time.monotonic() + 10
        while self.running and time.monotonic() < until:
            self.reap()
            time.sleep(0.05)
        for running in self.running.values():
            running.signal(signal.SIGKILL)
