"""stores.py - ZooKeeper and etcd for tests: one server or three (tests/servers), each of which can be killed, stopped and
started again, and a look at what is stored by other means than the engine under test. Stands on the rig of the Redis engine.

    store = Etcd(3)
    peer = Peer(store.url())
    store.leader().kill()

A store outlives the test that started it: the next finds it healed, in a namespace of its own (fresh)."""
import base64
import importlib.util
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.request

# The modules come from the distribution, whose python need not be the first in the PATH.
if not importlib.util.find_spec("kazoo") and sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

import rig
from rig import *

SERVERS = os.path.join(SOURCE, "tests/servers/servers")
numbers = itertools.count(1)


def have(*names):
    """What is missing to run these servers, in words, or nothing."""
    return " ".join(name for name in names
                    if subprocess.run([SERVERS, "have", name], stdout=subprocess.DEVNULL, check=False).returncode)


# ---- servers -----------------------------------------------------------------------------------------------------------

class Member:
    """One server: a process that tests/servers started, or this test again."""

    def __init__(self, store, number, pid, port):
        self.store, self.number, self.pid, self.port = store, number, pid, port
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            self.command = [word.decode() for word in file.read().split(b"\0")[:-1]]
        self.process = None  # if it was started again
        self.stopped = False
        self.dead = False

    @property
    def where(self):
        return "127.0.0.1:%d" % self.port

    def signal(self, number):
        os.kill(self.pid, number)

    def stop(self):
        self.stopped = True
        stand_still(self.pid)

    def go_on(self):
        self.signal(signal.SIGCONT)
        self.stopped = False

    def kill(self):
        """kill -9, and gone."""
        if self.dead:
            return
        self.signal(signal.SIGKILL)
        self.dead, self.stopped = True, False
        if self.process:
            self.process.wait()
        eventually(lambda: not alive(self.pid), "pid %d does not end" % self.pid)

    def start(self, *more):
        log = open(os.path.join(self.store.directory, "again.log"), "ab")
        self.process = subprocess.Popen([*self.command, *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        start_new_session=True)
        log.close()
        self.pid, self.dead = self.process.pid, False

    def restart(self, *more):
        self.kill()
        self.start(*more)
        eventually(self.answers, "it does not answer", self.store.log)

    def heal(self):
        if self.stopped:
            self.go_on()
        if self.dead:
            self.start()

    def answers(self):
        return self.store.answers(self)


def alive(pid):
    """Of one that has ended but for its threads the ports are still taken."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            ended = file.read().rpartition(") ")[2][0] in "ZX"
        return not ended or len(os.listdir("/proc/%d/task" % pid)) > 1
    except OSError:
        return False


class Store:
    """name: as tests/servers calls it."""
    running = {}
    kind = Member

    def __init__(self, name):
        self.name = name
        self.directory = tempfile.mkdtemp(prefix="pawl-store.")
        self.members = []
        started = subprocess.run([SERVERS, "up", self.directory, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, text=True, check=False)
        require(started.returncode == 0, started.stdout)
        with open(os.path.join(self.directory, "env"), encoding="utf-8") as file:
            self.base = re.search(r"'(.*)'", file.read()).group(1)
        ports = [int(port) for port in re.findall(r":(\d+)", re.sub(r"\?.*", "", self.base))]
        for number, port in enumerate(ports, 1):
            path = os.path.join(self.directory, "%s.pid" % name if len(ports) == 1 else "%s-%d.pid" % (name, number))
            with open(path, encoding="utf-8") as file:
                self.members.append(self.kind(self, number, int(file.read().split()[0]), port))

    @classmethod
    def get(cls, name):
        """The one that is running, healed, or a new one; it is healed after the test, too."""
        if name not in Store.running:
            Store.running[name] = cls(name)
        store = Store.running[name]
        at_end(store.heal)
        store.healed()
        store.fresh()
        return store

    def heal(self):
        for member in self.members:
            member.heal()

    def healed(self):
        self.heal()
        eventually(lambda: all(member.answers() for member in self.members), "they do not answer", patience=60)

    def down(self):
        for member in self.members:
            if member.process and not member.dead:
                member.kill()
            elif member.stopped:
                member.go_on()
        subprocess.run([SERVERS, "down", self.directory], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self):
        """What a server wrote that was started again."""
        try:
            with open(os.path.join(self.directory, "again.log"), encoding="utf-8", errors="replace") as file:
                return file.read()[-2000:]
        except OSError:
            return ""

    def leader(self):
        return eventually(lambda: next((member for member in self.members if self.leads(member)), None), "nobody leads")

    def followers(self):
        leader = self.leader()
        return [member for member in self.members if member is not leader]

    def hosts(self, *members):
        return ",".join(member if isinstance(member, str) else member.where for member in members or self.members)


def main(missing=""):
    """As rig.main, and then the stores are stopped."""
    try:
        rig.main(missing or "")
    finally:
        for store in Store.running.values():
            store.down()


# ---- ZooKeeper ---------------------------------------------------------------------------------------------------------

class ZooKeeper(Store):
    """Locks lie in a chroot of the test's own. keeper: a kazoo client of ours, at its root."""

    few_bytes = 5

    def __init__(self, name):
        super().__init__(name)
        self.keeper = self.connect()

    @classmethod
    def one(cls):
        return cls.get("zookeeper")

    @classmethod
    def three(cls):
        return cls.get("zookeeper3")

    def connect(self, *members, session=20, **options):
        """A kazoo client: connected, and closed with the test."""
        from kazoo.client import KazooClient
        import logging
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        client = KazooClient(hosts=self.hosts(*members), timeout=session, connection_retry={"max_tries": -1, "delay": 0.05},
                             command_retry={"max_tries": -1, "delay": 0.05}, **options)
        client.start(timeout=60)
        return client

    def fresh(self):
        self.chroot = "/t%d-%d" % (os.getpid(), next(numbers))
        self.keeper.retry(self.keeper.create, self.chroot)

    def down(self):
        self.keeper.stop()
        super().down()

    def answers(self, member):
        return "Mode:" in four_letters(member.port, "srvr")

    def leads(self, member):
        return bool(re.search("Mode: (leader|standalone)", four_letters(member.port, "srvr")))

    def url(self, *members, chroot=None, scheme="zk", user="", **options):
        query = "&".join("%s=%s" % pair for pair in options.items())
        return "%s://%s%s%s%s" % (scheme, user, self.hosts(*members), self.chroot if chroot is None else chroot,
                                  "?" + query if query else "")

    def children(self, path=""):
        from kazoo.exceptions import NoNodeError
        try:
            return sorted(self.keeper.retry(self.keeper.get_children, self.chroot + path))
        except NoNodeError:
            return []

    def line(self, name):
        """Those who hold or wait, in their order."""
        found = [child for child in self.children("/" + name) if re.search(r"(lock-|__WRIT__|__READ__|__lock__)-?\d{10}$", child)]
        return sorted(found, key=lambda child: int(child[-10:]))

    def markers(self, name):
        return [child for child in self.children("/" + name) if child.startswith("_d_")]

    def owner(self, name, place=0):
        """The session of one in the line."""
        line = self.line(name)
        if len(line) <= place:
            return None
        stat = self.keeper.retry(self.keeper.exists, "%s/%s/%s" % (self.chroot, name, line[place]))
        return stat and stat.ephemeralOwner

    def remove(self, name, place=0):
        self.keeper.retry(self.keeper.delete, "%s/%s/%s" % (self.chroot, name, self.line(name)[place]))

    def end_session(self, session):
        """As if it had expired: taken over, with the password that the server makes of its number, and closed."""
        thief = self.connect(client_id=(session, password_of(session)))
        thief.stop()
        thief.close()

    def left(self):
        """Ephemeral nodes in the chroot."""
        found = []
        for name in self.children():
            for child in self.children("/" + name):
                stat = self.keeper.retry(self.keeper.exists, "%s/%s/%s" % (self.chroot, name, child))
                if stat and stat.ephemeralOwner:
                    found.append("%s/%s" % (name, child))
        return found


def password_of(session):
    """Of a ZooKeeper session: java.util.Random seeded with its number and a secret that is in the source."""
    seed = (session ^ 0xB3415C00 ^ 0x5DEECE66D) & ((1 << 48) - 1)
    password = b""
    for _ in range(4):
        seed = (seed * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        password += struct.pack("<I", seed >> 16)
    return password


def four_letters(port, word):
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(word.encode())
            data = b""
            while True:
                more = connection.recv(65536)
                if not more:
                    return data.decode("utf-8", "replace")
                data += more
    except OSError:
        return ""


# ---- etcd --------------------------------------------------------------------------------------------------------------

class Etcd(Store):
    """Locks lie below a prefix of the test's own. Asked by its JSON gateway."""

    few_bytes = 29  # after each cut the client takes its time to come back

    @classmethod
    def one(cls):
        return cls.get("etcd")

    @classmethod
    def three(cls):
        return cls.get("etcd3")

    def fresh(self):
        self.prefix = "t%d-%d/" % (os.getpid(), next(numbers))

    def call(self, path, message, member=None, timeout=5):
        body = json.dumps(message).encode()
        members = [member] if member else [each for each in self.members if not each.dead and not each.stopped]
        for each in members:
            request = urllib.request.Request("http://%s/v3/%s" % (each.where, path), body)
            try:
                with urllib.request.urlopen(request, timeout=timeout) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                problem = error.read().decode("utf-8", "replace")
                if each is members[-1]:
                    raise ConnectionError(problem) from error
            except (OSError, ValueError) as error:
                if each is members[-1]:
                    raise ConnectionError(str(error)) from error

    def asked(self, *arguments, **options):
        """call, until it is answered."""
        def once():
            try:
                return self.call(*arguments, **options) or {"": ""}
            except ConnectionError:
                return None
        return eventually(once, patience=60)

    def answers(self, member):
        try:
            return bool(self.call("kv/range", {"key": text64("health")}, member, 1))
        except ConnectionError:
            return False

    def leads(self, member):
        try:
            status = self.call("maintenance/status", {}, member, 1)
        except ConnectionError:
            return False
        return not member.dead and not member.stopped and status.get("leader") == status["header"]["member_id"]

    def url(self, *members, prefix=None, scheme="etcd", user="", **options):
        options = {"prefix": self.prefix if prefix is None else prefix, **options}
        return "%s://%s%s?%s" % (scheme, user, self.hosts(*members), "&".join("%s=%s" % pair for pair in options.items()))

    def entries(self, start=""):
        start = self.prefix + start
        end = start[:-1] + chr(ord(start[-1]) + 1)
        reply = self.asked("kv/range", {"key": text64(start), "range_end": text64(end), "sort_target": "CREATE",
                                        "sort_order": "ASCEND"})
        return [(plain(entry["key"])[len(self.prefix):], entry) for entry in reply.get("kvs", [])]

    def keys(self, start=""):
        return [key for key, _ in self.entries(start)]

    def line(self, name):
        return self.keys(name + "/")

    def lease(self, name, place=0):
        """Of one in the line."""
        entries = self.entries(name + "/")
        return int(entries[place][1].get("lease", "0")) if len(entries) > place else None

    def put(self, key, value):
        return self.asked("kv/put", {"key": text64(key), "value": text64(value)})

    def remove(self, key):
        """key: behind the prefix."""
        return self.asked("kv/deleterange", {"key": text64(self.prefix + key)})

    def revoke(self, lease):
        return self.asked("lease/revoke", {"ID": str(lease)})

    def leases(self):
        return {int(entry["ID"]) for entry in self.asked("lease/leases", {}).get("leases", [])}

    def left(self):
        """Keys that hang on a lease."""
        return [key for key, entry in self.entries() if int(entry.get("lease", "0"))]


def text64(text):
    return base64.b64encode(text.encode()).decode()


def plain(data):
    return base64.b64decode(data).decode("utf-8", "replace")


# ---- a bad network -----------------------------------------------------------------------------------------------------

class Between(Cutter):
    """A proxy before one member, that cuts and falls silent. Stands in for it in url()."""

    def __init__(self, member):
        super().__init__(member)
        self.where = "127.0.0.1:%d" % self.port
        self.refuse = False  # who comes is sent away

    def relay(self, client):
        if not self.refuse:
            super().relay(client)

    def live(self):
        """Connections that neither side has ended."""
        with self.lock:
            return [pair for pair in self.pairs if pair[0].fileno() >= 0]
