"""place.py - the directories of one run, and a watcher that clears up behind a runner that was killed.

Everything that programs of a run leave in TMPDIR or in memory, and the servers that they share, is below these directories: so an
interrupted run leaves nothing, whatever its programs had made at that moment."""
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SERVERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "servers", "servers")
VARIABLE = "PAWL_TEST_SERVERS"  # in the environment of every process of a run: its directory
MEMORY = "/dev/shm"
TERM_SECONDS = 10


def others_may_enter(path):
    path = os.path.realpath(path)
    while True:
        if not os.stat(path).st_mode & 0o001:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def base_directory(say):
    """TMPDIR; as root another one if PostgreSQL, which then runs as a user of its own, could not enter it."""
    chosen = tempfile.gettempdir()
    if os.geteuid() != 0 or others_may_enter(chosen):
        return chosen
    say("the user postgres may not enter %s: using /tmp instead" % chosen)
    return "/tmp"


class Place:
    """directory: for servers that are shared; temporary: for what programs make; memory: the same, on no disk."""

    def __init__(self, say):
        self.directory = self.make(base_directory(say))
        self.temporary = os.path.join(self.directory, "tmp")
        os.mkdir(self.temporary)
        os.chmod(self.temporary, 0o755)
        self.memory = self.make(MEMORY) if os.access(MEMORY, os.W_OK) else self.temporary
        forget_old_ports()
        self.alive = self.start_watcher()

    @staticmethod
    def make(base):
        made = tempfile.mkdtemp(prefix="pawl-run.", dir=base)
        os.chmod(made, 0o755)  # PostgreSQL runs as a user of its own
        return made

    def environment(self, extra):
        """What a program gets; extra: what it asks for itself."""
        chosen = {VARIABLE: self.directory, "TMPDIR": self.temporary, "PAWL_TEST_MEMORY": self.memory, **extra}
        if extra.get("TMPDIR") == MEMORY:
            chosen["TMPDIR"] = self.memory
        return chosen

    def start_watcher(self):
        """It reads from a pipe that only the runner can write to: the end of the runner is the end of the file. Forked twice, so
        that it is no child of the runner, which ends its children itself."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.close(reading)
            os.waitpid(child, 0)
            return writing
        try:
            os.close(writing)
            if os.fork() == 0:
                self.watch(reading)
        finally:
            os._exit(0)

    def watch(self, reading):
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # whoever reads the runner's output must not wait for us
            os.dup2(nothing, standard)
        select.select([reading], [], [])
        if not os.read(reading, 1):
            self.end_processes()
            self.remove()

    def end_processes(self):
        """Programs are asked to end first: they stop their own servers. Then the servers that were shared, then what is left."""
        self.signal_all(signal.SIGTERM, TERM_SECONDS)
        self.stop_servers()
        self.signal_all(signal.SIGKILL, TERM_SECONDS)

    def signal_all(self, number, patience):
        until = time.monotonic() + patience
        told = set()
        while time.monotonic() < until:
            processes = processes_of(self.directory) - {os.getpid()}
            if not processes:
                return
            for pid in processes - told:
                send(pid, number)
            told |= processes
            time.sleep(0.05)

    def stop_servers(self):
        """Also those whose start was interrupted, and those of programs that were killed."""
        for parent in (self.directory, self.temporary):
            for entry in os.scandir(parent):
                if os.path.exists(os.path.join(entry.path, "env")):
                    subprocess.run([SERVERS, "down", entry.path], check=False, start_new_session=True)

    def remove(self):
        for directory in {self.directory, self.memory}:
            shutil.rmtree(directory, ignore_errors=True)

    def close(self):
        """At the end of a run that was not killed: its servers and programs have ended."""
        self.remove()
        os.write(self.alive, b".")
        os.close(self.alive)


def processes_of(directory):
    """Those that were started with this directory in their environment, and what they started."""
    mark = ("%s=%s" % (VARIABLE, directory)).encode()
    found = set()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open("/proc/%s/environ" % name, "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.add(int(name))
        except OSError:
            pass
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def forget_old_ports():
    """A port is reserved by a symbolic link to the directory of whoever has it (tests/servers). One whose directory is gone is free;
    the lock keeps another run from taking a new link for the old one."""
    directory = "/tmp/pawl-ports.%d" % os.geteuid()
    if not os.path.isdir(directory):
        return
    lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for entry in os.scandir(directory):
            if not os.path.exists(entry.path):
                os.unlink(entry.path)
    except OSError:
        pass
    finally:
        os.close(lock)
