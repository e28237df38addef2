#!/usr/bin/env python3
"""notify.py - what `pawl run`, `elect` and `hold` send to a service manager, on a socket as systemd makes it; and how elect ends."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "../tap")]
from tap import check, equal, finish
from terminal import PATIENCE, PAWL, await_state, await_text, read

place = tempfile.mkdtemp(prefix="pawl-test.")
os.environ["PAWL_URL"] = "local:%s/locks" % place
count = 0


class Manager:
    """The socket of a service manager, and the program that has it."""

    def __init__(self, *words, abstract=False, stdin=None):
        global count
        count += 1
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = "%s/notify-%d" % (place, count)
        self.socket.bind("\0" + name[1:] if abstract else name)
        self.socket.settimeout(PATIENCE)
        env = dict(os.environ, NOTIFY_SOCKET="@" + name[1:] if abstract else name)
        self.process = subprocess.Popen([PAWL, *words], env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def next(self):
        """The next message as a dictionary; {} if none came."""
        try:
            return dict(line.split("=", 1) for line in self.socket.recv(65536).decode().split("\n"))
        except TimeoutError:
            return {}

    def until(self, key):
        """The first message that has the key, and those before it."""
        before = []
        while True:
            message = self.next()
            if not message or key in message:
                return message, before
            before.append(message)

    def rest(self):
        """What has come after the program has ended."""
        self.socket.settimeout(0)
        messages = []
        try:
            while True:
                messages.append(self.next())
        except BlockingIOError:
            return messages

    def wait(self):
        self.out, self.err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()


def environment_of(file):
    return sorted(line for line in read(place + "/" + file).splitlines() if line.startswith("NOTIFY_SOCKET="))


def run():
    for abstract in False, True:
        kind = "an abstract address" if abstract else "a path"
        run = Manager("run", "job", "sh", "-c", "env >%s/env; exit 3" % place, abstract=abstract)
        ready = run.next()
        check("run is ready when COMMAND runs: " + kind, ready.get("READY") == "1" and ready.get("STATUS", "").startswith("'job' is held, token "),
              ready)
        equal("it is stopping when COMMAND has ended", run.next(), {"STOPPING": "1"})
        equal("COMMAND's status is passed on", run.wait(), 3)
        equal("that is all", run.rest(), [])
        equal("COMMAND does not have the socket", environment_of("env"), [])
        os.unlink(place + "/env")
    run = Manager("run", "--pass-notify", "job", "sh", "-c", "env >%s/env" % place)
    equal("with --pass-notify COMMAND has it", (run.wait(), len(environment_of("env"))), (0, 1))
    check("and says itself when it is ready", not any("READY" in message or "STOPPING" in message for message in run.rest()))

    holder = Manager("run", "--owner", "somebody", "job", "sleep", "60")
    check("a holder", holder.next().get("READY") == "1")
    waiter = Manager("-q", "run", "job", "true")
    said = waiter.next()
    check("a waiter is not ready, and says what for, also with -q", "READY" not in said and
          said.get("STATUS", "").startswith("waiting for 'job': held by somebody"), said)
    equal("a signal ends the wait", waiter.end(), 143)
    check("it was stopping", {"STOPPING": "1"} in waiter.rest())
    check("and said nothing else", waiter.err == b"", waiter.err)
    waiter = Manager("run", "job", "true")
    waiter.next()
    subprocess.run([PAWL, "break", "job"], check=True)
    lost, _ = holder.until("STATUS")
    check("a loss is reported", lost["STATUS"].startswith("'job' was lost: broken"), lost)
    equal("and ends it", (holder.until("STOPPING")[0], holder.wait()), ({"STOPPING": "1"}, 123))
    equal("the waiter gets the lock, and is ready", (waiter.until("READY")[0].get("READY"), waiter.wait()), ("1", 0))

    run = Manager("run", "job", "sh", "-c", "trap 'while [ ! -e %s/go ]; do sleep 0.05; done; exit 0' TERM; echo >%s/on; while :; do sleep 0.05; done"
                  % (place, place))
    await_text(place + "/on")
    run.next()
    run.process.send_signal(signal.SIGTERM)
    equal("TERM: it is stopping, while COMMAND still runs", (run.next(), run.process.poll()), ({"STOPPING": "1"}, None))
    open(place + "/go", "w").close()
    equal("COMMAND ends in its own time", run.wait(), 0)
    equal("it was said once", run.rest(), [])


def elect():
    leader = Manager("elect", "--owner", "first", "boss", "--", "sh", "-c", "env >%s/leader; exec sleep 60" % place)
    ready = leader.next()
    check("a leader is ready", ready.get("READY") == "1" and "'boss' is held" in ready.get("STATUS", ""), ready)
    await_text(place + "/leader")
    equal("COMMAND does not have the socket", environment_of("leader"), [])
    follower = Manager("elect", "boss", "--", "sh", "-c", "echo >%s/follows; exec sleep 60" % place)
    ready = follower.next()
    check("so is a candidate that waits", ready.get("READY") == "1" and ready.get("STATUS", "").startswith("waiting to lead 'boss': held by first"), ready)
    third = Manager("elect", "boss", "--", "sleep", "60")
    third.next()
    equal("TERM ends a candidate that waits, with success", third.end(), 0)
    check("it was stopping", {"STOPPING": "1"} in third.rest())
    equal("TERM ends the leader, with success", leader.end(), 0)
    check("it was stopping", {"STOPPING": "1"} in leader.rest())
    check("the lock is free then: the next one leads", await_text(place + "/follows"))
    message, before = follower.until("STATUS")
    while message and "is held" not in message["STATUS"]:
        message, before = follower.until("STATUS")
    check("which it says, and not a second time that it is ready", "is held" in message.get("STATUS", "") and "READY" not in message, message)
    subprocess.run([PAWL, "break", "boss"], check=True)
    lost, _ = follower.until("STATUS")
    check("a loss is reported", "was lost" in lost.get("STATUS", ""), lost)
    check("and that it campaigns again", "campaigning again" in follower.until("STATUS")[0].get("STATUS", ""))
    check("it leads again, and was not stopping", "is held" in follower.until("STATUS")[0].get("STATUS", ""))
    equal("INT ends it as it always did", follower.end(signal.SIGINT), 130)

    for how, script, status in (("well", "trap 'exit 0' TERM", 0), ("by the signal", ":", 0), ("with 143, as shells say that", "trap 'exit 143' TERM", 0),
                                ("with a failure", "trap 'exit 9' TERM", 9)):
        leader = Manager("elect", "boss", "--", "sh", "-c", "%s; echo >%s/up; while :; do sleep 0.05; done" % (script, place))
        await_text(place + "/up")
        equal("TERM, and COMMAND ends %s" % how, leader.end(), status)
        os.unlink(place + "/up")
    leader = Manager("elect", "-1", "boss", "--", "sleep", "60")
    leader.next()
    equal("with -1 the status is COMMAND's", leader.end(), 143)
    leader = Manager("elect", "--pass-notify", "boss", "--", "sh", "-c", "env >%s/passed" % place)
    check("with --pass-notify COMMAND has the socket", await_text(place + "/passed") and len(environment_of("passed")) == 1)
    equal("TERM between two terms is a success", leader.end(), 0)
    check("READY is COMMAND's then", not any("READY" in message for message in leader.rest()))
    leader = Manager("elect", "boss", "--", "sh", "-c", "echo >%s/stuck; exec sleep 60" % place)
    await_text(place + "/stuck")
    leader.process.send_signal(signal.SIGSTOP)
    await_state(leader.process.pid, "T")
    subprocess.run([PAWL, "break", "boss"], check=True)
    leader.process.send_signal(signal.SIGTERM)
    leader.process.send_signal(signal.SIGCONT)
    check("a lock that was lost is no success", leader.wait() in (123, 143), leader.process.returncode)


def hold():
    hold = Manager("hold", "tool", stdin=subprocess.PIPE)
    ready = hold.next()
    check("hold is ready when it has the lock", ready.get("READY") == "1" and ready.get("STATUS", "").startswith("'tool' is held, token "), ready)
    equal("standard input ends it", hold.wait(), 0)
    equal("then it is stopping", hold.rest(), [{"STOPPING": "1"}])


def odd():
    """What is wrong with the socket costs nobody the lock."""
    def run_with(address):
        done = subprocess.run([PAWL, "run", "job", "sh", "-c", "echo ran ${NOTIFY_SOCKET-unset}"], env=dict(os.environ, NOTIFY_SOCKET=address),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stdout, done.stderr.count("\n")

    for what, address, lines in (("nobody listens", place + "/nobody", 1), ("an address of another kind", "vsock:2:1234", 1),
                                 ("one that is too long", "/" + "x" * 200, 1), ("no name", "@", 1), ("an empty one", "", 0)):
        status, out, said = run_with(address)
        equal("%s: the command runs, and it is said once" % what, (status, out.startswith("ran"), said), (0, True, lines))
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    full.bind(place + "/full")
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    try:
        while True:
            sender.sendto(b"x" * 1000, place + "/full")
    except BlockingIOError:
        pass
    equal("a manager that reads nothing", run_with(place + "/full")[0], 0)


try:
    for test in (run, elect, hold, odd):
        test()
finally:
    shutil.rmtree(place, ignore_errors=True)
finish()
