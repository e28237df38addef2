#!/usr/bin/env python3
"""proxy_test.py - the bad network is as bad as it is told to be, and no worse. Against an echo server in this process."""
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tap"))
from tap import check, finish

PROXY = sys.argv[1]
PATIENCE = 20


class Echo:
    """Says everything back, on as many connections as come, and counts what it was told."""

    def __init__(self):
        self.heard = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.echo, args=(connection,), daemon=True).start()

    def echo(self, connection):
        try:
            while True:
                data = connection.recv(65536)
                if not data:
                    break
                self.heard += len(data)
                connection.sendall(data)
        except OSError:
            pass
        connection.close()


class Proxy:
    def __init__(self, port, *options):
        self.process = subprocess.Popen([PROXY, "--to", "127.0.0.1:%d" % port, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.port = int(self.process.stdout.readline())

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        connection.settimeout(PATIENCE)
        return connection

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


def ask(connection, data):
    """Sends, and returns what comes back before the end, or all of it."""
    answer = b""
    try:
        connection.sendall(data)
        while len(answer) < len(data):
            part = connection.recv(65536)
            if not part:
                break
            answer += part
    except ConnectionError:
        pass
    return answer


def is_silent(connection):
    connection.settimeout(0.3)
    try:
        return connection.recv(1) == b"never"
    except TimeoutError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(PATIENCE)


def is_ended(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


echo = Echo()

proxy = Proxy(echo.port)
first = proxy.connect()
check("what is said passes both ways", ask(first, b"hello") == b"hello")
much = os.urandom(3000000)
whole = proxy.connect()
sender = threading.Thread(target=lambda: whole.sendall(much))
sender.start()
back = b""
while len(back) < len(much):
    back += whole.recv(65536)
sender.join()
check("three megabytes pass unharmed", back == much)
whole.shutdown(socket.SHUT_WR)
check("the end of one side is passed on, and ends the other", is_ended(whole))
whole.close()

check("an order it does not know is refused", proxy.tell("dance").startswith("no: dance"))
check("it counts its connections", eventually(lambda: proxy.tell("count") == "ok 1"), proxy.tell("count"))

proxy.tell("hold-replies")
before = echo.heard
first.sendall(b"question")
check("with hold-replies the request arrives", eventually(lambda: echo.heard == before + 8))
check("and the reply does not", is_silent(first))
proxy.tell("pass")
check("until it is told to pass", first.recv(100) == b"question")

proxy.tell("hold")
before = echo.heard
first.sendall(b"later")
check("with hold nothing arrives", is_silent(first) and echo.heard == before)
proxy.tell("pass")
check("and nothing is lost", first.recv(100) == b"later")

proxy.tell("blackhole")
before = echo.heard
swallowed = proxy.connect()
swallowed.sendall(b"anybody?")
first.sendall(b"anybody?")
check("a black hole accepts and says nothing", is_silent(swallowed) and is_silent(first) and echo.heard == before)
proxy.tell("pass")
check("who was swallowed is cut afterwards", is_ended(swallowed) and is_ended(first))

proxy.tell("refuse")
try:
    refused = is_ended(proxy.connect())
except ConnectionError:
    refused = True
check("with refuse a new connection ends at once", refused)
proxy.tell("pass")

several = [proxy.connect() for _ in range(5)]
check("all of them work", all(ask(one, b"x") == b"x" for one in several))
proxy.tell("cut")
check("cut ends every connection", all(is_ended(one) for one in several))
check("and the next one works", ask(proxy.connect(), b"again") == b"again")
check("it ends when stdin does", proxy.end() == 0)


def lengths(seed, mean=1000, spare=0):
    """How far each of some connections got, when they are cut after mean bytes on average, there and back."""
    cutter = Proxy(echo.port, "--cut", str(mean), "--spare", str(spare), "--seed", str(seed))
    got = []
    for _ in range(60):
        connection = cutter.connect()
        total = 0
        while True:
            part = len(ask(connection, b"12345678901234567"))
            total += part
            if part < 17:
                break
        got.append(total)
        connection.close()
    cutter.end()
    return got


got_ = lengths(5)
check("with --cut every connection ends, sooner or later, about where it should",
      200 < sum(got_) / len(got_) < 800 and min(got_) < 200 < 700 < max(got_), got_)
check("in the middle of a message too", any(length % 17 for length in got_), got_)

spared = lengths(5, 50, 3000)
check("--spare keeps the beginning of each connection whole", 1450 < min(spared) and max(spared) < 1600, spared)

slow = Proxy(echo.port, "--delay", "150")
connection_ = slow.connect()
began = time.monotonic()
check("with --delay it all arrives", ask(connection_, b"slowly") == b"slowly")
check("not before the delay has passed twice", time.monotonic() - began >= 0.3)
connection_.sendall(b"not lost")
slow.tell("delay 0")
check("also if the delay is changed meanwhile", connection_.recv(100) == b"not lost")
check("quit is obeyed", slow.tell("quit") == "ok" and slow.process.wait(PATIENCE) == 0)

with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "control")
    proxy = Proxy(echo.port, "--control", path)
    control = socket.socket(socket.AF_UNIX)
    eventually(lambda: control.connect_ex(path) == 0)  # the path is there a moment before somebody listens
    control.settimeout(PATIENCE)
    control.sendall(b"refuse\ncount\n")
    words = b""
    while words.count(b"\n") < 2:
        words += control.recv(100)
    check("orders may come through a socket", words == b"ok\nok 0\n", words)
    control.close()
    check("whose end is not the end of it", proxy.tell("pass") == "ok" and ask(proxy.connect(), b"x") == b"x")
    proxy.end()
    check("it takes its socket with it", not os.path.exists(path))

nobody = socket.create_server(("127.0.0.1", 0))
port_ = nobody.getsockname()[1]
nobody.close()
proxy = Proxy(port_)
try:
    ended = is_ended(proxy.connect())
except ConnectionError:  # so fast that our own connect did not see it stand
    ended = True
check("a server that is not there ends the connection", ended)
proxy.end()
finish()
