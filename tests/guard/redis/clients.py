#!/usr/bin/env python3
"""clients.py - the guard and other clients of the same Redis: who reads past it, and who calls its functions or scripts."""
from guards import *


class Caller:
    """Another client: by FCALL, or by EVAL where there are no functions."""

    def __init__(self, server, functions):
        self.connection = server.connect()
        self.functions = functions
        if functions:
            load_library(server)

    def __call__(self, function, name, *words, keys=None):
        keys = keys or keys_of(name)
        if self.functions:
            return self.connection("FCALL", "pawl_" + function, len(keys), *keys, *words)
        return self.connection("EVAL", script(function), len(keys), *keys, *words)


def both(sentence):
    """The same for functions and for scripts."""
    for functions in True, False:
        def run(functions=functions):
            server = Server()
            sentence(server, Caller(server, functions))
        run.__name__ = sentence.__name__ + ("_by_functions" if functions else "_by_scripts")
        test(run)


@test
def whoever_reads_past_the_guard_finds_the_plain_value():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("orders", 5, "first").code, OK)
    equal(server("GET", "data:orders"), "first")
    equal(server("GET", "pawl:mark:data:orders"), "5")
    equal(server("TTL", "pawl:mark:data:orders"), -1)
    server("SET", "data:mail", "written by somebody")
    reply = guard.get("mail", 3)
    equal((reply.code, reply.number, reply.data), (OK, 0, b"written by somebody"))


@test
def redis_cli_may_call_functions_and_scripts():
    server = Server()
    guard = Guard(place(server))

    def cli(*words, data=None):
        done = subprocess.run(["redis-cli", "-p", str(server.port), *words], input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=PATIENCE)
        return done.stdout.decode().strip()

    with open(LIBRARY, "rb") as file:
        equal(cli("-x", "FUNCTION", "LOAD", "REPLACE", data=file.read()), "pawl")
    equal(cli("FCALL", "pawl_set", "3", *keys_of("a"), "42", "hello"), "OK")
    equal(cli("FCALL", "pawl_set", "3", *keys_of("a"), "41", "late"), "STALE greatest is 42")
    equal(cli("--eval", os.path.join(SCRIPTS, "set.lua"), *keys_of("a"), ",", "43", "more"), "OK")
    equal(cli("--eval", os.path.join(SCRIPTS, "set.lua"), *keys_of("a"), ",", "42", "late"), "STALE greatest is 43")
    reply = guard.get("a", 44)
    equal((reply.code, reply.number, reply.data), (OK, 43, b"more"))
    equal(cli("FCALL", "pawl_do", "3", *keys_of("a"), "43", "DEL"), "STALE greatest is 44")


@both
def the_guard_and_other_clients_know_the_same_versions(server, call):
    guard = Guard(place(server))
    equal(call("look", "v"), [None, "0"])
    equal(call("swap", "v", 0, "one"), "1")
    reply = guard.look("v")
    equal((reply.code, reply.number, reply.data), (OK, 1, b"one"))
    equal(guard.swap("v", 1, "two").number, 2)
    equal(refused(call, "swap", "v", 1, "late"), "STALE greatest is 2")
    equal(call("look", "v"), ["two", "2"])
    equal(call("swap", "v", 2, "three", "EX", "100"), "3")
    require(0 < server("TTL", "data:v") <= 100)
    reply = guard.swap("v", 2, "late")
    equal(reply.code, STALE)
    require("not at version 2 but at 3" in reply.text, reply.text)
    for wrong in "", "-1", "01", "1.0", "x", str(LARGEST), str(LARGEST + 1):
        require(refused(call, "swap", "v", wrong, "x").startswith("INVALID"), wrong)
    equal(guard.prune(10).code, OK)
    equal(call("look", "v"), ["three", "10"])
    equal(refused(call, "swap", "v", 0, "anew"), "STALE greatest is 10")
    equal(call("swap", "v", 10, "four"), "11")
    server("SET", "pawl:mark:data:nines", "999999999999999999")
    equal(call("swap", "nines", "999999999999999999", "x"), "1000000000000000000")
    server("SET", "pawl:mark:data:bad", "x")
    require(refused(call, "look", "bad").startswith("CORRUPT"))
    require(refused(call, "swap", "bad", 0, "x").startswith("CORRUPT"))
    server("RPUSH", "data:list", "x")
    require("WRONGTYPE" in refused(call, "swap", "list", 10, "x"))
    require("WRONGTYPE" in refused(call, "look", "list"))


@both
def the_guard_and_other_clients_know_the_same_marks(server, call):
    guard = Guard(place(server))
    equal(call("admit", "r", 10), "OK")
    equal(guard.admit("r", 9).code, STALE)
    equal(guard.put("r", 11, "eleven").code, OK)
    equal(refused(call, "admit", "r", 10), "STALE greatest is 11")
    equal(refused(call, "get", "r", 10), "STALE greatest is 11")
    equal(refused(call, "set", "r", 10, "late"), "STALE greatest is 11")
    equal(refused(call, "forget", "r", 10), "STALE greatest is 11")
    equal(refused(call, "do", "r", 10, "DEL"), "STALE greatest is 11")
    equal(call("get", "r", 12), ["eleven", "11"])
    equal(call("get", "none", 1), [None, "0"])
    equal(call("set", "r", 12, "twelve", "EX", "100"), "OK")
    require(0 < server("TTL", "data:r") <= 100)
    equal(guard.get("r", 12).data, b"twelve")
    equal(call("forget", "r", 12), 1)
    equal(call("forget", "r", 12), 0)
    equal(guard.admit("r", 1).code, OK)


@both
def any_command_that_writes_is_fenced(server, call):
    guard = Guard(place(server))
    equal(call("do", "text", 5, "SET", "value"), "OK")
    equal(call("do", "text", 5, "APPEND", "+"), 6)
    equal(call("do", "hash", 5, "HSET", "field", "value", "other", "more"), 2)
    equal(call("do", "count", 5, "INCR"), 1)
    equal(call("do", "count", 5, "INCRBY", "41"), 42)
    equal(call("do", "list", 5, "RPUSH", "a", "b"), 2)
    equal(call("do", "text", 6, "DEL"), 1)
    for name, command in (("text", ["SET", "late"]), ("hash", ["HSET", "field", "late"]), ("count", ["INCR"]),
                          ("list", ["DEL"])):
        equal(guard.admit(name, 7).code, OK)
        equal(refused(call, "do", name, 6, *command), "STALE greatest is 7")
    equal(server("EXISTS", "data:text"), 0)
    equal(server("HGET", "data:hash", "field"), "value")
    equal(server("GET", "data:count"), "42")
    equal(server("LRANGE", "data:list", 0, -1), ["a", "b"])


@both
def a_command_that_fails_leaves_its_token_admitted(server, call):
    call("do", "hash", 5, "HSET", "field", "value")
    matches(refused(call, "do", "hash", 6, "INCR"), "WRONGTYPE")
    matches(refused(call, "do", "hash", 6, "NOSUCHCOMMAND"), "unknown")
    equal(refused(call, "do", "hash", 5, "DEL"), "STALE greatest is 6")
    equal(server("HGET", "data:hash", "field"), "value")


@both
def tokens_are_compared_to_the_last_digit(server, call):
    steps = [1, 9, 10, 99, 100, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 999999999999999999, 10**18, LARGEST - 1, LARGEST]
    for last, token in zip([0] + steps, steps):
        equal(call("admit", "r", token), "OK")
        if last:
            equal(refused(call, "admit", "r", last), "STALE greatest is %d" % token)


@both
def what_is_not_a_token_is_refused_and_changes_nothing(server, call):
    call("set", "r", 5, "five")
    for token in "", "0", "-1", "+7", "07", "7.0", "7e3", " 7", "7 ", "0x7", "nan", "inf", 2**63, 10**19, "9" * 400:
        for function in "admit", "get", "set", "forget", "do":
            matches(refused(call, function, "r", token, "SET", "x"), "^INVALID")
    equal(server("GET", "pawl:mark:data:r"), "5")
    equal(server("GET", "data:r"), "five")


@both
def keys_that_do_not_belong_together_are_refused(server, call):
    good = keys_of("r")
    for wrong in (good[:1], good[:2], [good[0], good[0], good[2]], [good[0], "pawl:mark:data:s", good[2]],
                  [good[0], good[1], "pawl:floor:other:"], [good[0], good[1], good[1]], [good[1], good[0], good[2]]):
        for function in "admit", "get", "set", "forget", "do":
            matches(refused(lambda *words: call(*words, keys=wrong), function, "r", 5, "SET", "x"), "^INVALID")
    equal(server.keys(), [])


@both
def a_floor_holds_for_other_clients_too(server, call):
    guard = Guard(place(server))
    call("admit", "old", 5)
    reply = guard.prune(100)
    equal((reply.code, reply.number), (OK, 1))
    equal(refused(call, "admit", "old", 99), "STALE greatest is 100")
    equal(refused(call, "set", "new", 99, "x"), "STALE greatest is 100")
    equal(call("set", "new", 100, "x"), "OK")


@test
def values_are_bytes():
    server = Server()
    guard = Guard(place(server))
    for data in (bytes(range(256)), b"", b"\0", b"\r\n$5\r\nhello\r\n", b"x" * 5000000):
        equal(guard.put("r", 5, data).code, OK)
        reply = guard.get("r", 5)
        require(reply.code == OK and reply.data == data, len(data), reply.text)
        equal(server("STRLEN", "data:r"), len(data))


@test
def names_stay_within_their_namespace():
    server = Server()
    guard = Guard(place(server, prefix=""))
    for name in "pawl:mark:orders", "pawl:fence:lock:", "pawl:":
        equal(guard.put(name, 5, "x").code, INVALID)
        equal(guard.admit(name, 5).code, INVALID)
    equal(Guard(place(server, prefix="pawl:x")).opened.code, INVALID)
    short = Guard(place(server, prefix="paw"))
    equal(short.put("l:mark:orders", 5, "x").code, INVALID)
    odd = ["*", "a b", "[x]", "\\", "{t}", "ä→", "a*c", "abc"]
    for number, name in enumerate(odd, 1):
        equal(guard.put(name, number, name).code, OK)
    equal(guard.list(), {name: (number, OK) for number, name in enumerate(odd, 1)})
    equal(guard.list("a*"), {"a*c": (7, OK)})
    equal(guard.list("["), {"[x]": (3, OK)})
    for name in odd:
        equal(guard.get(name, 9).data, name.encode())


@test
def prefixes_and_databases_are_namespaces():
    server = Server()
    one, other = Guard(place(server, prefix="one:")), Guard(place(server, prefix="other:"))
    second = Guard(place(server, prefix="one:", db=2))
    equal(one.put("r", 5, "x").code, OK)
    equal(other.put("r", 1, "y").code, OK)
    equal(second.put("r", 2, "z").code, OK)
    equal(one.prune(9).number, 1)
    equal(other.list(), {"r": (1, OK)})
    equal(second.list(), {"r": (2, OK)})
    equal(other.admit("new", 1).code, OK)


@test
def a_guard_leaves_no_line_behind():
    server = Server()
    guard = Guard(place(server))
    equal(guard.put("r", 5, "x").code, OK)
    equal(len(server.keys("pawl:line:*")), 1)
    require(0 < server("PTTL", server.keys("pawl:line:*")[0]) <= 600000)
    equal(guard.leave(), 0)
    eventually(lambda: server.keys() == ["data:r", "pawl:mark:data:r"])


try:
    import redis
except ImportError:  # redis-cli and RESP by hand are other clients, too
    pass
else:
    @test
    def the_redis_module_of_python_may_call_them():
        server = Server()
        client = redis.Redis(port=server.port)
        load_library(server)
        equal(client.fcall("pawl_set", 3, *keys_of("r"), 5, b"\0five"), b"OK")
        equal(client.register_script(script("do"))(keys=keys_of("r"), args=[6, "APPEND", "+"]), 6)
        try:
            client.fcall("pawl_set", 3, *keys_of("r"), 5, "late")
            raise Failed("a stale token passed")
        except redis.ResponseError as error:
            matches(str(error), "STALE greatest is 6")


main()
