"""servers.py - what the tests of the guard over HTTP stand on: the example server, servers that answer whatever they are told,
and processes that use a guard. On the rig of the Redis engine.

    server = Fenced()
    peer = Peer(server.url)
    equal(peer.put("orders", 7, b"data").code, OK)"""
import collections
import os
import re
import socket
import subprocess
import threading

from rig import *
import rig

SERVER = os.environ["PAWL_TEST_HTTP_SERVER"]
PEER = os.environ["PAWL_TEST_GUARD_PEER"]
PROXY = os.environ["PAWL_TEST_PROXY"]
Answer = collections.namedtuple("Answer", "code number data text")


class Peer:
    """A process with a guard of its own."""

    def __init__(self, url, wait=60000):
        self.process = subprocess.Popen([PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        at_end(self.kill)
        self.opened = self.ask("open", url, wait)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in self.process.stdin, self.process.stdout:
            try:
                end.close()
            except OSError:
                pass

    def say(self, *words):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline().decode()
        require(line.endswith("\n"), "the peer has ended", line)
        code, number, data, text = line[:-1].split(" ", 3)
        return Answer(int(code), int(number), bytes.fromhex(data), text)

    def ask(self, *words):
        self.say(*words)
        return self.hear()

    def admit(self, name, token):
        return self.ask("admit", name, token)

    def put(self, name, token, data=b"data"):
        return self.ask("put", name, token, data.hex())

    def get(self, name, token):
        return self.ask("get", name, token)


class Fenced:
    """The example, on files of its own."""

    def __init__(self, *options, store=None):
        self.directory = directory()
        self.store = store or "file:" + self.directory
        self.options = options
        self.process = None
        at_end(self.kill)
        self.start("0")

    def start(self, port):
        self.process = subprocess.Popen([SERVER, "--port", port, *self.options, self.store], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://[\d.:]+", self.process.stdout.readline()).group(0)
        self.port = int(self.url.rpartition(":")[2])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        self.start(str(self.port))


class Scripted(Listener):
    """Answers each request by answer(request), bytes: None closes the connection. requests: all of them, whole."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        super().__init__(self.talk)

    @property
    def base(self):
        return "http://127.0.0.1:%d" % self.port

    def talk(self, connection):
        kept = b""
        while True:
            while b"\r\n\r\n" not in kept:
                data = connection.recv(65536)
                if not data:
                    return
                kept += data
            head, _, kept = kept.partition(b"\r\n\r\n")
            found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            size = int(found.group(1)) if found else 0
            while len(kept) < size:
                data = connection.recv(65536)
                if not data:
                    return
                kept += data
            request = Request(head, kept[:size])
            kept = kept[size:]
            self.requests.append(request)
            answer = self.answer(request)
            if answer is None:
                return
            connection.sendall(answer)

    def methods(self):
        return [request.method for request in self.requests]


class Request:
    def __init__(self, head, body):
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.fields[name.lower()] = value.strip()
        self.fence = self.fields.get("pawl-fence", "")
        self.body = body


def reply(status=200, fields=None, body=b"", admitted=None):
    """The bytes of an answer. admitted: the request whose token it admits."""
    lines = ["HTTP/1.1 %d Whatever" % status]
    if admitted is not None:
        lines.append("Pawl-Admitted: " + admitted.fence)
    if status != 204:
        lines.append("Content-Length: %d" % len(body))
    lines += ["%s: %s" % pair for pair in (fields or {}).items()]
    if admitted is not None and admitted.method == "HEAD":
        body = b""
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Proxy:
    """tests/proxy between the peers and a server."""

    def __init__(self, port, *options):
        self.process = subprocess.Popen([PROXY, "--to", "127.0.0.1:%d" % port, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        at_end(self.end)
        self.port = int(self.process.stdout.readline())
        self.url = "http://127.0.0.1:%d" % self.port

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        require(answer.startswith("ok"), answer)
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def counted(kind, writers, watcher, times=60):
    """Each writer adds one many times. What they were told is what is there, but for what they know to be in doubt."""
    for writer in writers:
        writer.say("count", "number", times)
    answers = [writer.hear() for writer in writers]
    for answer in answers:
        equal(answer.code, OK, answer.text)
    told, doubts = sum(answer.number for answer in answers), sum(int(answer.data) for answer in answers)
    seen = watcher.ask("look", "number")
    note("%s: %d said to be made, %d in doubt; the number is %s at version %d" %
         (kind, told, doubts, seen.data.decode(), seen.number))
    equal(int(seen.data), seen.number)
    require(told <= seen.number <= told + doubts, told, doubts, seen.number)
    require(told > len(writers) * times // 4, told)
