#!/usr/bin/env python3
"""input.py - what a PostgreSQL can refuse, and what its administrator can have set: passwords, TLS, rights, time limits, another
isolation, a disk that is full; and names that try to be more than names. Each refusal is a sentence of its own, without secrets."""
from pg import *

SOON = {"timeout": "2s"}


def refusal(url, code, says, name="a", patience=40, **more):
    """The sentence of an acquire that must be refused."""
    peer = Peer(url)
    answer = peer.acquire(name, patience=patience, **more) if peer.opened.code == OK else peer.opened
    require(answer.code in (code if isinstance(code, tuple) else (code,)), show(answer.code), answer.text)
    matches(answer.text, says)
    require(len(answer.text) > 15 and "\n" not in answer.text, "no sentence: %r" % answer.text)
    note(answer.text)
    equal(peer.leave(), 0)
    return answer.text


def works(url, name="a"):
    """A lock is taken, waited for, renewed and handed on."""
    holder, waiter = Peer(url), Peer(url)
    held = holder.acquire(name, ttl=4500)
    equal(held.code, OK, held.text)
    answer = waiter.acquire(name)
    equal(answer.code, BUSY, answer.text)
    waiter.request(name, ttl=LONG)
    time.sleep(6)
    equal(holder.check(), OK, "it is not renewed")
    require(not waiter.heard(), "two hold it")
    equal(holder.release(), OK)
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    for peer in holder, waiter:
        equal(peer.leave(), 0)


MODES = {}, {"mode": "advisory"}


# ---- who may -----------------------------------------------------------------------------------------------------------

def secure():
    """A server with TLS and passwords, and the URL of its worker."""
    name = "postgres-tls"
    if name not in Store.running:
        Store.running[name] = Postgres(name)
    store = Store.running[name]
    store.fresh()
    return store, store.base + "&prefix=" + store.prefix


@test
def a_password_with_signs_that_mean_something_in_a_url_is_understood():
    store, url = secure()
    for mode in MODES:
        works(url + "".join("&%s=%s" % pair for pair in mode.items()))


@test
def a_wrong_password_is_said_and_never_repeated():
    _, url = secure()
    text = refusal(re.sub("one%3A100[^@]*@", "secret7@", url), DENIED, "password|authenticat")
    require("secret7" not in text, text)
    text = refusal(re.sub("worker:[^@]*@", "nobody:secret7@", url), DENIED, "password|authenticat|role")
    require("secret7" not in text, text)


@test
def a_password_that_is_missing_is_said():
    _, url = secure()
    refusal(re.sub("worker:[^@]*@", "worker@", url), DENIED, "password|authenticat")


@test
def the_right_password_is_in_no_sentence_whatever_goes_wrong():
    store, url = secure()
    for wrong in (url.replace("/postgres?", "/nowhere?"), re.sub(r":\d+/", ":%d/" % free_port(), url),
                  url.replace("ca.crt", "nothing.crt"), url + "&nonsense=1"):
        peer = Peer(wrong + "&timeout=1s")
        answer = peer.acquire("a", patience=40) if peer.opened.code == OK else peer.opened
        require(answer.code != OK, wrong)
        for secret in ("one:100", "one%3A100", "100%"):
            require(secret not in answer.text, answer.text)
    done = pawl("ls", "-e", url.replace("/postgres?", "/nowhere?"))
    require(done.code != 0)
    require("one:100" not in done.errors + done.output and "one%3A" not in done.errors + done.output, done.errors)


# ---- TLS ---------------------------------------------------------------------------------------------------------------

def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    require(done.returncode == 0, words, done.stdout)


@test
def an_authority_that_did_not_sign_the_server_is_not_believed():
    _, url = secure()
    other = os.path.join(directory(), "other.crt")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=somebody else", "-keyout", other + ".key", "-out", other)
    refusal(re.sub("sslrootcert=[^&]*", "sslrootcert=" + other, url) + "&timeout=2s", (UNREACHABLE, DENIED), "certificate|verif")


@test
def a_certificate_for_another_host_is_not_believed():
    store = Postgres.new("postgres-tls")
    data, where = store.members[0].data, store.directory
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=elsewhere.example",
        "-keyout", "else.key", "-out", "else.csr", cwd=where)
    with open(os.path.join(where, "else.ext"), "w", encoding="utf-8") as file:
        file.write("subjectAltName=DNS:elsewhere.example\n")
    run("openssl", "x509", "-req", "-in", "else.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile",
        "else.ext", "-out", "else.crt", cwd=where)
    for ending in ("key", "crt"):  # into the files that are there: they keep their owner and their rights
        with open(os.path.join(where, "else." + ending), "rb") as source:
            with open(os.path.join(data, "server." + ending), "wb") as target:
                target.write(source.read())
    store("SELECT pg_reload_conf()")
    url = store.base + "&prefix=" + store.prefix + "&timeout=2s"
    eventually(lambda: Peer(url).acquire("a", patience=40).code != OK, "it still shows the old one")
    refusal(url, (UNREACHABLE, DENIED), "certificate|host")
    works(url.replace("verify-full", "verify-ca"))


@test
def a_server_that_wants_tls_is_not_spoken_to_in_the_clear():
    _, url = secure()
    refusal(re.sub(r"\?.*", "?sslmode=disable&timeout=2s", url), (UNREACHABLE, DENIED), "TLS|SSL|encryption|pg_hba")


@test
def a_server_without_tls_is_refused_by_who_wants_it():
    store = Postgres.one()
    refusal(store.url(sslmode="require", **SOON), (UNREACHABLE, DENIED), "TLS|SSL")


# ---- rights ------------------------------------------------------------------------------------------------------------

@test
def a_role_that_may_only_call_is_all_it_takes():
    store = Postgres.new("postgres-role")
    works(store.url(user="worker"))
    refusal(store.url(user="worker", mode="advisory"), DENIED, "advisory_token")
    store("GRANT USAGE ON SEQUENCE pawl.advisory_token TO worker")
    works(store.url(user="worker", mode="advisory"))
    done = pawl("ls", "-e", store.url(user="worker"))
    equal(done.code, 0, done.errors)
    equal(pawl("run", "-e", store.url(user="worker"), "a", "true").code, 0)


@test
def a_schema_that_may_not_be_made_is_said_with_what_to_do():
    store = Postgres.one()
    base = store.database("bare")
    user = store.role("newcomer")
    for mode in MODES:
        text = refusal(store.url(user=user, database=base, **mode), DENIED, "schema|permission|may not|create")
        matches(text, "engines --sql|administrator")


@test
def a_schema_that_may_not_be_entered_is_said():
    store = Postgres.one()
    equal(warmed(store.url()).leave(), 0)
    user = store.role("outsider")
    for mode in MODES:
        refusal(store.url(user=user, **mode), DENIED, "schema|permission|denied|may not")


@test
def a_function_that_may_not_be_called_is_said():
    store = Postgres.new()
    equal(warmed(store.url()).leave(), 0)
    store("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC")
    user = store.role("onlooker", "USAGE ON SCHEMA pawl")
    refusal(store.url(user=user), DENIED, "permission|denied|may not|right")


@test
def a_value_that_may_not_be_kept_is_said_and_costs_no_lock():
    store = Postgres.new("postgres-role")
    store("REVOKE EXECUTE ON FUNCTION pawl.store_value FROM worker, PUBLIC")
    holder = Peer(store.url(user="worker"))
    equal(holder.acquire("a", ttl=LONG).code, OK)
    equal(holder.ask("store something").code, DENIED)
    equal(holder.check(), OK)
    store("GRANT EXECUTE ON FUNCTION pawl.store_value TO worker")
    equal(holder.ask("store something").code, OK)
    equal(holder.release(), OK)


@test
def a_schema_of_the_version_before_is_made_as_new_by_who_may_and_others_are_told_in_a_sentence():
    store = Postgres.new()
    store(older_schema(1))
    user = store.role("worker", "USAGE ON SCHEMA pawl", "EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl",
                      "USAGE ON SEQUENCE pawl.advisory_token")
    for mode in MODES:
        refusal(store.url(user=user, **mode), OTHER_VERSION, "version 1, this needs 4, and the role may not change it: let its owner")
        refusal(store.url(create="no", **mode), OTHER_VERSION, "version 1, this needs 4, and create=no: let its owner")
    equal(store("SELECT pawl.lock_version()"), [(1,)])
    works(store.url())
    equal(store("SELECT pawl.lock_version(), pawl.serves_since()"), [(4, 1)])
    for mode in MODES:
        holder = Peer(store.url(user=user, **mode))
        equal(holder.acquire("a", ttl=LONG).code, OK, holder.ask("why").text)
        equal(holder.ask("store something").code, OK, holder.ask("why").text)
        equal(holder.release(), OK)
    for function in "lock_version", "serves_since":
        store("CREATE OR REPLACE FUNCTION pawl.%s() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 5'" % function)
    refusal(store.url(), OTHER_VERSION, "version 5, which does not serve")


@test
def a_right_that_is_taken_away_while_a_lock_is_held_is_a_loss_in_time():
    store = Postgres.new("postgres-role")
    holder = Peer(store.url(user="worker"))
    held = holder.acquire("a", ttl=2000)
    equal(held.code, OK, held.text)
    store("REVOKE ALL ON SCHEMA pawl FROM worker")
    store("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl FROM worker, PUBLIC")
    eventually(lambda: holder.check() == LOST, "it believes in a lock that it may not renew")
    refusal(store.url(user="worker", **SOON), DENIED, "permission|denied|may not|schema")
    got = Peer(store.url()).acquire("a", wait=20000, patience=40)
    equal(got.code, OK, got.text)
    require(got.token > held.token)


@test
def a_database_that_is_not_there_is_said_with_its_name():
    store = Postgres.one()
    refusal(store.url(database="nowhere", **SOON), NOT_FOUND, "nowhere")


@test
def no_more_connections_is_said_and_passes():
    store = Postgres.one()
    user = store.role("crowded", options="LOGIN CONNECTION LIMIT 0")
    base = store.database("crowded", "CONNECTION LIMIT 0")
    worker = store.role("latecomer")
    refusal(store.url(user=user, **SOON), UNREACHABLE, "connections.*crowded")
    refusal(store.url(user=worker, database=base, **SOON), UNREACHABLE, "connections.*crowded")
    store("ALTER DATABASE %s ALLOW_CONNECTIONS false" % base)
    refusal(store.url(user=worker, database=base, **SOON), UNREACHABLE, "crowded.*not currently accepting")


@test
def a_client_that_pg_hba_rejects_is_denied():
    store = Postgres.new()
    store("SELECT 1")
    with open(os.path.join(store.members[0].data, "pg_hba.conf"), "w", encoding="utf-8") as file:
        file.write("local all all trust\nhost postgres all all reject\n")
    store("SELECT pg_reload_conf()")
    eventually(lambda: Peer(store.url(**SOON)).acquire("a").code != OK, "it is still let in")
    refusal(store.url(**SOON), DENIED, "rejects")
    refusal(store.url(database="template1", **SOON), DENIED, "pg_hba")


@test
def a_program_whose_name_is_not_utf8_gets_its_locks():
    """Whoever holds a lock is written beside it, with the name of the program. One is cut within a letter."""
    store = Postgres.one()
    for name in (b"caf\xe9", b"x" * 39 + "\u00e4".encode(), "\u00e4".encode()):
        done = subprocess.run([name, "run", "-n", "-e", store.url(), "a", "--", "true"], executable=PAWL, stderr=subprocess.PIPE,
                              check=False, timeout=PATIENCE * 2)
        equal(done.returncode, 0, done.stderr)
    owners = [owner.split(":")[2] for owner, in store("SELECT (unnest(past)).owner FROM pawl.lock WHERE name = %s", store.prefix + "a")]
    equal(owners, ["\u00e4", "x" * 39 + "?", "caf?"])


# ---- what an administrator may have set ----------------------------------------------------------------------------------

def set_for(setting, value):
    """The URL's parts for a role for whom this is set. A superuser: rights are not what this is about."""
    store = Postgres.one()
    user = store.role("kept", options="LOGIN SUPERUSER")
    store("ALTER ROLE kept SET %s = '%s'" % (setting, value))
    return store, user


@test(within=120)
def whatever_isolation_transactions_have_by_default_locks_work():
    for level in ("serializable", "repeatable read"):
        store, user = set_for("default_transaction_isolation", level)
        for mode in MODES:
            works(store.url(user=user, **mode))
        end_all()


@test
def transactions_that_are_read_only_by_default_are_said_to_be_that_and_not_a_standby():
    store, user = set_for("default_transaction_read_only", "on")
    for mode in MODES:
        peer = Peer(store.url(user=user, **SOON, **mode))
        answer = peer.acquire("a", patience=40)
        equal(answer.code, UNREACHABLE, answer.text)
        matches(answer.text, "read-only .default_transaction_read_only = on")
        require("standby" not in answer.text, answer.text)


@test(within=120)
def time_limits_for_statements_and_locks_cost_no_waiting():
    for setting in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        store, user = set_for(setting, "300ms")
        for mode in MODES:
            works(store.url(user=user, **mode))
        end_all()


@test
def another_search_path_and_functions_of_the_same_names_are_not_taken_for_ours():
    """Somebody has put his own before: they must not be called, least of all with our rights."""
    store = Postgres.one()
    equal(warmed(store.url()).leave(), 0)
    user = store.role("misled", "ALL ON SCHEMA public", options="LOGIN SUPERUSER")
    store("ALTER ROLE misled SET search_path = public, pg_catalog")
    at_end(lambda: store("DROP FUNCTION IF EXISTS public.clock_timestamp(), public.lock_version(); DROP TABLE public.lock"))
    store("CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '1970-01-01'::timestamptz $$")
    store("CREATE FUNCTION public.lock_version() RETURNS int LANGUAGE sql AS $$ SELECT 99 $$")
    store("CREATE TABLE public.lock (name text)")
    for mode in MODES:
        works(store.url(user=user, **mode))
    equal(store("SELECT count(*) FROM public.lock"), [(0,)])


@test
def settings_for_how_values_are_written_change_nothing():
    for setting, value in (("DateStyle", "SQL, DMY"), ("standard_conforming_strings", "off"), ("bytea_output", "escape"),
                           ("client_encoding", "LATIN1"), ("IntervalStyle", "iso_8601"), ("TimeZone", "Pacific/Chatham")):
        store, user = set_for(setting, value)
        peer = Peer(store.url(user=user))
        name = "ä€\\'" + setting
        answer = peer.acquire(name)
        equal(answer.code, OK, setting, answer.text)
        equal(Peer(store.url()).acquire(name).code, BUSY, "for others it is called otherwise", setting)
        equal(peer.release(), OK)
        end_all()


# ---- a full disk ---------------------------------------------------------------------------------------------------------

def mounted(megabytes):
    """A small disk of the test's own. Only root may."""
    place = directory()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm" % megabytes, "tmpfs", place], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        return None, done.stdout
    at_end(lambda: subprocess.run(["umount", "-l", place], check=False))
    return place, None


@test(within=120)
def a_disk_that_is_full_grants_nothing_that_is_not_written_and_when_there_is_room_all_goes_on():
    place, problem = mounted(96)
    if not place:
        note("not tried: %s" % problem)
        return
    store = Postgres("postgres")
    at_end(store.down)
    store.fresh()
    server = store.members[0]
    equal(warmed(store.url()).leave(), 0)
    server.end(signal.SIGINT)
    run("chown", "postgres:postgres", place)
    os.chmod(os.path.dirname(place), 0o755)
    run("cp", "-a", server.data + "/.", place)
    server.command[server.command.index("-D") + 1] = place
    run("sed", "-i", "s|^unix_socket_directories.*|unix_socket_directories = '%s'|" % place, place + "/postgresql.conf")
    server.start()
    eventually(server.answers, store.log)
    peer = warmed(store.url(**SOON))
    last = peer.acquire("a").token
    equal(peer.release(), OK)
    filler = os.path.join(place, "filler")
    subprocess.run(["dd", "if=/dev/zero", "of=" + filler, "bs=64k"], stderr=subprocess.DEVNULL, check=False)
    said, greatest, granted = "", last, 0
    for number in range(30000):  # until the log or a table has to grow
        answer = peer.acquire("a%d" % number, wait=5000, patience=40)
        if answer.code != OK:
            said = answer.text
            break
        require(answer.token > 0)
        greatest, granted = max(greatest, answer.token), granted + 1
        code = peer.release()
        if code != OK:
            said = said or show(code)
            break
    require(said, "it is not full")
    note("%d grants, then: %s" % (granted, said))
    os.remove(filler)
    if not alive(server.pid):  # a log that cannot be written ends the server
        server.process.wait()
        server.dead = True
        server.start()
    eventually(server.answers, store.log, patience=40)
    again = eventually(lambda: (lambda got: got.code == OK and got)(peer.acquire("a", wait=10000, patience=40)), patience=60)
    require(again.token > last, "a token came again")
    equal(peer.release(), OK)
    nothing_is_left(store)


# ---- names -------------------------------------------------------------------------------------------------------------

ODD = ("a", "A", "'", "''", '"', "\\", "\\'", "';DROP/**/TABLE/**/pawl.lock;--", "$1", "$$", "%s", "%", "_", "a%", "%61", "a_b", "a/b",
       "../..", ".", "E'\\x'", "ä", "a\u0308", "€", "\U0001f512", "x" * 200, "\\x41", "{a,b}", "(a)", "NULL", "null", "--", "a;b", "\u200b")


@test(within=120)
def names_are_only_names():
    store = Postgres.one()
    for mode in MODES:
        holders = []
        for name in ODD:
            peer = Peer(store.url(**mode))
            answer = peer.acquire(name)
            equal(answer.code, OK, name, answer.text)
            holders.append(peer)
        for name in ODD:
            equal(Peer(store.url(**mode)).acquire(name).code, BUSY, name)
        if not mode:
            done = pawl("ls", "-e", store.url(), "--json")
            equal(done.code, 0, done.errors)
            equal(sorted(line["name"] for line in json.loads(done.output)), sorted(ODD))
        for peer in holders:
            equal(peer.release(), OK)
            equal(peer.leave(), 0)


@test
def a_prefix_is_only_a_prefix_and_sets_names_apart():
    store = Postgres.one()
    for prefix in ("';DROP TABLE pawl.lock;--", '"', "\\", "%", "$1", "ä "):
        one, two, same = [Peer(store.url(prefix=encoded(store.prefix + each))) for each in (prefix, prefix + "x", prefix)]
        equal(one.acquire("a").code, OK, prefix)
        equal(two.acquire("a").code, OK, prefix)
        equal(same.acquire("a").code, BUSY, prefix)
        done = pawl("ls", "-e", store.url(prefix=encoded(store.prefix + prefix)))
        matches(done.output, r"(?m)^a\b", done.errors)
        for peer in one, two, same:
            peer.leave()
    whole = Peer(store.url(prefix=store.prefix + "b/"))
    equal(whole.acquire("a").code, OK)
    equal(Peer(store.url()).acquire("b/a").code, BUSY, "a prefix and a name are one name")


@test(within=120)
def a_schema_sets_locks_apart():
    store = Postgres.one()
    for schema in ("other", "select", "x" * 63):
        at_end(lambda schema=schema: store('DROP SCHEMA IF EXISTS "%s" CASCADE' % schema))
        one, two, same = Peer(store.url()), Peer(store.url(schema=schema)), Peer(store.url(schema=schema))
        equal(one.acquire("a").code, OK)
        answer = two.acquire("a")
        equal(answer.code, OK, schema, answer.text)
        equal(same.acquire("a").code, BUSY, schema)
        equal(store("SELECT count(*) FROM pg_namespace WHERE nspname = %s", schema), [(1,)])
        for peer in one, two, same:
            peer.leave()
        works(store.url(schema=schema, mode="advisory"))


@test
def what_is_no_name_of_a_schema_is_refused_before_anything_is_asked():
    store = Postgres.one()
    for schema in ("", "pg_locks", "Other", 'o"; DROP SCHEMA pawl CASCADE; --', "o'x", "ä b", "1st", "a.b", "x" * 64, "$user"):
        peer = Peer(store.url(schema=encoded(schema)))
        equal(peer.opened.code, INVALID, schema, peer.opened.text)
        matches(peer.opened.text, "schema")


@test
def two_databases_do_not_exclude_each_other():
    store = Postgres.one()
    base = store.database("second")
    for mode in MODES:
        one, two, same = Peer(store.url(**mode)), Peer(store.url(database=base, **mode)), Peer(store.url(database=base, **mode))
        equal(one.acquire("a").code, OK)
        answer = two.acquire("a")
        equal(answer.code, OK, answer.text)
        equal(same.acquire("a").code, BUSY)
        for peer in one, two, same:
            equal(peer.leave(), 0)


@test
def names_that_a_database_cannot_write_are_refused_or_stay_apart():
    store = Postgres.one()
    base = store.database("narrow", "ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    held = []
    for name in ("ä", "€", "\U0001f512", "?"):
        peer = Peer(store.url(database=base))
        answer = peer.acquire(name)
        if answer.code == OK:
            held.append(peer)
        else:
            require(answer.code in (INVALID, UNSUPPORTED), show(answer.code), answer.text)
            require(len(answer.text) > 15, answer.text)
            note(answer.text)
    require(len(held) >= 2, "not even letters that it has")


@test(within=120)
def many_who_come_first_at_once_find_one_schema():
    store = Postgres.one()
    base = store.database("fresh")
    arrivals = [Peer(store.url(database=base)) for _ in range(12)]
    for peer in arrivals:
        peer.request("a", wait=40000)
    seen = []
    for _ in arrivals:
        winner = eventually(lambda: next((peer for peer in arrivals if peer not in [each for each, _ in seen] and peer.heard()), None))
        got = winner.hear()
        equal(got.code, OK, winner.ask("why").text)
        seen.append((winner, got.token))
        require(not [peer for peer in arrivals if peer not in [each for each, _ in seen] and peer.heard()], "two hold it")
        equal(winner.release(), OK)
    tokens = [token for _, token in seen]
    equal(tokens, sorted(set(tokens)))


# ---- servers that are none -----------------------------------------------------------------------------------------------

@test
def nobody_there_is_said_with_the_address():
    port = free_port()
    for mode in ("", "&mode=advisory"):
        refusal("postgres://postgres@127.0.0.1:%d/postgres?timeout=1s%s" % (port, mode), UNREACHABLE, str(port))


@test
def a_name_that_does_not_resolve_is_said():
    refusal("postgres://postgres@no-such-host.invalid/postgres?timeout=3s", UNREACHABLE, "no-such-host.invalid")


@test
def a_server_that_is_no_postgres_is_never_believed():
    message = b"R\0\0\0\x08\0\0\0\0"
    for data in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n", b"\0" * 9, b"\xff" * 100, b"N", b"S", b"E\0\0\0\x04", message,
                 message + b"Z\0\0\0\x05I", message + b"K\0\0\0\x0c\0\0\0\1\0\0\0\2Z\0\0\0\x05I", b"R\0\0\0\x08\0\0\0\x63", b""):
        def serve(connection, data=data):
            connection.recv(4096)
            connection.sendall(data)
            connection.recv(65536)
        peer = Peer("postgres://postgres@127.0.0.1:%d/postgres?timeout=1s" % Listener(serve).port)
        answer = peer.acquire("a", patience=40) if peer.opened.code == OK else peer.opened
        require(answer.code != OK, "%r was believed" % data)
        require(len(answer.text) > 15, "%r: no sentence: %s %r" % (data, show(answer.code), answer.text))
        peer.leave()


@test
def urls_that_say_nothing_sensible_are_refused_before_anything_is_asked():
    for url in ("postgres://127.0.0.1:99999/postgres", "postgres://127.0.0.1/postgres?nonsense=1",
                "postgres://127.0.0.1/postgres?timeout=soon", "postgres://127.0.0.1/postgres?mode=loud",
                "postgres://127.0.0.1/postgres?schema=", "postgres://127.0.0.1/postgres?pooler=maybe"):
        peer = Peer(url)
        equal(peer.opened.code, INVALID, url, peer.opened.text)
        require(len(peer.opened.text) > 10, url, peer.opened.text)


main(missing("postgres", "postgres-tls", "postgres-role"))
