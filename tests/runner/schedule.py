"""schedule.py - runs programs beside each other: as many as the processors have idle time for, because most of a test is waiting.

The runner adopts what its programs leave behind (a subreaper), so that the CPU time of servers is counted too."""
import ctypes
import os
import resource
import signal
import subprocess
import tempfile
import time

CORES = len(os.sched_getaffinity(0))
AT_LEAST = min(4 * CORES, 16)
AT_MOST = min(10 * CORES, 64)
IDLE_SHARE = 0.15  # of the processors; below it no further program is started
SAMPLES = 20       # of idle time, 50 ms apart
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


def count(name, used):
    left_behind[name] = left_behind.get(name, 0.0) + used.ru_utime + used.ru_stime


def cpu_used():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Idleness:
    """The idle share of the processors over the last second."""

    def __init__(self):
        self.samples = [self.sample()]

    @staticmethod
    def sample():
        with open("/proc/stat", encoding="ascii") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    def share(self):
        self.samples = self.samples[-SAMPLES:] + [self.sample()]
        total, idle = (new - old for new, old in zip(self.samples[-1], self.samples[0]))
        return idle / total if total else 0.0


def plain_signals():
    """However the runner was started (nohup, in the background), a test begins with the signals it expects."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN,
                   signal.SIGTTOU, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def signal_group(group, number):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def end_orphans():
    """What programs that were killed left to us: their children, and theirs. Nothing of ours is meant to be running."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with open("/proc/self/task/%d/children" % os.getpid(), encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            count(command_of(pid), os.wait4(pid, 0)[2])


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
        signal_group(self.child.pid, number)

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
        """Keeps the result in the program."""
        self.child.returncode = os.waitstatus_to_exitcode(status)
        self.signal(signal.SIGKILL)  # what is left of its group
        self.program.seconds = time.monotonic() - self.began
        self.program.cpu = used.ru_utime + used.ru_stime
        self.program.ended(self.text(self.output), self.text(self.errors), self.ending(status), self.timed_out)
        self.output.close()
        self.errors.close()


class Scheduler:
    """Runs what `queue` offers until it is empty. queue.take() gives a program, or None for the moment; queue.left() says how many
    are still to come; queue.children are builds. screen.show(running) is called a few times each second."""

    def __init__(self, queue, screen, environment, patience):
        self.queue = queue
        self.screen = screen
        self.environment = environment
        self.patience = patience
        self.running = {}
        self.idleness = Idleness()
        self.idle = 0.0
        self.stopping = False
        self.last_start = 0.0

    def may_start(self):
        # A build is what later programs wait for: fewer beside it.
        if len(self.running) < (AT_LEAST // 2 if self.queue.children else AT_LEAST):
            return True
        if len(self.running) >= AT_MOST or time.monotonic() - self.last_start < PAUSE:
            return False
        return self.idle > IDLE_SHARE

    def start(self):
        while self.may_start():
            program = self.queue.take()
            if not program:
                return
            self.last_start = time.monotonic()
            try:
                running = Running(program, self.environment(program), program.timeout * self.patience)
            except OSError as error:
                program.ended("", "", "cannot be started: %s" % error)
                self.screen.finished(program)
            else:
                self.running[running.child.pid] = running

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
            if self.stopping:
                self.queue.children.pop(pid, None)
            elif running:
                running.finish(status, used)
                self.screen.finished(running.program)
            elif pid in self.queue.children:
                self.queue.child_ended(pid, os.waitstatus_to_exitcode(status))
                count("builds", used)
            else:
                count(name, used)

    def run(self):
        try:
            while self.queue.left() or self.running:
                self.start()
                time.sleep(0.05)
                self.idle = self.idleness.share()
                self.reap()
                for running in self.running.values():
                    if time.monotonic() > running.deadline:
                        running.stop()
                self.screen.show(self.running.values())
        finally:
            self.stop_all()

    def stop_all(self):
        """After an interruption: programs and builds are asked to end, so that they stop their servers, and after ten seconds
        ended."""
        self.stopping = True
        groups = [*self.running, *self.queue.children]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for group in groups:
                signal_group(group, number)
            until = time.monotonic() + 10
            while (self.running or self.queue.children) and time.monotonic() < until:
                self.reap()
                time.sleep(0.05)
