#!/usr/bin/env python3
"""faults.py - the guard of the library with a server that is killed, stopped, full, read-only, or lets nobody in."""
import shutil

from rig import *


def backends(server, what="%"):
    return [pid for (pid,) in server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'pawl' "
                                         "AND query LIKE %s", what)]


def waiting(server):
    """Until a statement of a guard waits for a lock; its process."""
    found = []

    def look():
        found[:] = server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'pawl' AND wait_event_type = 'Lock'")
        return found

    until(look, "a guard waits for a lock")
    return found[0][0]


def holding(server, resource="r", token=5):
    """A stranger's transaction that has admitted, and does not end."""
    connection = server.connect()
    admit(connection, resource, token)
    return connection


# ---- the server ends -----------------------------------------------------------------------------------------------

@test
def marks_and_data_outlive_a_server_that_is_killed(server):
    peer = Peer(server.url())
    equal(peer.code("put", "r", 34, "thirty-four"), "OK")
    server.kill()
    code, text = peer.ask("admit", "r", 35)
    equal(code, "UNREACHABLE")
    has(text, "postgres://postgres@127.0.0.1")
    equal(peer.code("put", "r", 35, "nowhere"), "UNREACHABLE")
    server.restart()
    equal(peer.code("put", "r", 33, "late"), "STALE")
    equal(peer.ask("get", "r", 34), ("OK", "34 thirty-four"))


@test
def a_server_that_is_killed_again_and_again_never_forgets_a_mark(server):
    greatest = 0
    peer = Peer(server.url(), 20000)
    for token in range(10, 40, 10):
        equal(peer.code("admit", "r", token), "OK")
        greatest = token
        server.kill()
        server.restart()
        equal(peer.code("admit", "r", greatest - 1), "STALE")


@test
def a_put_whose_answer_was_lost_with_the_server_is_settled_when_it_is_back(server):
    peer = Peer(server.url(), 60000)
    equal(peer.code("put", "r", 4, "old"), "OK")
    holder = holding(server)
    peer.send("put", "r", 6, "new")
    waiting(server)
    server.kill()
    del holder
    time.sleep(0.3)
    server.restart()
    equal(peer.answer()[0], "OK")
    equal(peer.ask("get", "r", 6), ("OK", "6 new"))


# ---- connections end -----------------------------------------------------------------------------------------------

@test
def a_connection_that_was_cut_while_idle_is_not_noticed(server):
    peer = Peer(server.url())
    equal(peer.code("put", "r", 5, "five"), "OK")
    for words in (("admit", "r", 5), ("put", "r", 5, "six"), ("get", "r", 5), ("list", "r"), ("prune", 1),
                  *5 * (("forget", "r", 5), ("admit", "r", 5))):
        for pid in backends(server):
            server.run("SELECT pg_terminate_backend(%s)", pid)
        until(lambda: not backends(server), "it is gone")
        equal(peer.code(*words), "OK")


@test
def a_put_that_is_cut_while_it_waits_is_repeated(server):
    peer = Peer(server.url(), 30000)
    equal(peer.code("admit", "r", 1), "OK")
    holder = holding(server)
    peer.send("put", "r", 6, "six")
    server.run("SELECT pg_terminate_backend(%s)", waiting(server))
    waiting(server)  # again
    holder.commit()
    equal(peer.answer()[0], "OK")
    equal(peer.ask("get", "r", 6), ("OK", "6 six"))


@test
def a_repeated_put_that_is_stale_by_then_is_in_doubt(server):
    peer = Peer(server.url(), 30000)
    equal(peer.code("admit", "r", 1), "OK")
    holder = holding(server)
    peer.send("put", "r", 4, "four")
    server.run("SELECT pg_terminate_backend(%s)", waiting(server))
    waiting(server)
    holder.commit()
    equal(peer.answer()[0], "IN_DOUBT")
    equal(peer.code("put", "r", 4, "four"), "STALE")


@test
def a_swap_that_is_cut_while_it_waits_is_repeated_and_knows_whose_version_it_finds(server):
    peer = Peer(server.url(), 30000)
    equal(peer.code("swap", "r", 0, "one"), "OK")
    for text, made, code in (("theirs", True, "STALE"), ("ours", False, "OK")):
        holder = server.connect()
        version = ask(holder, "SELECT version FROM pawl.look('r')")[0][0]
        ask(holder, "SELECT pawl.swap('r', %s, 'theirs')", version)
        peer.send("swap", "r", version, text)
        server.run("SELECT pg_terminate_backend(%s)", waiting(server))
        waiting(server)  # again
        (holder.commit if made else holder.rollback)()
        equal(peer.answer()[0], code)
        equal(server.run("SELECT version, data FROM pawl.look('r')")[0][0], version + 1)
    equal(server.run("SELECT convert_from(data, 'UTF8') FROM pawl.look('r')"), [("ours",)])


@test
def a_guard_that_an_older_pawl_made_gets_ids_and_their_rights(server):
    equal(Peer(server.url()).code("swap", "r", 0, "one"), "OK")
    server.run("CREATE ROLE app LOGIN")
    after(server.run, "DROP OWNED BY app; DROP ROLE app")
    server.run("GRANT USAGE ON SCHEMA pawl TO app; GRANT EXECUTE ON FUNCTION pawl.guard_version(), pawl.look(text), "
               "pawl.swap(text, bigint, bytea) TO app")
    server.run("DROP FUNCTION pawl.swap_once(text, bigint, bytea, bigint); DROP FUNCTION pawl.guard_swap(text, bigint, bigint); "
               "ALTER TABLE pawl.guard_mark DROP COLUMN swap")
    equal(Peer(server.url(user="app")).code("swap", "r", 1, "two"), "DENIED")  # its functions are missing, and app is no owner
    equal(Peer(server.url()).code("swap", "r", 1, "two"), "OK")  # the owner makes them
    equal(Peer(server.url(user="app")).code("swap", "r", 2, "three"), "OK")


@test
def a_forget_that_is_cut_is_in_doubt(server):
    peer = Peer(server.url(), 30000)
    equal(peer.code("admit", "r", 1), "OK")
    holding(server)
    peer.send("forget", "r", 6)
    server.run("SELECT pg_terminate_backend(%s)", waiting(server))
    equal(peer.answer()[0], "IN_DOUBT")


# ---- time ----------------------------------------------------------------------------------------------------------

@test
def who_waits_too_long_is_told_for_what_and_changes_nothing_later(server):
    peer = Peer(server.url(), 1500)
    equal(peer.code("put", "r", 4, "old"), "OK")
    holder = holding(server)
    began = time.monotonic()
    code, text = peer.ask("put", "r", 6, "too late")
    equal(code, "TIMEOUT")
    has(text, 'for "r" may not have ended')
    equal(time.monotonic() - began < 30, True)
    holder.rollback()
    equal(peer.ask("get", "r", 4), ("OK", "4 old"))
    equal(peer.code("admit", "other", 1), "OK")


@test
def limits_of_the_database_itself_are_told_the_same_way(server):
    equal(Peer(server.url()).code("admit", "r", 1), "OK")
    holder = holding(server)
    server.run("ALTER DATABASE %s SET lock_timeout = '200ms'" % server.database)
    equal(Peer(server.url()).code("admit", "r", 6), "TIMEOUT")
    server.run("ALTER DATABASE %s RESET lock_timeout" % server.database)
    server.run("ALTER DATABASE %s SET statement_timeout = '2s'" % server.database)
    peer = Peer(server.url())
    peer.send("admit", "r", 6)
    time.sleep(4)
    holder.rollback()
    equal(peer.answer()[0], "OK")  # ours is said with every statement


@test
def a_server_that_stands_still_is_left_in_time(server):
    peer = Peer(server.url(), 1000)
    equal(peer.code("put", "r", 1, "old"), "OK")
    [pid] = backends(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        code, text = peer.ask("admit", "r", 2)
        equal(code, "UNREACHABLE")
        has(text, "before the answer came")
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: peer.code("admit", "r", 2) == "OK", "it goes on")


@test
def nobody_answering_is_left_in_time(server):
    import socket
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(1)
    after(silent.close)
    peer = Peer("postgres://u@127.0.0.1:%d/d" % silent.getsockname()[1], 500)
    code, text = peer.ask("put", "r", 1, "x")
    equal(code, "UNREACHABLE")  # not in doubt: nothing was sent
    has(text, "did not answer in time")


@test
def transactions_that_meet_are_tried_again(server):
    equal(Peer(server.url()).code("admit", "r", 1), "OK")
    server.run("ALTER DATABASE %s SET default_transaction_isolation = 'serializable'" % server.database)
    peers = [Peer(server.url(), 60000) for _ in range(8)]
    for _ in range(20):
        for peer in peers:
            peer.send("put", "r", 7, "x")
        equal({peer.answer()[0] for peer in peers}, {"OK"})


# ---- refusals ------------------------------------------------------------------------------------------------------

@test
def what_cannot_be_written_is_named(server):
    peer = Peer(server.url())
    equal(peer.code("put", "r", 1, "x"), "OK")
    server.run("ALTER DATABASE %s SET default_transaction_read_only = on" % server.database)
    code, text = Peer(server.url()).ask("put", "r", 2, "y")
    equal(code, "UNREACHABLE")
    has(text, "read-only")
    has(Peer(server.url()).ask("examine")[1], "3 transactions are read-only")


@test
def a_role_without_rights_is_told_which_it_needs(server):
    server.run("CREATE ROLE app LOGIN")
    after(server.run, "DROP OWNED BY app; DROP ROLE app")
    code, text = Peer(server.url(user="app")).ask("admit", "r", 1)
    equal(code, "DENIED")
    has(text, "pawl engines --sql postgres")
    equal(server.prepare().returncode, 0)
    code, text = Peer(server.url(user="app")).ask("admit", "r", 1)
    equal(code, "DENIED")
    has(text, "GRANT USAGE ON SCHEMA pawl TO app")
    server.run("GRANT USAGE ON SCHEMA pawl TO app")
    code, text = Peer(server.url(user="app")).ask("admit", "r", 1)
    equal(code, "DENIED")
    has(text, "GRANT EXECUTE")
    has(Peer(server.url(user="app")).ask("examine")[1], "3 user app may not call in the schema pawl: admit")
    server.run("GRANT EXECUTE ON FUNCTION pawl.admit(text, bigint), pawl.put(text, bigint, bytea) TO app")
    peer = Peer(server.url(user="app"))
    equal(peer.code("put", "r", 1, "x"), "OK")
    equal(peer.code("prune", 1), "DENIED")
    has(peer.ask("examine")[1], "0 user app may admit tokens, but not call: get, forget, prune, guard_list")


@test
def nothing_is_created_where_that_is_not_wanted(server):
    code, text = Peer(server.url("?create=no")).ask("admit", "r", 1)
    equal(code, "DENIED")
    has(text, "pawl engines --sql postgres")
    equal(server.run("SELECT to_regnamespace('pawl')"), [(None,)])
    equal(Peer(server.url("?schema=other")).code("admit", "r", 1), "OK")
    equal(server.run("SELECT other.greatest('r'), to_regnamespace('pawl')"), [(1, None)])
    equal(Peer(server.url("?schema=select")).code("admit", "r", 1), "OK")
    for schema in ("pg_x", "a%22b", "A", "1a", "a-b", "a" * 64, "a%27"):
        equal(Peer(server.url("?schema=" + schema)).opened[0], "INVALID")


@test
def a_schema_that_was_dropped_is_made_again_and_another_version_is_refused(server):
    peer = Peer(server.url())
    equal(peer.code("admit", "r", 9), "OK")
    server.run("DROP SCHEMA pawl CASCADE")
    equal(peer.code("admit", "r", 1), "OK")
    server.run("CREATE OR REPLACE FUNCTION pawl.guard_version() RETURNS integer LANGUAGE sql AS 'SELECT 2'")
    code, text = Peer(server.url()).ask("admit", "r", 1)
    equal(code, "OTHER_VERSION")
    has(text, "version 2")


@test
def a_floor_that_is_gone_is_damage_and_no_pass(server):
    peer = Peer(server.url())
    equal(peer.code("prune", 10), "OK")
    server.run("DELETE FROM pawl.guard_floor")
    equal(peer.code("admit", "r", 5), "CORRUPT")
    equal(peer.code("admit", "r", 50), "CORRUPT")


@test
def what_is_not_there_is_named(server):
    code, text = Peer(server.url().replace("/" + server.database, "/nowhere")).ask("admit", "r", 1)
    equal(code, "INVALID")
    has(text, 'database "nowhere" does not exist')
    equal(Peer(server.url(user="nobody_at_all")).code("admit", "r", 1), "DENIED")
    equal(Peer(server.url("?sslmode=nonsense")).opened[0], "INVALID")
    equal(Peer(server.url("?schemata=x")).opened[0], "INVALID")
    code, text = Peer(server.url("?sslmode=verify-full")).ask("admit", "r", 1)
    equal(code, "UNREACHABLE")
    has(text, "SSL")
    equal(Peer("postgres://u@127.0.0.1:1/d").code("admit", "r", 1), "UNREACHABLE")


@test
def too_many_connections_are_told_as_full(server):
    server.run("CREATE ROLE few LOGIN CONNECTION LIMIT 0")
    after(server.run, "DROP ROLE few")
    equal(Peer(server.url(user="few")).code("admit", "r", 1), "FULL")


@test
def names_that_the_database_cannot_write_are_invalid(server):
    server.run("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0", database="postgres")
    peer = Peer(server.url().replace("/" + server.database, "/latin"))
    equal(peer.code("admit", "für", 1), "OK")
    equal(peer.ask("list", ""), ("OK", "für=1 "))
    equal(peer.code("admit", "€", 1), "INVALID")


# ---- passwords, and what is not asked ------------------------------------------------------------------------------

def with_password(server):
    server.run("CREATE ROLE secret LOGIN SUPERUSER PASSWORD 'pa:ss/w'")
    [(path,)] = server.run("SHOW hba_file")
    with open(path, encoding="utf-8") as file:
        before = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write("host all secret 127.0.0.1/32 scram-sha-256\n" + before)
    server.run("SELECT pg_reload_conf()")
    time.sleep(0.3)

    def undo():
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)
        server.run("SELECT pg_reload_conf()")
        server.run("DROP OWNED BY secret CASCADE; DROP ROLE secret")
    after(undo)


@test
def a_password_comes_from_the_url_or_its_file_and_from_nowhere_else(server):
    with_password(server)
    directory = tempfile.mkdtemp()
    after(shutil.rmtree, directory)
    path = os.path.join(directory, "password")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write("pa:ss/w\n")
    with open(os.open(os.path.join(directory, ".pgpass"), os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write("*:*:*:*:pa\\:ss/w\n")
    surroundings = {"PGPASSWORD": "pa:ss/w", "HOME": directory, "PGPASSFILE": os.path.join(directory, ".pgpass")}
    equal(Peer(server.url("?passfile=" + path, user="secret")).code("admit", "r", 1), "OK")
    equal(Peer(server.url(user="secret:pa%3Ass%2Fw")).code("admit", "r", 1), "OK")
    code, text = Peer(server.url(user="secret:wr0ng"), environment=surroundings).ask("admit", "r", 1)
    equal(code, "DENIED")
    equal("wr0ng" in text, False)
    code, text = Peer(server.url(user="secret"), environment=surroundings).ask("admit", "r", 1)
    equal(code, "DENIED")
    has(text, "passfile=FILE")


@test
def the_environment_leads_nowhere(server):
    surroundings = {"PGHOST": "192.0.2.1", "PGPORT": "1", "PGHOSTADDR": "192.0.2.1", "PGUSER": "nobody", "PGDATABASE": "none",
                    "PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/none", "PGTARGETSESSIONATTRS": "standby",
                    "PGCLIENTENCODING": "LATIN1", "PGAPPNAME": "other", "PGGSSENCMODE": "require", "PGCONNECT_TIMEOUT": "x",
                    "PGCHANNELBINDING": "require", "PGREQUIRESSL": "1"}
    peer = Peer(server.url(), 5000, surroundings)
    equal(peer.ask("admit", "ü", 1), ("OK", ""))
    equal(len(backends(server)), 1)
    equal(server.run("SELECT pawl.greatest('ü')"), [(1,)])


@test
def names_are_looked_up_by_us_and_several_addresses_are_tried(server):
    named = server.url().replace("127.0.0.1", "localhost")
    equal(Peer(named, 20000, {"PGHOSTADDR": "192.0.2.1"}).ask("admit", "r", 1), ("OK", ""))
    several = server.url("?insecure=1").replace("127.0.0.1:", "nowhere.invalid:1,127.0.0.1:1,localhost:")
    equal(Peer(several, 20000).ask("admit", "r", 1), ("OK", ""))
    code, text = Peer("postgres://u@nowhere.invalid/d?insecure=1", 20000).ask("admit", "r", 1)
    equal(code, "UNREACHABLE")
    has(text, "nowhere.invalid")


# ---- a standby -----------------------------------------------------------------------------------------------------

def standby_of(server):
    [(directory,)] = server.run("SHOW data_directory")
    with open("/proc/%d/cmdline" % server.pid(), "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")[:-1]]
    with open("/proc/%d/status" % server.pid(), encoding="utf-8") as file:
        mine = "Uid:\t%d\t" % os.getuid() in file.read()
    user = [] if mine else ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    place = directory + ".standby"
    base = [os.path.join(os.path.dirname(words[0]), "pg_basebackup"), "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres",
            "-R", "-c", "fast", "-X", "stream", "-D", place]
    after(lambda: shutil.rmtree(place, True))  # after the standby has ended: the last is undone first
    subprocess.run(["install", "-d", "-m", "700", *([] if mine else ["-o", "postgres", "-g", "postgres"]), place], check=True)
    subprocess.run([*user, *base], check=True, cwd="/", capture_output=True)
    import socket
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    arguments = [words[0], "-D", place, "-p", str(port)]
    child = subprocess.Popen([*user, *arguments], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)

    def end():
        child.send_signal(signal.SIGINT)
        child.wait(60)
    after(end)

    def answers():
        try:
            psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres").close()
            return True
        except psycopg2.OperationalError:
            return False
    until(answers, "the standby answers")
    return port


@test
def a_standby_admits_nothing_and_the_primary_is_found_among_several(server):
    equal(Peer(server.url()).code("put", "r", 5, "five"), "OK")
    port = standby_of(server)
    there = server.url().replace(str(server.port), str(port))
    code, text = Peer(there).ask("admit", "r", 6)
    equal(code, "UNREACHABLE")
    has(text, "a guard needs the primary")
    has(Peer(there).ask("examine")[1], "3 it is a standby")
    both = server.url().replace("127.0.0.1:", "127.0.0.1:%d,127.0.0.1:" % port)
    equal(Peer(both).code("put", "r", 6, "six"), "OK")
    code, text = Peer(server.url()).ask("examine")
    has(text, "2 1 standby(s) follow it a moment later")
    has(text, "synchronous_standby_names = '*'")


@test
def an_examination_tells_what_may_be_forgotten(server):
    code, text = Peer(server.url()).ask("examine")
    equal(code, "OK")
    has(text, "3 a power failure may forget marks")
    has(text, "ALTER SYSTEM SET fsync = on")
    has(text, "0 user postgres may do all that a guard needs")
    has(Peer("postgres://u@127.0.0.1:1/d").ask("examine")[1], "3 ")


# ---- no room -------------------------------------------------------------------------------------------------------

@test
def a_full_disk_is_told_and_the_old_data_stand(server):
    place = tempfile.mkdtemp()
    after(os.rmdir, place)
    os.chmod(place, 0o755)
    mounted = subprocess.call(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], stderr=subprocess.DEVNULL)
    if mounted != 0:
        raise Skipped("nothing may be mounted here")
    after(subprocess.call, ["umount", place])
    os.mkdir(place + "/space")
    if os.getuid() == 0:
        shutil.chown(place + "/space", "postgres", "postgres")
    peer = Peer(server.url())
    equal(peer.code("put", "r", 1, "old"), "OK")
    server.run("CREATE TABLESPACE small LOCATION '%s/space'" % place)

    def undo():
        server.run("DROP SCHEMA pawl CASCADE")
        server.run("DROP TABLESPACE small")
    after(undo)
    server.run("ALTER TABLE pawl.guard_data SET TABLESPACE small")
    server.run("ALTER TABLE pawl.guard_data ALTER data SET STORAGE EXTERNAL")
    codes = [peer.ask("put", "big%d" % i, 1, "x" * 1000000) for i in range(6)]
    equal(codes[-1][0], "FULL", codes)
    has(codes[-1][1], "its disk is full")
    equal(peer.code("put", "r", 2, "y" * 1000000), "FULL")
    equal(peer.ask("get", "r", 1), ("OK", "1 old"))


# ---- a pooler ------------------------------------------------------------------------------------------------------

@test
def a_pooler_that_gives_every_transaction_another_session_does_no_harm(server):
    if not shutil.which("pgbouncer"):
        raise Skipped("missing: pgbouncer")
    import socket
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    directory = tempfile.mkdtemp()
    after(shutil.rmtree, directory)
    os.chmod(directory, 0o755)
    with open(directory + "/users", "w", encoding="utf-8") as file:
        file.write('"postgres" ""\n')
    with open(directory + "/ini", "w", encoding="utf-8") as file:
        file.write("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"
                   "unix_socket_dir =\nauth_type = trust\nauth_file = %s/users\npool_mode = transaction\n"
                   "default_pool_size = 3\n" % (server.port, port, directory))
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    child = subprocess.Popen([*user, "pgbouncer", "-q", directory + "/ini"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after(child.wait)
    after(child.terminate)

    def answers():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0
    until(answers, "the pooler answers")
    peers = [Peer(server.url().replace(str(server.port), str(port)), 60000) for _ in range(6)]
    for token in range(1, 30):
        for peer in peers:
            peer.send("put", "r", token, token)
        equal({peer.answer()[0] for peer in peers}, {"OK"})
    equal({peer.code("admit", "r", 28) for peer in peers}, {"STALE"})
    equal(peers[0].ask("get", "r", 29), ("OK", "29 29"))


main()
