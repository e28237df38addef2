"""guards.py - what the tests of the Redis guard stand on, beside those of the engine (../../engine/redis/rig.py): a process with
one guard, and the keys of a resource."""
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/redis"))
from rig import *  # noqa: E402
from rig import BUILD, PATIENCE, Listener, Refused, at_end, hang_up, readable, stand_still

GUARD_PEER = os.environ.get("PAWL_TEST_GUARD_PEER") or os.path.join(BUILD, "tests/guard/redis/guard-peer")
LIBRARY = os.path.join(BUILD, "src/guard/redis/pawl.lua")
SCRIPTS = os.path.join(BUILD, "src/guard/redis")
LARGEST = 2**63 - 1
FINE, ADVICE, WARNING, DANGER = 0, 1, 2, 3

Reply = collections.namedtuple("Reply", "code number data text")


def to_hex(data):
    return (data if isinstance(data, bytes) else str(data).encode()).hex() or "-"


class Guard:
    """A process with one guard (guard_peer.c)."""

    def __init__(self, url, wait=20000):
        self.process = subprocess.Popen([GUARD_PEER, url, str(wait)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=sys.stderr, bufsize=0)
        self.buffer = b""
        at_end(self.kill)
        self.opened = self.hear()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        stand_still(self.process.pid)

    def leave(self):
        """Closes its guard in good order; its exit status."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def tell(self, order, name="", token="-", data=""):
        self.process.stdin.write(("%s %s %s %s\n" % (order, to_hex(name), token, to_hex(data))).encode())

    def hear(self, patience=3 * PATIENCE):
        until = time.monotonic() + patience
        while b"\n" not in self.buffer:
            require(readable(self.process.stdout, until - time.monotonic()), "the guard does not answer")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise Failed("the guard has ended with %s" % self.process.wait(PATIENCE))
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        code, number, data, text = line.decode("utf-8", "replace").split(" ", 3)
        return Reply(int(code), int(number), b"" if data == "-" else bytes.fromhex(data), text)

    def ask(self, *order):
        self.tell(*order)
        return self.hear()

    def admit(self, name, token):
        return self.ask("admit", name, token)

    def put(self, name, token, data):
        return self.ask("put", name, token, data)

    def get(self, name, token):
        return self.ask("get", name, token)

    def look(self, name):
        return self.ask("look", name)

    def swap(self, name, version, data):
        return self.ask("swap", name, version, data)

    def forget(self, name, token):
        return self.ask("forget", name, token)

    def prune(self, floor):
        return self.ask("prune", "", floor)

    def list(self, prefix=""):
        """name: (token, code)"""
        reply = self.ask("list", prefix)
        equal(reply.code, OK, reply.text)
        rows = [line.rsplit(" ", 2) for line in reply.data.decode().splitlines()]
        return {name: (int(token), int(code)) for name, token, code in rows}

    def examine(self):
        """[(severity, what, mend)]"""
        reply = self.ask("examine")
        equal(reply.code, OK, reply.text)
        rows = []
        for line in reply.data.decode().splitlines():
            severity, rest = line.split(" ", 1)
            what, _, mend = rest.partition(" | ")
            rows.append((int(severity), what, mend))
        return rows


def place(server, **options):
    """The guard's URL on a server of the rig."""
    port = options.pop("port", server.port)
    query = "&".join("%s=%s" % pair for pair in options.items())
    return "redis://127.0.0.1:%d%s" % (port, "?" + query if query else "")


def keys_of(name, prefix="data:"):
    """What scripts and functions are given for a resource."""
    return [prefix + name, "pawl:mark:" + prefix + name, "pawl:floor:" + prefix]


def refused(call, *words):
    """The error that the server answers with; a failure if it answers with anything else."""
    try:
        answer = call(*words)
    except Refused as error:
        return str(error)
    raise Failed("%r was not refused: %r" % (words, answer))


def load_library(server):
    with open(LIBRARY, encoding="utf-8") as file:
        equal(server("FUNCTION", "LOAD", "REPLACE", file.read()), "pawl")


def script(name):
    with open(os.path.join(SCRIPTS, name + ".lua"), encoding="utf-8") as file:
        return file.read()


class Gate(Listener):
    """A proxy that holds things up. hold(): what clients send on the connections of now waits until let_go(), and goes on then
    even if the client has left. shut(): new connections wait until open(). answer: False: what the server says is dropped."""

    def __init__(self, server):
        self.server = server
        self.connections = []
        self.answer = True
        self.opened = threading.Event()
        self.opened.set()
        super().__init__(self.relay)

    def hold(self):
        for passes, _ in self.connections:
            passes.clear()

    def let_go(self):
        for passes, _ in self.connections:
            passes.set()

    def shut(self):
        self.opened.clear()

    def open(self):
        self.opened.set()

    def cut_all(self):
        for _, client in self.connections:
            hang_up(client)

    def relay(self, client):
        self.opened.wait(PATIENCE)
        passes = threading.Event()
        passes.set()
        self.connections.append((passes, client))
        with socket.create_connection(("127.0.0.1", self.server.port)) as server:
            threading.Thread(target=self.pump, args=(server, client), daemon=True).start()
            self.pump(client, server, passes)
            hang_up(server)

    def pump(self, source, target, passes=None):
        try:
            while data := source.recv(65536):
                if passes:
                    passes.wait(PATIENCE)
                if passes or self.answer:
                    target.sendall(data)
        except OSError:
            pass
