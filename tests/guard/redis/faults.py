#!/usr/bin/env python3
"""faults.py - the guard on servers that are killed, full, read-only, slow, damaged or not theirs: each has its code and its
sentence, and nothing passes that should not."""
from guards import *

AOF = ("--appendonly", "yes", "--appendfsync", "always")


def unable(reply, code, pattern):
    equal(reply.code, code, reply.text)
    matches(reply.text, pattern)


@test
def marks_and_data_outlive_a_killed_server_that_logs_each_write():
    server = Server(*AOF)
    guard = Guard(place(server))
    for token in range(1, 40):
        equal(guard.put("r", token, "of %d" % token).code, OK)
        if token % 10 == 0:
            server.restart()
            equal(guard.put("r", token - 1, "late").code, STALE)
            reply = guard.get("r", token)
            equal((reply.code, reply.number, reply.data), (OK, token, b"of %d" % token))
    equal(guard.prune(39).code, OK)
    server.restart()
    equal(guard.admit("new", 38).code, STALE)


@test
def a_server_that_forgets_its_data_forgets_its_marks():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 9, "nine").code, OK)
    server("FLUSHALL")
    equal(guard.put("r", 8, "eight").code, OK)
    server.restart()
    equal(guard.put("r", 7, "seven").code, OK)


@test
def a_replica_admits_nothing_not_even_what_it_knows():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "five").code, OK)
    replica = Server("--replicaof", "127.0.0.1 %d" % server.port)
    eventually(lambda: replica("GET", "pawl:mark:data:r") == "5")
    late = Guard(place(replica))
    for token in 5, 6:
        unable(late.admit("r", token), UNREACHABLE, "read-only replica")
        unable(late.get("r", token), UNREACHABLE, "read-only replica")
        unable(late.put("r", token, "x"), UNREACHABLE, "read-only replica")
    unable(late.prune(9), UNREACHABLE, "read-only replica")
    equal(late.list(), {"r": (5, OK)})


@test
def a_guard_leaves_a_primary_that_was_demoted():
    old, new = Server(), Server()
    new("REPLICAOF", "127.0.0.1", old.port)
    address = Cutter(old)  # one address; it cuts nothing
    guard = Guard(place(address))
    for token, (primary, replica) in enumerate(((old, new), (new, old), (old, new)), 5):
        equal(guard.put("r", token, "of %d" % token).code, OK)
        eventually(lambda: replica("GET", "pawl:mark:data:r") == str(token))
        address.server = replica
        replica("REPLICAOF", "NO", "ONE")
        primary("REPLICAOF", "127.0.0.1", replica.port)
        reply = guard.put("r", token, "again")
        equal(reply.code, OK, reply.text)
        equal(guard.admit("r", token - 1).code, STALE)


@test
def a_server_without_enough_replicas_admits_nothing():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "five").code, OK)
    server("CONFIG", "SET", "min-replicas-to-write", 1)
    for token in 5, 6:
        unable(guard.admit("r", token), UNREACHABLE, "fewer replicas")
        unable(guard.put("r", token, "x"), UNREACHABLE, "fewer replicas")
    server("CONFIG", "SET", "min-replicas-to-write", 0)
    equal(guard.get("r", 5).number, 5)


@test
def a_server_without_memory_admits_nothing_and_changes_nothing():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "five").code, OK)
    server("CONFIG", "SET", "maxmemory", 1)
    for token in 5, 6:
        unable(guard.admit("r", token), FULL, "no memory left")
        unable(guard.put("r", token, "x"), FULL, "no memory left")
        unable(guard.put("new", token, "x"), FULL, "no memory left")
    unable(guard.prune(9), FULL, "no memory left")
    server("CONFIG", "SET", "maxmemory", 0)
    reply = guard.get("r", 5)
    equal((reply.code, reply.number, reply.data), (OK, 5, b"five"))
    equal(server("EXISTS", "data:new", "pawl:mark:data:new", "pawl:floor:data:"), 0)


@test
def a_server_that_cannot_save_admits_nothing():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "five").code, OK)
    os.mkdir(os.path.join(server.directory, "dump.rdb"))
    server("CONFIG", "SET", "save", "3600 1")
    server("BGSAVE")
    eventually(lambda: "rdb_last_bgsave_status:err" in server("INFO", "persistence"))
    for token in 5, 6:
        unable(guard.admit("r", token), FULL, "cannot save")
        unable(guard.put("r", token, "x"), FULL, "cannot save")
    server("CONFIG", "SET", "save", "")
    equal(guard.get("r", 5).data, b"five")


@test
def who_may_not_is_told_so():
    server = Server()
    server("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+eval", "+evalsha")
    server("ACL", "SETUSER", "other", "on", ">secret", "~other:*", "+@all")
    server("CONFIG", "SET", "requirepass", "everybody")
    server.plain = False
    at = "127.0.0.1:%d" % server.port
    unable(Guard("redis://" + at).admit("r", 5), DENIED, "wants a password")
    unable(Guard("redis://reader:wrong@" + at).admit("r", 5), DENIED, "refuses the user or the password")
    reader = Guard("redis://reader:secret@" + at)
    for reply in reader.admit("r", 5), reader.put("r", 5, "x"), reader.get("r", 5), reader.prune(5):
        unable(reply, DENIED, "may not")
    unable(Guard("redis://other:secret@" + at).admit("r", 5), DENIED, "may not")
    equal(Guard("redis://:everybody@" + at).put("r", 5, "x").code, OK)


@test
def a_user_with_the_documented_rights_is_enough():
    server = Server()
    server("ACL", "SETUSER", "worker", "on", ">secret", "~data:*", "~pawl:mark:data:*", "~pawl:floor:data:*",
           "~pawl:line:data:*", "~pawl:swap:data:*", *"+eval +evalsha +select +get +set +strlen +del +scan".split())
    guard = Guard("redis://worker:secret@127.0.0.1:%d" % server.port)
    equal(guard.put("r", 5, "x").code, OK)
    equal(guard.get("r", 6).data, b"x")
    equal(guard.list(), {"r": (6, OK)})
    equal(guard.forget("r", 6).code, OK)
    equal(guard.admit("r", 1).code, OK)
    equal(guard.prune(5).number, 1)


@test
def a_server_that_is_loading_is_waited_for():
    server = Server()
    guard = Guard(place(server), wait=60000)
    equal(guard.put("r", 5, "five").code, OK)
    for number in range(500):
        server("SET", "filler%d" % number, "x" * 100)
    server("SAVE")
    server.kill()
    server.start("--key-load-delay", "3000", "--loading-process-events-interval-bytes", "1024", wait=False)

    def loading():
        try:
            return "LOADING" in refused(server, "GET", "data:r")
        except OSError:
            return False

    eventually(loading)
    equal(Guard(place(server), wait=60000).admit("r", 4).code, STALE)
    equal(guard.put("r", 6, "six").code, OK)


@test
def a_server_that_is_busy_with_a_script_is_waited_for():
    server = Server("--lua-time-limit", "20")
    guard = Guard(place(server), wait=60000)
    equal(guard.put("r", 5, "five").code, OK)
    endless = server.connect()
    endless.send("EVAL", "while true do end", 0)

    def busy():
        try:
            return server("GET", "data:r") and False
        except Refused as error:
            return "BUSY" in str(error)

    eventually(busy)
    guard.tell("put", "r", 6, "six")
    time.sleep(0.3)
    server("SCRIPT", "KILL")
    reply = guard.hear()
    equal(reply.code, OK, reply.text)
    equal(server("GET", "data:r"), "six")


@test
def what_is_no_string_is_left_alone():
    server = Server()
    guard = Guard(place(server))
    server("HSET", "data:r", "field", "value")
    unable(guard.put("r", 5, "x"), CORRUPT, "no string")
    equal(server("EXISTS", "pawl:mark:data:r"), 0)
    unable(guard.get("r", 5), CORRUPT, "no string")
    equal(server("HGET", "data:r", "field"), "value")


@test
def a_damaged_mark_is_never_a_pass():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "five").code, OK)
    for damage in "", "x", "0", "-3", "05", "5 ", "5\n", "1e3", str(2**63), "9" * 40:
        server("SET", "pawl:mark:data:r", damage)
        for reply in (guard.admit("r", LARGEST), guard.put("r", LARGEST, "x"), guard.get("r", LARGEST),
                      guard.forget("r", LARGEST)):
            unable(reply, CORRUPT, "damaged.*pawl:mark:data:r")
        equal(guard.list(), {"r": (0, CORRUPT)}, damage)
        equal(guard.prune(4).number, 0)
        equal(server("GET", "pawl:mark:data:r"), damage)
    equal(server("GET", "data:r"), "five")
    server("DEL", "pawl:mark:data:r")
    server("RPUSH", "pawl:mark:data:r", "5")
    for reply in guard.admit("r", 5), guard.put("r", 5, "x"), guard.get("r", 5), guard.forget("r", 5):
        unable(reply, CORRUPT, "damaged")
    equal(guard.list(), {"r": (0, CORRUPT)})
    equal(guard.prune(4).number, 0)
    equal(server("TYPE", "pawl:mark:data:r"), "list")


@test
def a_damaged_floor_is_never_a_pass():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("known", 5, "five").code, OK)
    server("SET", "pawl:floor:data:", "x")
    unable(guard.admit("new", 5), CORRUPT, "damaged")
    unable(guard.put("new", 5, "x"), CORRUPT, "damaged")
    unable(guard.prune(9), CORRUPT, "damaged")
    equal(guard.admit("known", 5).code, OK)
    equal(server("GET", "pawl:floor:data:"), "x")


def arrived(server, recorder, *words):
    """How many requests with these words have come in so far."""
    marker = os.urandom(8).hex()
    server("ECHO", marker)
    eventually(lambda: any(marker in line for _, line in recorder.lines))
    return sum(address != "lua" and all(word in line for word in words) for address, line in recorder.lines)


@test
def a_put_that_comes_late_does_not_undo_what_came_after_it():
    """The network keeps a put back. It is given up and sent on another connection; then another one is, with the same token."""
    server = Server()
    gate = Gate(server)
    guard = Guard(place(server, port=gate.port, timeout="1s"))
    equal(guard.put("r", 5, "before").code, OK)
    recorder = Recorder(server)
    for number in range(3):
        gate.hold()
        reply = guard.put("r", 5, "late %d" % number)
        equal(reply.code, OK, reply.text)
        equal(guard.put("r", 5, "after %d" % number).code, OK)
        before = arrived(server, recorder, "late %d" % number)
        gate.let_go()
        eventually(lambda: arrived(server, recorder, "late %d" % number) > before)
        equal(server("GET", "data:r"), "after %d" % number)


@test
def a_forget_that_comes_late_forgets_nothing():
    server = Server()
    gate = Gate(server)
    guard = Guard(place(server, port=gate.port, timeout="1s"))
    equal(guard.put("r", 5, "x").code, OK)
    equal(guard.forget("r", 5).code, OK)
    equal(guard.put("r", 5, "x").code, OK)
    recorder = Recorder(server)
    gate.hold()
    equal(guard.forget("r", 5).code, OK)
    equal(guard.admit("r", 5).code, OK)
    before = arrived(server, recorder, "EVALSHA", "pawl:line:")
    gate.let_go()
    eventually(lambda: arrived(server, recorder, "EVALSHA", "pawl:line:") > before)
    equal(server("GET", "pawl:mark:data:r"), "5")


@test(within=120)
def a_server_that_stands_still_leaves_a_put_in_doubt_and_the_next_one_is_not():
    server = Server()
    guard = Guard(place(server, timeout="1s"), wait=1500)
    equal(guard.put("r", 5, "before").code, OK)
    for number in range(3):
        server.stop()
        unable(guard.put("r", 5, "doubtful %d" % number), IN_DOUBT, "not known whether it was done")
        server.go_on()
        eventually(lambda: guard.put("r", 5, "after %d" % number).code == OK)
        equal(server("GET", "data:r"), "after %d" % number)


@test
def a_put_whose_reply_is_lost_is_done_once():
    """Somebody else's write stands in between: it must not be overwritten by a second try of what was done."""
    server = Server()
    cutter = Cutter(server)
    guard = Guard(place(server, port=cutter.port))
    equal(guard.put("r", 5, "x" * 50).code, OK)
    recorder = Recorder(server)
    cutter.set_cut("in", 0)
    equal(guard.put("r", 5, "once").code, OK)
    equal(server("GET", "data:r"), "once")
    eventually(lambda: any("GET" in line and "data:r" in line for _, line in recorder.lines))
    writes = [line for address, line in recorder.lines if address == "lua" and '"SET" "data:r"' in line]
    equal(len(writes), 1, recorder.lines)


@test
def a_put_that_was_done_and_then_overtaken_is_told_as_done():
    """Its reply is cut off, and the next connection comes up only when a newer holder has been here."""
    server = Server()
    gate = Gate(server)
    guard, newer = Guard(place(server, port=gate.port)), Guard(place(server))
    equal(guard.put("r", 5, "x").code, OK)
    gate.answer = False
    gate.shut()
    guard.tell("put", "r", 5, "mine")
    eventually(lambda: server("GET", "data:r") == "mine")
    equal(newer.admit("r", 6).code, OK)
    gate.answer = True
    gate.cut_all()
    gate.open()
    reply = guard.hear()
    equal(reply.code, OK, reply.text)
    equal(guard.put("r", 5, "late").code, STALE)


@test
def a_put_that_was_not_done_and_then_overtaken_is_stale():
    """Here it is the request that never arrives."""
    server = Server()
    gate = Gate(server)
    guard, newer = Guard(place(server, port=gate.port)), Guard(place(server))
    equal(guard.put("r", 5, "x").code, OK)
    gate.hold()
    gate.shut()
    guard.tell("put", "r", 5, "mine")
    time.sleep(0.2)
    equal(newer.admit("r", 6).code, OK)
    gate.cut_all()
    gate.open()
    reply = guard.hear()
    equal(reply.code, STALE, reply.text)
    gate.let_go()
    equal(server("GET", "data:r"), "x")


@test
def a_put_whose_line_was_lost_as_well_is_in_doubt():
    server = Server()
    gate = Gate(server)
    guard, newer = Guard(place(server, port=gate.port)), Guard(place(server))
    equal(guard.put("r", 5, "x").code, OK)
    gate.answer = False
    gate.shut()
    guard.tell("put", "r", 5, "mine")
    eventually(lambda: server("GET", "data:r") == "mine")
    for line in server.keys("pawl:line:*"):
        server("DEL", line)
    equal(newer.admit("r", 6).code, OK)
    gate.answer = True
    gate.cut_all()
    gate.open()
    unable(guard.hear(), IN_DOUBT, "not known whether it was done.*STALE")


@test
def a_cut_connection_a_lost_script_and_a_lost_line_are_nothing():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "x").code, OK)
    for number in range(5):
        server("CLIENT", "KILL", "TYPE", "normal")
        equal(guard.put("r", 5, "cut %d" % number).code, OK)
        server("SCRIPT", "FLUSH")
        equal(guard.put("r", 5, "flushed %d" % number).code, OK)
        for line in server.keys("pawl:line:*"):
            server("DEL", line)
        equal(guard.put("r", 5, "no line %d" % number).code, OK)
        equal(server("GET", "data:r"), "no line %d" % number)


@test
def a_server_that_is_not_there_is_told_at_once_and_one_that_comes_back_is_waited_for():
    server = Server(*AOF)
    server.kill()
    guard = Guard(place(server), wait=60000)
    unable(guard.admit("r", 5), UNREACHABLE, "refused")
    server.start()
    equal(guard.admit("r", 5).code, OK)
    server.kill()
    guard.tell("put", "r", 5, "x")
    time.sleep(0.5)
    server.start()
    reply = guard.hear()
    equal(reply.code, OK, reply.text)
    server.kill()
    unable(Guard(place(server), wait=300).put("r", 5, "x"), UNREACHABLE, "refused")


@test
def a_server_that_does_not_answer_is_given_up_in_time():
    server = Server()
    guard = Guard(place(server, timeout="1s"), wait=1500)
    equal(guard.admit("r", 5).code, OK)
    server.stop()
    unable(guard.admit("r", 6), UNREACHABLE, "no answer|in time")
    unable(guard.get("r", 6), UNREACHABLE, "no answer|in time")
    server.go_on()
    eventually(lambda: guard.admit("r", 6).code == OK)


@test
def a_server_with_as_many_clients_as_it_takes_says_so():
    server = Server()
    server("CONFIG", "SET", "maxclients", 1)
    keeper = server.connect()
    keeper("PING")
    guard = Guard(place(server))
    eventually(lambda: "as many clients as it takes" in guard.admit("r", 5).text)  # unless the end comes before the word
    equal(guard.admit("r", 5).code, UNREACHABLE)


@test
def what_is_no_redis_is_not_believed():
    for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*99999999\r\n", b"$-5\r\n", b":1\r\n",
                  b"*2\r\n$1\r\nx\r\n:5\r\n"):
        def talk(client, words=words):
            client.recv(100)
            client.sendall(words)
            client.recv(65536)

        listener = Listener(talk)
        guard = Guard("redis://127.0.0.1:%d?timeout=500ms" % listener.port, wait=1000)
        for reply in guard.admit("r", 5), guard.put("r", 5, "x"), guard.get("r", 5):
            require(reply.code not in (OK, STALE, NOT_FOUND), words, reply)


@test
def a_cluster_needs_a_prefix_with_a_tag():
    server = cluster_node()
    server("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    eventually(lambda: "cluster_state:ok" in server("CLUSTER", "INFO"))
    unable(Guard(place(server)).put("r", 5, "x"), UNSUPPORTED, "hash tag")
    guard = Guard(place(server, prefix="{data}:"))
    equal(guard.put("r", 5, "x").code, OK)
    equal(guard.put("r", 4, "late").code, STALE)
    equal(guard.list(), {"r": (5, OK)})
    equal(guard.prune(5).number, 1)
    equal(guard.get("r", 5).data, b"x")
    server("CLUSTER", "DELSLOTSRANGE", 0, 16383)
    reply = guard.put("r", 6, "x")
    require(reply.code in (UNREACHABLE, UNSUPPORTED), reply)


@test
def many_marks_are_listed_once_each_while_connections_are_cut():
    server = Server()
    cutter = Cutter(server)
    guard = Guard(place(server, port=cutter.port))
    for number in range(3000):
        server("SET", "pawl:mark:data:r%d" % number, number + 1)
        server("SET", "data:other%d" % number, "x")
    stopped = []

    def cut():
        while not stopped:
            time.sleep(0.004)
            cutter.cut_all()

    thread = threading.Thread(target=cut, daemon=True)
    thread.start()
    try:
        for _ in range(3):
            reply = guard.ask("list", "")
            if reply.code == OK:
                names = [line.split()[0] for line in reply.data.decode().splitlines()]
                equal(len(names), 3000)
                equal(len(set(names)), 3000)
            else:
                equal(reply.code, UNREACHABLE, reply.text)
    finally:
        stopped.append(True)
        thread.join()
    equal(len(guard.list()), 3000)
    reply = guard.prune(1500)
    equal((reply.code, reply.number), (OK, 1500))
    equal(len(guard.list()), 1500)


@test
def a_call_that_waits_for_another_thread_has_one_wait_not_two():
    """The second call gets its turn when the first one has given up. What it waited for that is part of its own time."""
    server = Server()
    guard = Guard(place(server), wait=4000)
    equal(guard.admit("r", 1).code, OK)
    server.stop()
    reply = guard.ask("both", "r", 2)
    server.go_on()
    require(reply.code in (UNREACHABLE, TIMEOUT, IN_DOUBT), show(reply.code), reply.text)
    require(reply.number < 140, "one call took %d %% of the time of the other" % reply.number)


@test
def urls_that_make_no_sense_are_refused():
    for url in ("redis://a,b", "redis://127.0.0.1/x", "redis://127.0.0.1?db=-1", "redis://127.0.0.1?nothing=1",
                "redis://127.0.0.1?prefix=%01", "redis://127.0.0.1?ca=x", "redis+unix:", "redis+unix://host/path",
                "redis://127.0.0.1?timeout=never", "redis://127.0.0.1?prefix=" + "x" * 201, "redis://127.0.0.1?ttl=5s"):
        equal(Guard(url).opened.code, INVALID, url)


main()
