"""pg.py - PostgreSQL for tests: one server, a pair, or one behind a pooler (tests/servers), that can be killed, stopped and
started again with all its processes, and a look at what is stored by other means than the engine under test (psycopg2).

    store = Postgres.one()
    peer = Peer(store.url())
    store.members[0].kill()
    store("SELECT ...", value)"""
import pwd
import urllib.parse

from hurt import *

ADMINISTRATOR = "postgres"


def children_of(pid):
    found = []
    for word in os.listdir("/proc"):
        if not word.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % word, encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(") ")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if int(parent) == pid and state not in "ZX":
            found.append(int(word))
    return found


class Postmaster(Member):
    """One server: its first process, and those that it has started, each in a session of its own."""

    @property
    def data(self):
        return self.command[self.command.index("-D") + 1]

    def children(self):
        return children_of(self.pid)

    def stop(self):
        super().stop()  # first: it would start others
        for pid in self.children():
            stand_still(pid)

    def go_on(self):
        for pid in self.children():
            os.kill(pid, signal.SIGCONT)
        super().go_on()

    def kill(self):
        """kill -9 of the first process. The others see it and end; until then nobody may start on the same data."""
        if self.dead:
            return
        children = self.children()
        if self.stopped:
            self.go_on()
        super().kill()
        eventually(lambda: not [pid for pid in children if alive(pid)], "its processes do not end")

    def crash(self):
        """All processes at once, as when the machine goes down."""
        stand_still(self.pid)
        for pid in self.children():
            os.kill(pid, signal.SIGKILL)
        self.kill()

    def end(self, how=signal.SIGQUIT):
        """As pg_ctl stop -m immediate; -m fast: SIGINT."""
        if self.dead:
            return
        self.signal(how)
        if self.process:
            self.process.wait(PATIENCE)
        eventually(lambda: not alive(self.pid), "pid %d does not end" % self.pid)
        self.dead = True

    def start(self, *more):
        """As the user that it had. It takes one that has ended for running until somebody has asked for its status."""
        for name in ("postmaster.pid", ".s.PGSQL.%d.lock" % self.port):
            if not alive(self.pid) and os.path.exists(os.path.join(self.data, name)):
                os.remove(os.path.join(self.data, name))
        who = {}
        if os.getuid() == 0:
            entry = pwd.getpwnam("postgres")
            who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist("postgres", entry.pw_gid)}
        with open(os.path.join(self.store.directory, "again.log"), "ab") as log:
            self.process = subprocess.Popen([*self.command, *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            start_new_session=True, **who)
        self.pid, self.dead = self.process.pid, False

    def promote(self):
        open(os.path.join(self.data, "promote"), "w").close()
        self.signal(signal.SIGUSR1)

    def __call__(self, statement, *values, database="postgres"):
        """The rows of a statement of the administrator's; by the socket in its directory, which needs no password."""
        import psycopg2
        connection = psycopg2.connect(host=self.data, port=self.port, user=ADMINISTRATOR, dbname=database, connect_timeout=10)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()


class Postgres(Store):
    """Locks lie below a prefix of the test's own, in the schema pawl."""
    kind = Postmaster
    few_bytes = 7

    @classmethod
    def one(cls):
        return cls.get("postgres")

    @classmethod
    def new(cls, name="postgres"):
        """One for this test alone, which may spoil it."""
        store = cls(name)
        at_end(store.down)
        store.fresh()
        return store

    def fresh(self):
        self.prefix = "t%d-%d/" % (os.getpid(), next(numbers))

    def down(self):
        for member in self.members:
            if member.stopped:
                member.go_on()
            if member.process:
                member.end()
        super().down()

    def __call__(self, statement, *values, **more):
        return self.members[0](statement, *values, **more)

    def asked(self, *words):
        """The rows, as soon as there is a server that gives them."""
        def once():
            import psycopg2
            try:
                return [self(*words)]
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                return None
        return eventually(once, patience=60)[0]

    def answers(self, member):
        import psycopg2
        try:
            return bool(member("SELECT 1"))
        except psycopg2.Error:
            return False

    def url(self, *members, prefix=None, user="postgres", database="postgres", **options):
        options = {"prefix": self.prefix if prefix is None else prefix, **options}
        return "postgres://%s@%s/%s?%s" % (user, self.hosts(*members), database,
                                           "&".join("%s=%s" % pair for pair in options.items()))

    def line(self, name):
        """Those who hold, and those who wait and whose client is there, in their order."""
        return [uid for uid, in self.asked("""
            SELECT uid::text FROM (
                SELECT uid, 0 AS place, 0::bigint AS ticket FROM pawl.lock
                WHERE name = %s AND uid IS NOT NULL AND expires_at > clock_timestamp()
                UNION ALL SELECT uid, 1, token FROM pawl.share WHERE name = %s AND expires_at > clock_timestamp()
                UNION ALL SELECT uid, 2, ticket FROM pawl.wait WHERE name = %s AND EXISTS (
                    SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
                    AND pawl.life_of(client) = (classid::bigint << 32 | objid::bigint))) AS line
            ORDER BY place, ticket""", *[self.prefix + name] * 3)]

    def left(self):
        """Holders and those who wait, of all names of the test's."""
        return ["%s %s" % row for row in self.asked("""
            SELECT name, 'holder' FROM pawl.lock WHERE uid IS NOT NULL AND expires_at > clock_timestamp() AND starts_with(name, %s)
            UNION ALL SELECT name, 'shares' FROM pawl.share WHERE expires_at > clock_timestamp() AND starts_with(name, %s)
            UNION ALL SELECT name, 'waits' FROM pawl.wait WHERE starts_with(name, %s)""", *[self.prefix] * 3)]

    def backends(self):
        """Of the clients of our engine: of all that come by the network."""
        return [pid for pid, in self.asked("SELECT pid FROM pg_stat_activity WHERE client_addr IS NOT NULL AND pid <> pg_backend_pid()"
                                           " AND backend_type = 'client backend' ORDER BY backend_start")]

    def role(self, name, *rights, options="LOGIN"):
        """A role that goes with the test."""
        self("CREATE ROLE %s %s" % (name, options))
        for right in rights:
            self("GRANT %s TO %s" % (right, name))

        def end():
            self("REASSIGN OWNED BY %s TO postgres" % name)
            self("DROP OWNED BY %s" % name)
            self("DROP ROLE %s" % name)
        at_end(end)
        return name

    def database(self, name, *more):
        self("CREATE DATABASE %s %s" % (name, " ".join(more)))
        at_end(lambda: self("DROP DATABASE %s WITH (FORCE)" % name))
        return name


def older_schema(version):
    """The script of an older version, as it was."""
    with open(os.path.join(os.path.dirname(__file__), "schema-%d.sql" % version), encoding="utf-8") as file:
        return file.read()


def encoded(text):
    return urllib.parse.quote(text, safe="")


def missing(*names):
    """What is not there to run these: servers, or the module that looks at them."""
    absent = have(*names)
    return absent if importlib.util.find_spec("psycopg2") else "python3-psycopg2 " + absent
