"""rig.py - what the tests of the guard in PostgreSQL stand on: a server of our own that can be hurt, psycopg2 as the
stranger that knows nothing of pawl but its SQL, and guards in other processes.

    @test
    def a_stale_token_is_refused(server):
        ...

Each test has a database of its own on one server; what it started is ended after it, by process id."""
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

# Packages of the distribution belong to its own Python.
if not importlib.util.find_spec("psycopg2") and sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
if not importlib.util.find_spec("psycopg2"):
    print("1..1\nok 1 - the guard in PostgreSQL # SKIP missing: python3-psycopg2")
    sys.exit(0)
import psycopg2
from psycopg2 import extensions, errors  # noqa: F401, for the tests

SOURCE = os.environ.get("SOURCE_DIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ.get("BUILD_DIR") or os.path.join(SOURCE, "build")
PEER = os.environ.get("PAWL_TEST_PEER") or os.path.join(BUILD, "tests/guard/postgres/postgres-guard-peer")
SCRIPT = os.path.join(SOURCE, "src/guard/postgres/guard.sql")
SERVERS = os.path.join(SOURCE, "tests/servers/servers")
PATIENCE = 60.0  # how long something that must happen may take: only a failing test waits so long
LEVELS = {"read committed": extensions.ISOLATION_LEVEL_READ_COMMITTED,
          "repeatable read": extensions.ISOLATION_LEVEL_REPEATABLE_READ,
          "serializable": extensions.ISOLATION_LEVEL_SERIALIZABLE}
STALE, NOT_ADMITTED, INVALID, CONFLICT = "PW001", "PW002", "22023", "40001"

tests, ends = [], []


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def test(function):
    tests.append(function)
    return function


def equal(actual, expected, *notes):
    if actual != expected:
        raise Failed("%r, expected %r %s" % (actual, expected, notes or ""))


def has(text, needle):
    if needle not in text:
        raise Failed("%r does not have %r" % (text, needle))


def after(function, *arguments):
    ends.append((function, arguments))


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise Failed("it never happened that " + what)


# ---- servers -------------------------------------------------------------------------------------------------------

def is_running(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Server:
    """PostgreSQL, with a database for each test."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="pawl-guard.")
        code = subprocess.call([SERVERS, "up", self.directory, "postgres"], stdout=subprocess.DEVNULL)
        if code != 0:
            missing = subprocess.call([SERVERS, "have", "postgres"]) != 0
            print("1..1\n%sok 1 - the server starts%s" % (("", " # SKIP missing: postgres") if missing else ("not ", "")))
            sys.exit(0 if missing else 1)
        with open(os.path.join(self.directory, "env"), encoding="utf-8") as lines:
            url = lines.read().split("'")[1]
        self.port = urllib.parse.urlsplit(url).port
        self.database = "postgres"
        self.arguments = None

    def fresh(self, number):
        self.run("CREATE DATABASE test%d" % number, database="postgres")
        self.database = "test%d" % number

    def connect(self, database=None, **options):
        options = {"user": "postgres", **options}
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, dbname=database or self.database, **options)
        after(connection.close)
        return connection

    def url(self, options="", user="postgres"):
        return "postgres://%s@127.0.0.1:%d/%s%s" % (user, self.port, self.database, options)

    def prepare(self, script=SCRIPT, user="postgres"):
        """Runs guard.sql as a person would."""
        return subprocess.run(["psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port), "-U", user,
                               "-d", self.database, "-f", script], capture_output=True, text=True, check=False)

    def run(self, statement, *values, database=None):
        """As the superuser, at once."""
        connection = self.connect(database)
        connection.autocommit = True
        rows = ask(connection, statement, *values)
        connection.close()
        return rows

    def pid(self):
        with open(os.path.join(self.directory, "postgres.pid"), encoding="utf-8") as file:
            return int(file.read().split()[0])

    def kill(self):
        """kill -9 of the postmaster; its children see that and end, each in its own time."""
        pid = self.pid()
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            self.arguments = [word.decode() for word in file.read().split(b"\0")[:-1]]
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
        os.kill(pid, signal.SIGKILL)
        after(self.revive)
        for process in [str(pid), *children]:
            until(lambda: not is_running(process), "it ended")

    def revive(self):
        if not is_running(str(self.pid())):
            self.restart()

    def restart(self):
        def start():
            child = subprocess.Popen([*(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
                                        if os.getuid() == 0 else []), *self.arguments], cwd="/", start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.3)
            return child if child.poll() is None else None

        def answers():
            try:
                psycopg2.connect(host="127.0.0.1", port=self.port, user="postgres", dbname="postgres").close()
                return True
            except psycopg2.OperationalError:
                return False

        for _ in range(100):  # the old one's memory is still attached for a moment
            child = start()
            if child:
                break
        with open("/proc/%d/stat" % child.pid, encoding="utf-8") as stat:
            began = stat.read().rsplit(")", 1)[1].split()[19]
        with open(os.path.join(self.directory, "postgres.pid"), "w", encoding="utf-8") as file:
            file.write("%d %s\n" % (child.pid, began))
        until(answers, "it answers again")

    def stop(self):
        subprocess.call([SERVERS, "down", self.directory])
        subprocess.call(["rm", "-rf", self.directory])


# ---- strangers -----------------------------------------------------------------------------------------------------

def ask(connection, statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else None


def refused(connection, statement, *values):
    """The SQLSTATE; '' if it passed."""
    try:
        ask(connection, statement, *values)
        return ""
    except psycopg2.Error as error:
        connection.rollback()
        return error.pgcode or "lost"


def admit(connection, resource, token):
    return ask(connection, "SELECT pawl.admit(%s, %s)", resource, token)[0][0]


class Later:
    """Something in a thread of its own, which is expected to wait."""

    def __init__(self, function, *arguments):
        self.result = self.error = None
        self.thread = threading.Thread(target=self.go, args=(function, arguments), daemon=True)
        self.thread.start()

    def go(self, function, arguments):
        try:
            self.result = function(*arguments)
        except Exception as error:
            self.error = error

    def done(self, seconds=PATIENCE):
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def get(self):
        if not self.done():
            raise Failed("it still waits")
        if self.error:
            raise self.error
        return self.result


def waits(server, connection):
    """Until the server says that this connection waits for a lock."""
    pid = connection.get_backend_pid()
    until(lambda: server.run("SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", pid) == [("Lock",)],
          "it waits for a lock")


# ---- guards --------------------------------------------------------------------------------------------------------

class Peer:
    """A guard in another process."""

    def __init__(self, url, wait_ms=0, environment=None):
        self.process = subprocess.Popen([PEER, url, str(wait_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        after(self.end)
        self.opened = self.answer()

    def answer(self):
        code, _, text = self.process.stdout.readline().rstrip("\n").partition("\t")
        return code.replace("PAWL_", ""), text

    def send(self, *words):
        self.process.stdin.write(" ".join(urllib.parse.quote(str(word), safe="") or "-" for word in words) + "\n")
        self.process.stdin.flush()

    def ask(self, *words):
        self.send(*words)
        return self.answer()

    def code(self, *words):
        return self.ask(*words)[0]

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        equal(self.process.returncode, 0 if self.opened[0] == "OK" else 1, "the guard's process ended")


# ---- all of it -----------------------------------------------------------------------------------------------------

def lines_of(error):
    return ([str(error)] if isinstance(error, Failed) else []) + traceback.format_exception(error)


def run_one(function, number, server):
    verdict, notes = "ok", []
    skipped = ""
    try:
        server.fresh(number)
        function(server)
    except Skipped as reason:
        skipped = " # SKIP %s" % reason
    except Exception as error:
        verdict, notes = "not ok", lines_of(error)
    while ends:
        end, arguments = ends.pop()
        try:
            end(*arguments)
        except Exception as error:
            verdict = "not ok"
            notes += lines_of(error)
    print("%s %d - %s%s" % (verdict, number, function.__name__, skipped))
    for line in "\n".join(notes).splitlines():
        print("# " + line)
    sys.stdout.flush()


def main():
    chosen = [function for function in tests if not sys.argv[1:] or function.__name__ in sys.argv[1:]]
    chosen = [function for function in chosen if os.environ.get("TAP_CASE", function.__name__) == function.__name__]
    print("TAP version 13\n1..%d" % len(chosen))
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server does not outlive us
    server = Server()
    try:
        for number, function in enumerate(chosen, 1):
            run_one(function, number, server)
    finally:
        server.stop()
