#!/usr/bin/env python3
"""attacks.py - both servers, the example in C and the one in docs/guards/http.md, with requests that others understand differently:
each is refused, the connection is closed, and neither the request nor what is hidden in it changes anything."""
import sys

from servers import *

SOURCE = os.environ["SOURCE_DIR"]


class Python:
    """The server of the document."""

    def __init__(self):
        with open(os.path.join(SOURCE, "docs/guards/http.md"), encoding="utf-8") as file:
            code = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.directory = directory()
        path = os.path.join(self.directory, "server.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(code.replace("8088", str(self.port)))
        self.process = subprocess.Popen([sys.executable, path], cwd=self.directory, stdin=subprocess.DEVNULL)
        at_end(self.kill)
        self.url = "http://127.0.0.1:%d" % self.port
        eventually(self.answers)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()


def talk(server, *parts):
    """Sends bytes, then no more, and reads until the server closes. The status of every answer."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.settimeout(20)
        host = b"127.0.0.1:%d" % server.port
        data = b""
        try:
            for part in parts:
                connection.sendall(part.replace(b"HOST", host))
                time.sleep(0.02)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                data += chunk
        except ConnectionError:
            pass
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", data, re.M)]


def put(name, token, *fields, body=b"", first=b"PUT /%s HTTP/1.1"):
    lines = [first % name if b"%s" in first else first, b"Host: HOST", b"Pawl-Fence: %s %d" % (name, token), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


HIDDEN = put(b"hidden", 9, b"Content-Length: 4", body=b"evil")
CHUNKED = b"5\r\nabcde\r\n0\r\n\r\n"
# What is sent, and with which statuses it may be refused: one answer, and nothing after it.
AMBIGUOUS = {
    "a body in chunks": (put(b"r", 7, b"Transfer-Encoding: chunked", body=CHUNKED + HIDDEN), {400, 411}),
    "chunks and a length": (put(b"r", 7, b"Content-Length: 5", b"Transfer-Encoding: chunked", body=CHUNKED + HIDDEN), {400, 411}),
    "a length and chunks": (put(b"r", 7, b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(CHUNKED),
                                body=CHUNKED + HIDDEN), {400, 411}),
    "a coding nobody knows": (put(b"r", 7, b"Transfer-Encoding: xchunked", body=HIDDEN), {400, 411}),
    "a coding on a folded line": (put(b"r", 7, b"Content-Length: 0", b"Transfer-Encoding:", b" chunked", body=HIDDEN), {400, 411}),
    "no length": (put(b"r", 7, body=HIDDEN), {411}),
    "a negative length": (put(b"r", 7, b"Content-Length: -5", body=b"abcde" + HIDDEN), {400}),
    "a length with a sign": (put(b"r", 7, b"Content-Length: +5", body=b"abcde" + HIDDEN), {400}),
    "a length with an underscore": (put(b"r", 7, b"Content-Length: 0_5", body=b"abcde" + HIDDEN), {400}),
    "a length in hexadecimal": (put(b"r", 7, b"Content-Length: 0x5", body=b"abcde" + HIDDEN), {400}),
    "an empty length": (put(b"r", 7, b"Content-Length: ", body=HIDDEN), {400}),
    "two lengths": (put(b"r", 7, b"Content-Length: 5", b"Content-Length: 0", body=b"abcde" + HIDDEN), {400}),
    "two equal lengths": (put(b"r", 7, b"Content-Length: 5", b"Content-Length: 5", body=b"abcde" + HIDDEN), {400}),
    "a list of lengths": (put(b"r", 7, b"Content-Length: 5, 5", body=b"abcde" + HIDDEN), {400}),
    "a length beyond all": (put(b"r", 7, b"Content-Length: 99999999999999999999", body=b"abcde" + HIDDEN), {400, 413}),
    "a length that is too much": (put(b"r", 7, b"Content-Length: 999999999999", body=b"abcde" + HIDDEN), {413}),
    "a blank before the colon": (put(b"r", 7, b"Content-Length : 5", b"Content-Length: 0", body=b"abcde" + HIDDEN), {400}),
    "a name that is none": (put(b"r", 7, b"Content-Length\x0b: 5", b"Content-Length: 0", body=HIDDEN), {400}),
    "a folded line": (put(b"r", 7, b"X: y", b" Content-Length: 5", b"Content-Length: 0", body=HIDDEN), {400}),
    "a line that ends in LF": (put(b"r", 7, b"X: y\nContent-Length: 5", b"Content-Length: 0", body=HIDDEN), {400}),
    "a line that ends in CR": (put(b"r", 7, b"X: y\rContent-Length: 5", b"Content-Length: 0", body=HIDDEN), {400}),
    "a NUL": (put(b"r", 7, b"X: y\0z", b"Content-Length: 0", body=HIDDEN), {400}),
    "a line without a colon": (put(b"r", 7, b"nonsense", b"Content-Length: 0", body=HIDDEN), {400}),
    "two blanks": (put(b"r", 7, b"Content-Length: 0", first=b"PUT  /%s HTTP/1.1", body=HIDDEN), {400}),
    "another version": (put(b"r", 7, b"Content-Length: 0", first=b"PUT /%s HTTP/1.9", body=HIDDEN), {400}),
    "two hosts": (put(b"r", 7, b"Host: HOST", b"Content-Length: 0", body=HIDDEN), {400}),
    "another host": (put(b"r", 7, b"Content-Length: 0", body=HIDDEN).replace(b"Host: HOST", b"Host: evil.example", 1), {421}),
    "no host": (put(b"r", 7, b"Content-Length: 0", body=HIDDEN).replace(b"Host: HOST\r\n", b"", 1), {400, 421}),
}


def check_ambiguous(server):
    peer = Peer(server.url)
    equal(peer.put("r", 6, b"before").code, OK)
    for what, (request, statuses) in AMBIGUOUS.items():
        seen = talk(server, request)
        require(len(seen) == 1 and seen[0] in statuses, what, seen)
        require(talk(server, request[:40], request[40:]) == seen, what, "in two parts")
    equal(peer.get("r", 6).data, b"before")
    equal(peer.get("hidden", 1).code, NOT_FOUND)


@test(within=200)
def the_example_refuses_what_can_be_understood_in_two_ways():
    check_ambiguous(Fenced())


@test(within=200)
def the_server_in_python_refuses_what_can_be_understood_in_two_ways():
    check_ambiguous(Python())


def check_refused(server):
    """Whole requests that are wrong: the next one on the connection is served."""
    last = put(b"r", 8, b"Content-Length: 3", b"Connection: close", body=b"end")
    ok = (200, 204)
    for wrong, status in ((put(b"r", 7, b"Pawl-Fence: r 9", b"Content-Length: 0"), 400),
                          (put(b"r", 0, b"Content-Length: 0"), 400),
                          (put(b"r", 1 << 63, b"Content-Length: 0"), 400),
                          (put(b"r", 7, b"Content-Length: 0").replace(b": r 7", b": r 07"), 400),
                          (put(b"r", 7, b"Content-Length: 0").replace(b": r 7", b": s 7"), 400),
                          (put(b"r", 7, b"Content-Length: 0").replace(b": r 7", b": r -7"), 400),
                          (put(b"%ff", 7, b"Content-Length: 0").replace(b"PUT /%ff", b"PUT /%fe"), 400),
                          (put(b"%00", 7, b"Content-Length: 0"), 400),
                          (put(b"r", 7, b"Content-Length: 0").replace(b"Pawl-Fence: r 7\r\n", b""), 428)):
        seen = talk(server, wrong + last)
        # A path that cannot be decoded may end the connection.
        require(seen[0] == status and (seen[1:] == [] or seen[1] in ok), wrong, seen)
    seen = talk(server, put(b"r", 8, b"Content-Length: 10", body=b"cut"))
    require(seen in ([], [400]), seen)
    equal(Peer(server.url).get("r", 8).data, b"end")
    seen = talk(server, put(b"r", 9, b"Content-Length: 5", body=b"first") + put(b"r", 9, b"Content-Length: 6", b"Connection: close",
                                                                             body=b"second"))
    require(len(seen) == 2 and all(status in ok for status in seen), seen)
    equal(Peer(server.url).get("r", 9).data, b"second")


@test
def the_example_reads_each_request_to_its_end():
    check_refused(Fenced())


@test
def the_server_in_python_reads_each_request_to_its_end():
    check_refused(Python())


def post(query, *fields):
    return b"\r\n".join([b"POST /?%s HTTP/1.1" % query, b"Host: HOST", b"Content-Length: 0", b"Connection: close", *fields]) + b"\r\n\r\n"


@test
def a_prune_needs_a_header_that_no_web_page_can_send():
    server = Fenced()
    peer = Peer(server.url)
    equal(peer.put("r", 7).code, OK)
    for fields in ((), (b"Content-Type: text/plain",), (b"Origin: http://evil.example",), (b"Pawl-Fence: r 7",)):
        equal(talk(server, post(b"prune=9223372036854775807", *fields)), [428], fields)
    for floor in (b"-9223372036854775809", b"-1", b"+5", b"0", b"", b"9223372036854775808", b"18446744073709551617", b"5x", b"%35",
                  b"0x5", b"5.0", b" 5"):
        require(talk(server, post(b"prune=" + floor, b"Pawl-Prune: " + floor)) == [400], floor)
    equal(talk(server, post(b"prune=5", b"Pawl-Prune: 6")), [400])
    equal(talk(server, post(b"prune=5", b"Pawl-Prune: 5", b"Pawl-Prune: 5")), [400])
    equal(peer.put("other", 1).code, OK)
    equal(talk(server, post(b"prune=5", b"Pawl-Prune: 5")), [204])
    equal(peer.put("third", 4).code, STALE)
    equal(peer.ask("prune", 6).code, OK)
    equal(peer.put("third", 5).code, STALE)
    equal(peer.put("r", 7).code, OK)


@test
def a_swap_without_a_length_is_no_swap_to_nothing():
    server = Fenced()
    peer = Peer(server.url)
    equal(peer.ask("swap", "v", 0, b"one".hex()).code, OK)
    equal(talk(server, b"POST /v?swap HTTP/1.1\r\nHost: HOST\r\nPawl-Expect: v 1\r\n\r\n"), [411])
    for wrong in (b"0000000000000000", b"1", b"000000000000000G", b"00000000000000001"):
        equal(talk(server, b"POST /v?swap HTTP/1.1\r\nHost: HOST\r\nPawl-Expect: v 1\r\nContent-Length: 0\r\nPawl-Swap-Id: %s\r\n"
                   b"Connection: close\r\n\r\n" % wrong), [400], wrong)
    equal(peer.ask("look", "v").data, b"one")


main(missing="")
