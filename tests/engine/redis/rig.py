"""rig.py - what the tests of the Redis engine stand on: TAP, servers that can be hurt, other processes that hold locks, a
connection of our own to the server, and a proxy that cuts.

    @test
    def a_free_lock_is_taken():
        server = Server()
        peer = Peer(server.url())
        equal(peer.acquire("a").code, OK)

Each test has a time limit; whatever it started is ended after it, by process id."""
import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

SOURCE = os.environ.get("SOURCE_DIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ.get("BUILD_DIR") or os.path.join(SOURCE, "build")
PAWL = os.environ.get("PAWL") or os.path.join(BUILD, "pawl")
PEER = os.environ.get("PAWL_TEST_PEER") or os.path.join(BUILD, "tests/contract/contract-peer")
PATIENCE = 40.0  # how long something that must happen may take: only a failing test waits so long

CODES = {}
with open(os.path.join(SOURCE, "include/pawl.h"), encoding="utf-8") as header:
    for line in header:
        found = re.match(r"\s*X\((\w+), (\d+), ", line)
        if found:
            CODES[found.group(1)] = int(found.group(2))
NAMES = {number: name for name, number in CODES.items()}
globals().update(CODES)
FOREVER, NO_WAIT = 0, -1
EXPIRED, TAKEN, BROKEN, SESSION = 1, 2, 3, 4  # enum pawl_reason
HELD = 2  # enum pawl_state


# ---- tests -------------------------------------------------------------------------------------------------------------

tests = []
endings = []  # what the running test must undo
scratch = None


class Failed(Exception):
    pass


def test(function=None, within=60):
    """A test: a function whose name is a sentence."""
    if function is None:
        return lambda inner: test(inner, within)
    tests.append((function.__name__, function, within))
    return function


def require(good, *notes):
    if not good:
        raise Failed(*notes)


def equal(actual, expected, *notes):
    require(actual == expected, "%s, expected %s" % (show(actual), show(expected)), *notes)


def show(value):
    return NAMES.get(value, repr(value)) if type(value) is int else repr(value)


def matches(text, pattern, *notes):
    require(re.search(pattern, text, re.I), "%r does not match %r" % (text, pattern), *notes)


def note(text):
    print("# " + str(text).replace("\n", "\n# "), flush=True)


def eventually(condition, *notes, patience=PATIENCE):
    """The first true value of condition()."""
    until = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise Failed("did not become true", *[note() if callable(note) else note for note in notes])
        time.sleep(0.01)


def thread_states(pid):
    states = []
    for thread in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, thread), encoding="utf-8") as file:
                states.append(file.read().rpartition(") ")[2][0])
        except OSError:  # it has ended meanwhile
            pass
    return states


def stand_still(pid):
    """SIGSTOP, and it stands: threads that run go on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: all(state in "TZX" for state in thread_states(pid)), "pid %d does not stop" % pid)


def at_end(ending):
    endings.append(ending)


def end_all():
    """Undoes what the test did, the last first; one that fails does not keep the others."""
    while endings:
        try:
            endings.pop()()
        except Exception as error:
            note("while ending: %r" % error)


def directory():
    return tempfile.mkdtemp(dir=scratch)


def alarmed(*_):
    raise Failed("the test's time is over")


def run_one(function, within):
    """SLOWER: of the build; TAP_PATIENCE: of a machine that has other work as well, as in tests/tap."""
    signal.signal(signal.SIGALRM, alarmed)
    signal.alarm(within * int(os.environ.get("SLOWER", "1")) * int(os.environ.get("TAP_PATIENCE", "1")))
    try:
        function()
        return None
    except Failed as failure:
        place = [frame for frame in traceback.extract_tb(failure.__traceback__) if not frame.filename.endswith("rig.py")]
        return "\n".join(["%s:%d: %s" % (os.path.basename(frame.filename), frame.lineno, frame.line) for frame in place[-1:]]
                         + [str(part) for part in failure.args])
    except Exception:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
        end_all()


def main(missing=None):
    """Runs the tests, or those named. missing: what is not there to run them; None: only Redis is needed."""
    global scratch
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = [row for row in tests if not sys.argv[1:] or any(word in row[0] for word in sys.argv[1:])]
    chosen = [row for row in chosen if os.environ.get("TAP_CASE", row[0]) == row[0]]
    if missing is None and not shutil.which("redis-server"):
        missing = "redis-server"
    failed = 0
    print("TAP version 13\n1..%d" % len(chosen), flush=True)
    scratch = tempfile.mkdtemp(prefix="pawl-test.")
    try:
        for number, (name, function, within) in enumerate(chosen, 1):
            sentence = name.replace("_", " ")
            if missing:
                print("ok %d - %s # SKIP missing: %s" % (number, sentence, missing), flush=True)
                continue
            problem = run_one(function, within)
            print("%sok %d - %s" % ("not " if problem else "", number, sentence), flush=True)
            if problem:
                failed += 1
                note(problem)
    finally:
        end_all()
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(1 if failed else 0)


# ---- our own connection to a server ------------------------------------------------------------------------------------

class Refused(Exception):
    """An error reply."""


class Connection:
    """RESP by hand: what a test says to the server must not depend on a client that is being tested."""

    def __init__(self, port, timeout=PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.file = self.socket.makefile("rb")

    def close(self):
        hang_up(self.socket)  # first: a thread that is reading would keep the file
        self.file.close()
        self.socket.close()

    def send(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise Refused(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if int(rest) < 0 else self.file.read(int(rest) + 2)[:-2].decode("utf-8", "replace")
        return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]

    def __call__(self, *words):
        self.send(*words)
        return self.read()


def free_port():
    """Below the range of outgoing connections, and reserved for this run among all of this user's, as in tests/servers."""
    reserved = "/tmp/pawl-ports.%d" % os.geteuid()
    owner = os.environ.get("PAWL_TEST_SERVERS", "")
    if os.path.isdir(owner) and not os.path.isdir(reserved):
        os.makedirs(reserved, 0o700, exist_ok=True)
    while True:
        port = 10000 + int.from_bytes(os.urandom(2), "big") % 20000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                if os.path.isdir(owner):
                    os.symlink(owner, os.path.join(reserved, str(port)))
                elif os.path.islink(os.path.join(reserved, str(port))):
                    continue
                return port
            except OSError:
                continue


# ---- servers -----------------------------------------------------------------------------------------------------------

class Server:
    """A redis-server of the test's own. options: lines of its configuration, as words."""

    def __init__(self, *options, port=None, plain=True):
        self.directory = directory()
        self.port = port or free_port()
        self.options = list(options)
        self.plain = plain  # it answers a plain connection without a password
        self.process = None
        at_end(self.kill)
        self.start()

    def start(self, *more, wait=True):
        command = ["redis-server", "--bind", "127.0.0.1", "--dir", self.directory, "--save", "", "--appendonly", "no",
                   "--daemonize", "no", "--enable-debug-command", "yes"]
        if "--port" not in self.options:
            command += ["--port", str(self.port)]
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self.process = subprocess.Popen([*command, *self.options, *more], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        if wait:
            eventually(self.answers, self.log)

    def log(self):
        with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]

    def answers(self):
        require(self.process.poll() is None, "the server has ended", self.log())
        try:
            connection = Connection(self.port, 1)
            try:
                return not self.plain or connection("PING") == "PONG"
            finally:
                connection.close()
        except (OSError, Refused):
            return False

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        """As after a crash; with nothing, since it saves nothing."""
        self.kill()
        self.start()

    def stop(self):
        stand_still(self.process.pid)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def connect(self):
        connection = Connection(self.port)
        at_end(connection.close)
        return connection

    def __call__(self, *words):
        connection = Connection(self.port)
        try:
            return connection(*words)
        finally:
            connection.close()

    def url(self, prefix="lock:", port=None, **options):
        query = "&".join("%s=%s" % pair for pair in {"prefix": prefix, **options}.items())
        return "redis://127.0.0.1:%d?%s" % (port or self.port, query)

    def keys(self, pattern="*"):
        return sorted(self("KEYS", pattern))

    def waiters(self, name, prefix="lock:"):
        return self("ZCARD", "pawl:queue:%s%s" % (prefix, name))


def cluster_node(*options):
    """A Redis in cluster mode. Its second port is chosen too: by default it is in the range of outgoing connections."""
    return Server("--cluster-enabled", "yes", "--cluster-port", str(free_port()), *options)


class Recorder:
    """MONITOR: who said what. lines: (address, words as the server prints them)."""

    def __init__(self, server):
        self.connection = server.connect()
        self.connection.socket.settimeout(None)
        self.connection("MONITOR")
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while True:
                line = self.connection.read()
                found = re.match(r'[\d.]+ \[\d+ ([^\]]+)\] (.*)', line)
                if found:
                    self.lines.append((found.group(1), found.group(2)))
        except (OSError, ValueError, ConnectionError):
            pass


class Listener:
    """Something on a port that is no Redis: serve(socket) is called for each connection, on a thread of its own."""

    def __init__(self, serve):
        self.serve = serve
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1]
        at_end(self.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.guarded, args=(connection,), daemon=True).start()

    def guarded(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass

    def url(self, **options):
        return "redis://127.0.0.1:%d?%s" % (self.port, "&".join("%s=%s" % pair for pair in options.items()))


class Cutter(Listener):
    """A proxy that ends connections. cut: None, or ("out"|"in", n): after n bytes from the client, or from the server,
    counted over all connections since it was set; once. silent: nothing passes any more, and nothing is closed."""

    def __init__(self, server):
        self.server = server
        self.cut = None
        self.passed = {"out": 0, "in": 0}
        self.silent = False
        self.lock = threading.Lock()
        self.pairs = []
        super().__init__(self.relay)

    def set_cut(self, way, count):
        with self.lock:
            self.passed = {"out": 0, "in": 0}
            self.cut = (way, count)

    def cut_all(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            hang_up(*pair)

    def relay(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.server.port))
        except OSError:
            return
        for end in client, server:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.pairs.append((client, server))
        back = threading.Thread(target=self.pump, args=(server, client, "in", (client, server)), daemon=True)
        back.start()
        self.pump(client, server, "out", (client, server))
        back.join()
        server.close()

    def pump(self, source, target, way, pair):
        try:
            while True:
                data = source.recv(65536)
                while self.silent:
                    time.sleep(0.01)
                if not data:
                    break
                whole, data = len(data), self.allow(way, data)
                target.sendall(data)
                if len(data) < whole:
                    break
        except OSError:
            pass
        hang_up(*pair)

    def allow(self, way, data):
        """As much of data as may pass; less of it means: and now cut."""
        with self.lock:
            before = self.passed[way]
            self.passed[way] += len(data)
            if self.cut and self.cut[0] == way and self.passed[way] > self.cut[1]:
                data = data[:max(self.cut[1] - before, 0)]
                self.cut = None
            return data


def hang_up(*ends):
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


# ---- other processes ---------------------------------------------------------------------------------------------------

Answer = collections.namedtuple("Answer", "code token text")


class Peer:
    """A process with one client and one lock (tests/contract/peer_main.c)."""

    def __init__(self, url, drive="thread"):
        self.process = subprocess.Popen([PEER, "talk", url, drive], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=sys.stderr, bufsize=0)
        self.buffer = b""
        at_end(self.kill)
        self.opened = self.hear()

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        stand_still(self.process.pid)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def leave(self):
        """Closes its client in good order; its exit status."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def tell(self, order):
        self.process.stdin.write(order.encode() + b"\n")

    def hear(self, patience=PATIENCE):
        until = time.monotonic() + patience
        while b"\n" not in self.buffer:
            require(readable(self.process.stdout, until - time.monotonic()), "the peer does not answer")
            data = os.read(self.process.stdout.fileno(), 4096)
            if not data:
                raise Failed("the peer has ended with %s" % self.process.wait(PATIENCE))
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        code, token, text = line.decode("utf-8", "replace").split(" ", 2)
        return Answer(int(code), int(token), text)

    def heard(self):
        """An answer, if there is one by now."""
        return b"\n" in self.buffer or readable(self.process.stdout, 0)

    def ask(self, order, patience=PATIENCE):
        self.tell(order)
        return self.hear(patience)

    def acquire(self, name, wait=NO_WAIT, ttl=10000, patience=PATIENCE, **more):
        self.request(name, wait, ttl, **more)
        answer = self.hear(max(patience, wait / 1000 + PATIENCE))
        return answer if answer.code == 0 else answer._replace(text=self.ask("why").text)

    def request(self, name, wait=FOREVER, ttl=10000, flags=0, mode=0, holders=0, delay=0):
        """Asks without listening for the answer."""
        self.tell("acquire %s %d %d %d %d %d %d" % (name, wait, ttl, flags, mode, holders, delay))

    def release(self):
        return self.ask("release").code

    def check(self):
        return self.ask("check").code

    def number(self, order):
        return self.ask(order).code


def readable(file, seconds):
    import select
    return bool(select.select([file], [], [], max(seconds, 0))[0])


Done = collections.namedtuple("Done", "code output errors")


def pawl(*arguments, data="", **environment):
    """The command, to its end."""
    environment = {**os.environ, **environment}
    environment.pop("PAWL_URL", None) if "PAWL_URL" not in environment else None
    done = subprocess.run([PAWL, *map(str, arguments)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, timeout=PATIENCE * 2, env=environment)
    return Done(done.returncode, done.stdout, done.stderr)


def start_pawl(*arguments, **options):
    process = subprocess.Popen([PAWL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **options)

    def end():
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()

    at_end(end)
    return process
