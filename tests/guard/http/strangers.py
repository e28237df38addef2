#!/usr/bin/env python3
"""strangers.py - the example server and those who are not pawl: curl, Python, and requests that are wrong. And the command."""
import http.client
import urllib.error
import urllib.parse
import urllib.request

from servers import *


def curl(*words):
    """Status, fields and body of the last answer."""
    place = directory()
    head, body = os.path.join(place, "head"), os.path.join(place, "body")
    done = subprocess.run(["curl", "-s", "-S", "--max-time", "20", "-D", head, "-o", body, *words], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    require(done.returncode == 0, done)
    with open(head, encoding="utf-8") as file:
        lines = file.read().strip().split("\n\n")[-1].split("\n")
    said = b""
    if os.path.exists(body):
        with open(body, "rb") as file:
            said = file.read()
    return int(lines[0].split(" ")[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), said


def raw(server, request):
    """What it says to these bytes, up to the end."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionError:
                break
            if not part:
                break
            said += part
        return said


def status(said):
    found = re.match(rb"HTTP/1\.1 (\d+) ", said)
    return int(found.group(1)) if found else None


@test
def curl_carries_a_token_by_hand():
    server = Fenced()
    there = server.url + "/orders/42"
    data = os.path.join(directory(), "data")
    with open(data, "wb") as file:
        file.write(b"hello")
    code, fields, _ = curl("-H", "Pawl-Fence: orders/42 7", "-T", data, there)
    equal((code, fields.get("pawl-admitted")), (204, "orders/42 7"))
    code, fields, body = curl("-H", "Pawl-Fence: orders/42 8", there)
    equal((code, body, fields["pawl-before"], fields["cache-control"]), (200, b"hello", "7", "no-store"))
    code, fields, body = curl("-H", "Pawl-Fence: orders/42 7", "-X", "PUT", "--data-binary", "late", there)
    equal((code, fields["pawl-greatest"]), (412, "8"))
    matches(body.decode(), "token 7 is too old")
    equal(curl("-I", "-H", "Pawl-Fence: orders/42 9", there)[0], 204)
    equal(curl("-H", "Pawl-Fence: orders/42 8", there)[0], 412)
    equal(curl("-H", "Pawl-Fence: nothing 1", server.url + "/nothing")[0], 404)


@test
def python_carries_a_token_by_hand():
    server = Fenced()
    name = "Grüße & Küsse/~42!"
    encoded = urllib.parse.quote(name)
    there = "%s/%s" % (server.url, encoded)

    def send(token, data=None, method="PUT"):
        request = urllib.request.Request(there, data, {"Pawl-Fence": "%s %d" % (encoded, token)}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read()

    equal(send(5, b"five"), (204, b""))
    equal(send(4, b"four")[0], 412)
    equal(send(6, method="GET"), (200, b"five"))
    equal(send(5, b"five")[0], 412)
    got = Peer(server.url).get(encoded, 6)
    equal((got.code, got.data, got.number), (OK, b"five", 6))


@test
def a_request_without_a_token_or_with_a_wrong_one_is_refused():
    server = Fenced()
    host = b"Host: localhost\r\n"
    for fields, expected in ((b"", 428), (b"Pawl-Fence: orders\r\n", 400), (b"Pawl-Fence: orders 0\r\n", 400),
                             (b"Pawl-Fence: other 7\r\n", 400), (b"Pawl-Fence: orders 7, orders 8\r\n", 400),
                             (b"Pawl-Fence: orders 7\r\nPawl-Fence: orders 8\r\n", 400), (b"Pawl-Fence:\r\n", 400),
                             (b"Pawl-Fence: orders -7\r\n", 400), (b"X-Pawl-Fence: orders 7\r\n", 428)):
        for first in b"PUT /orders HTTP/1.1\r\nContent-Length: 1\r\n", b"GET /orders HTTP/1.1\r\n":
            said = raw(server, first + host + fields + b"\r\nx")
            equal(status(said), expected, fields)
            require(b"Pawl-Admitted" not in said, said)
    equal(status(raw(server, b"PUT /orders HTTP/1.1\r\nHost: localhost\r\npawl-fence:\torders 7 \r\nContent-Length: 1\r\n\r\nx")), 204)
    equal(os.listdir(server.directory).count("orders"), 1)


@test
def a_wrong_request_is_refused_with_a_status_and_changes_nothing():
    server = Fenced("--limit", "1000")
    fence = b"Pawl-Fence: orders 7\r\n"
    host = b"Host: 127.0.0.1:%d\r\n" % server.port
    put = b"PUT /orders HTTP/1.1\r\n"
    for request, expected in ((put + fence + b"Content-Length: 1\r\n\r\nx", 421),
                              (put + b"Host: evil.example\r\n" + fence + b"Content-Length: 1\r\n\r\nx", 421),
                              (put + host + host + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (put + host + fence + b"\r\nx", 411),
                              (put + host + fence + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
                              (put + host + fence + b"Content-Length: -1\r\n\r\nx", 400),
                              (put + host + fence + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001, 413),
                              (put + host + fence + b"Content-Length: 99999999999999999999\r\n\r\nx", 413),
                              (put + host + fence + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 400),
                              (put + host + fence + b"Content-Length : 1\r\n\r\nx", 400),
                              (put + host + b" folded\r\n" + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (put + host + b"A: b\n" + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (b"PUT /orders HTTP/2.0\r\n" + host + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (b"PUT orders HTTP/1.1\r\n" + host + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (b"PUT /order%zz HTTP/1.1\r\n" + host + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (b"PUT /orders%00 HTTP/1.1\r\n" + host + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (b"DELETE /orders HTTP/1.1\r\n" + host + fence + b"\r\n", 405),
                              (b"POST /orders HTTP/1.1\r\n" + host + fence + b"\r\n", 405),
                              (b"PUT /orders?x HTTP/1.1\r\n" + host + fence + b"Content-Length: 1\r\n\r\nx", 405),
                              (b"GET / HTTP/1.1\r\n" + host + b"\r\n", 404),
                              (b"GET /?marks&prefix=%zz HTTP/1.1\r\n" + host + b"\r\n", 400),
                              (b"POST /?prune=x HTTP/1.1\r\n" + host + b"Pawl-Prune: x\r\n\r\n", 400),
                              (put + host + fence + b"X: " + b"x" * 20000 + b"\r\n\r\n", 431),
                              (put + host + b"A: b\r\n" * 200 + fence + b"Content-Length: 1\r\n\r\nx", 400),
                              (put + host + b"A: \0\r\n" + fence + b"Content-Length: 1\r\n\r\nx", 400)):
        said = raw(server, request)
        equal(status(said), expected, request[:120], said[:200])
        require(b"Pawl-Admitted" not in said, said)
    for cut in put + host + fence + b"Content-Length: 5\r\n\r\nhal", put + host, b"", b"\r\n\r\n"[:2]:
        raw(server, cut)
    require("orders" not in os.listdir(server.directory), os.listdir(server.directory))
    equal(Peer(server.url).put("orders", 1).code, OK)


@test
def requests_may_follow_each_other_without_waiting():
    server = Fenced()
    one = b"PUT /orders HTTP/1.1\r\nHost: localhost\r\nPawl-Fence: orders %d\r\nContent-Length: 2\r\n\r\n%02d"
    said = raw(server, b"".join(one % (token, token) for token in range(1, 21)))
    equal(said.count(b"HTTP/1.1 204 "), 20)
    equal(Peer(server.url).get("orders", 20).data, b"20")
    said = raw(server, (one % (21, 21)).replace(b"HTTP/1.1", b"HTTP/1.0") + one % (22, 22))
    equal(said.count(b"HTTP/1.1 204 "), 1)
    require(b"Connection: close" in said)


@test
def a_body_that_is_announced_is_asked_for():
    server = Fenced()
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        connection.sendall(b"PUT /a HTTP/1.1\r\nHost: localhost\r\nPawl-Fence: a 1\r\nContent-Length: 2\r\n"
                           b"Expect: 100-continue\r\n\r\n")
        equal(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(b"hi")
        matches(connection.recv(1000).decode(), "^HTTP/1.1 204 ")


@test
def a_server_is_called_as_it_was_told():
    server = Fenced("--host", "fenced.example")
    request = b"GET /a HTTP/1.1\r\nHost: %s\r\nPawl-Fence: a 1\r\n\r\n"
    for host, expected in ((b"fenced.example", 404), (b"FENCED.example:80", 404), (b"localhost", 404), (b"127.0.0.1", 404),
                           (b"fenced.example.evil", 421), (b"evil", 421), (b"", 421), (b"127.0.0.1.evil:8087", 421)):
        equal(status(raw(server, request % host)), expected, host)


@test
def the_command_puts_and_gets_over_http():
    server = Fenced()

    def pawl(*words, data=b""):
        return subprocess.run([PAWL, *words], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    equal(pawl("put", "--store", server.url, "report", "7", data=b"hello").returncode, 0)
    equal(pawl("get", "--store", server.url, "report", "8").stdout, b"hello")
    late = pawl("put", "--store", server.url, "report", "7", data=b"late")
    equal(late.returncode, 124, late.stderr)
    matches(late.stderr.decode(), "too old")
    equal(pawl("fence", "--store", server.url, "report", "8", "true").returncode, 0)
    equal(pawl("fence", "--store", server.url, "report", "7", "true").returncode, 124)


main(missing="" if shutil.which("curl") else "curl")
