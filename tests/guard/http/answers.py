#!/usr/bin/env python3
"""answers.py - what the guard makes of every answer a server may give: above all, that none is taken for a pass which is not."""
import base64
import functools
import http.client
import http.server

from servers import *


def admits(request):
    """A server that checks, as far as a client can see."""
    if request.method == "HEAD":
        return reply(204, admitted=request)
    if request.method == "GET" and "?marks" in request.target:
        return reply(200, {"Pawl-Marks": 0})
    return reply(200, {"Pawl-Before": 3}, b"data", admitted=request)


def answering(status, fields=None, body=b"", evidence=False):
    """One that proves itself by HEAD, and answers everything else so."""

    def answer(request):
        if request.method == "HEAD" or "?marks" in request.target:
            return admits(request)
        return reply(status, fields, body, admitted=request if evidence else None)

    return answer


def ask(answer, *words, wait=60000):
    server = Scripted(answer)
    return Peer(server.base, wait).ask(*words)


PUT = ("put", "orders", 7, "64617461")
GET = ("get", "orders", 7)
ADMIT = ("admit", "orders", 7)
FORGET = ("forget", "orders", 7)


@test
def the_requests_are_as_the_protocol_says():
    server = Scripted(admits)
    peer = Peer(server.base + "/base/")
    equal(peer.admit("orders/4%202", 7).code, OK)
    got = peer.get("orders/4%202", 8)
    equal((got.code, got.number, got.data), (OK, 3, b"data"))
    equal(peer.put("orders/4%202", 9, b"\0\xff").code, OK)
    equal(server.methods(), ["HEAD", "GET", "PUT"])
    equal([request.target for request in server.requests], ["/base/orders/4%202"] * 3)
    equal([request.fence for request in server.requests], ["orders/4%202 7", "orders/4%202 8", "orders/4%202 9"])
    for request in server.requests:
        equal(request.fields["cache-control"], "no-store")
        equal(request.fields["accept-encoding"], "identity")
        equal(request.fields["host"], "127.0.0.1:%d" % server.port)
        require("authorization" not in request.fields)
    equal(server.requests[2].body, b"\0\xff")


@test
def a_put_is_sent_only_after_the_server_has_admitted_the_token():
    server = Scripted(admits)
    peer = Peer(server.base)
    equal(peer.put("orders", 7).code, OK)
    equal(peer.put("orders", 7).code, OK)
    equal(server.methods(), ["HEAD", "PUT", "PUT"])


@test
def a_server_that_ignores_the_header_is_never_a_pass_and_gets_no_data():
    for status in 200, 201, 204, 404:
        for words in PUT, GET, ADMIT, FORGET:
            server = Scripted(lambda request: reply(status, {"Pawl-Before": 3}))
            answer = Peer(server.base).ask(*words)
            equal(answer.code, UNSUPPORTED, status, words)
            require("PUT" not in server.methods() and "POST" not in server.methods(), server.methods())


# ---- versions

LOOK = ("look", "orders")
SWAP = ("swap", "orders", 7, "64617461")


def versions(request):
    """A server that knows them, as far as a client can see."""
    if "?look" in request.target:
        return reply(200, {"Pawl-Version": "orders 7"}, b"" if request.method == "HEAD" else b"data")
    return reply(204, {"Pawl-Version": "orders 8"})


@test
def a_swap_is_a_post_to_a_server_that_has_told_a_version():
    server = Scripted(versions)
    peer = Peer(server.base + "/base")
    got = peer.ask(*LOOK)
    equal((got.code, got.number, got.data), (OK, 7, b"data"))
    equal((peer.ask(*SWAP).code, peer.ask(*SWAP).number), (OK, 8))
    equal(server.methods(), ["GET", "POST", "POST"])
    equal([request.target for request in server.requests], ["/base/orders?look", "/base/orders?swap", "/base/orders?swap"])
    equal(server.requests[1].fields["pawl-expect"], "orders 7")
    equal(server.requests[1].body, b"data")
    for request in server.requests:
        require("pawl-fence" not in request.fields)
    server = Scripted(versions)
    equal(Peer(server.base).ask(*SWAP).code, OK)
    equal(server.methods(), ["HEAD", "POST"])


@test
def a_server_that_does_not_know_versions_gets_no_data():
    for fields in {}, {"Pawl-Version": "others 7"}, {"Pawl-Admitted": "orders 7"}, {"Pawl-Before": 7}:
        for status in 200, 204, 404, 405, 428, 400, 501:
            server = Scripted(lambda request, status=status, fields=fields: reply(status, fields))
            peer = Peer(server.base)
            for words in LOOK, SWAP:
                answer = peer.ask(*words)
                require(answer.code in (UNSUPPORTED, INVALID), status, words, answer)
            require("POST" not in server.methods(), server.methods())
    server = Scripted(admits)  # it knows tokens
    peer = Peer(server.base)
    equal(peer.put("orders", 7).code, OK)
    equal(peer.ask(*SWAP).code, UNSUPPORTED)
    require("POST" not in server.methods(), server.methods())


@test
def only_the_version_that_was_to_be_made_is_a_pass():
    def swapping(status, fields):
        return lambda request: versions(request) if "?look" in request.target else reply(status, fields)

    for version in "orders 7", "orders 9", "others 8", "orders/ 8":
        equal(ask(swapping(204, {"Pawl-Version": version}), *SWAP).code, IN_DOUBT, version)
    for version in "orders", "orders x", "orders -8", "8", "orders  8":
        equal(ask(swapping(204, {"Pawl-Version": version}), *SWAP).code, IN_DOUBT, version)
    equal(ask(swapping(204, {}), *SWAP).code, IN_DOUBT)
    equal(ask(swapping(500, {}), *SWAP).code, IN_DOUBT)
    equal(ask(swapping(507, {}), *SWAP).code, FULL)
    stale = ask(swapping(412, {"Pawl-Greatest": 9}), *SWAP)
    equal(stale.code, STALE)
    require("not at version 7 but at 9" in stale.text, stale.text)
    equal(ask(swapping(412, {}), *SWAP).code, STALE)
    equal(ask(lambda request: versions(request) if "?look" in request.target else None, *SWAP).code, IN_DOUBT)


@test
def an_old_version_out_of_a_cache_is_refused():
    equal(ask(lambda request: reply(200, {"Pawl-Version": "orders 7", "Age": 3}, b"data"), *LOOK).code, UNSUPPORTED)
    got = ask(lambda request: reply(404, {"Pawl-Version": "orders 0"}), *LOOK)
    equal((got.code, got.number), (NOT_FOUND, 0))


@test
def the_example_server_takes_a_version_or_a_token_and_never_neither():
    server = Fenced()
    peer = Peer(server.url)
    equal((peer.ask("swap", "v", 0, "6f6e65").code, peer.ask("look", "v").number), (OK, 1))
    for method, target, fields in (("POST", "/v?swap", {}), ("POST", "/v?swap", {"Pawl-Expect": "w 1"}),
                                   ("POST", "/v?swap", {"Pawl-Expect": "v x"}), ("PUT", "/v", {"Pawl-Expect": "v 1"}),
                                   ("POST", "/v?swap", {"Pawl-Expect": "v 1", "Pawl-Fence": "v 9"}),
                                   ("POST", "/v?swap", {"Pawl-Expect": "v 0"})):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request(method, target, b"late", fields)
        require(connection.getresponse().status in (400, 412, 428), method, target, fields)
        connection.close()
    got = peer.ask("look", "v")
    equal((got.code, got.number, got.data), (OK, 1, b"one"))


class Ignorant(http.server.SimpleHTTPRequestHandler):
    """python3 -m http.server, and one that takes a PUT from anybody."""
    taken = []

    def do_PUT(self):
        Ignorant.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@test
def a_real_server_that_ignores_the_header_is_never_a_pass():
    place = directory()
    with open(os.path.join(place, "orders"), "wb") as file:
        file.write(b"there")
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Ignorant, directory=place))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    at_end(served.server_close)
    at_end(served.shutdown)
    peer = Peer("http://127.0.0.1:%d" % served.server_address[1])
    for words in PUT, GET, ADMIT, FORGET, ("get", "missing", 7), ("admit", "missing", 7), ("list", "-"), ("prune", 5):
        answer = peer.ask(*words)
        equal(answer.code, UNSUPPORTED, words, answer.text)
    matches(peer.ask(*ADMIT).text, "does not check tokens")
    equal(Ignorant.taken, [])


@test
def a_server_that_reflects_all_our_headers_is_not_a_pass():
    def reflect(request):
        return reply(200, {name: value for name, value in request.fields.items() if name != "content-length"})

    for words in PUT, GET, ADMIT, FORGET:
        equal(ask(reflect, *words).code, UNSUPPORTED, words)


@test
def an_answer_for_another_token_or_resource_is_not_a_pass():
    for other in "orders 6", "orders 8", "Orders 7", "orders 7 7", "orders 07", "orders", "7":
        answer = ask(lambda request: reply(200, {"Pawl-Before": 3, "Pawl-Admitted": other}), *GET)
        equal(answer.code, UNSUPPORTED, other)
    twice = "orders 7\r\nPawl-Admitted: orders 7"
    equal(ask(lambda request: reply(200, {"Pawl-Before": 3, "Pawl-Admitted": twice}), *GET).code, UNSUPPORTED)


@test
def an_answer_out_of_a_cache_is_not_a_pass():
    for words in GET, ADMIT:
        answer = ask(lambda request: reply(200, {"Pawl-Before": 3, "Age": 0}, admitted=request), *words)
        equal(answer.code, UNSUPPORTED)
        matches(answer.text, "cache")


@test
def a_stale_token_is_told_with_the_greatest():
    for words in PUT, GET, ADMIT:
        answer = ask(lambda request: reply(412, {"Pawl-Greatest": 9}), *words)
        equal(answer.code, STALE)
        matches(answer.text, 'token 7 is too old for "orders": 9 has been admitted')


@test
def a_stale_token_is_stale_also_where_nobody_says_the_greatest():
    for fields in {}, {"Pawl-Greatest": 7}, {"Pawl-Greatest": 1}:
        answer = ask(lambda request: reply(412, fields, b"too late\nand more"), *GET)
        equal(answer.code, STALE)
        matches(answer.text, r"412: too late\)")
    equal(ask(answering(412), *PUT).code, STALE)


@test
def every_status_has_its_code():
    read = {400: INVALID, 401: DENIED, 403: DENIED, 405: UNSUPPORTED, 407: DENIED, 408: UNREACHABLE, 409: INVALID,
            410: INVALID, 413: FULL, 418: INVALID, 421: INVALID, 428: UNSUPPORTED, 429: UNREACHABLE, 431: INVALID,
            500: UNREACHABLE, 501: UNSUPPORTED, 502: UNREACHABLE, 503: UNREACHABLE, 504: UNREACHABLE, 507: FULL,
            202: UNSUPPORTED, 203: UNSUPPORTED, 206: UNSUPPORTED, 300: UNSUPPORTED, 301: UNSUPPORTED, 302: UNSUPPORTED,
            303: UNSUPPORTED, 304: UNSUPPORTED, 307: UNSUPPORTED, 308: UNSUPPORTED}
    written = {**read, 404: UNSUPPORTED, 500: IN_DOUBT, 502: IN_DOUBT, 503: IN_DOUBT, 504: IN_DOUBT, 202: IN_DOUBT,
               203: IN_DOUBT, 206: IN_DOUBT}
    for evidence in False, True:
        for status, code in read.items():
            equal(ask(answering(status, {"Pawl-Before": 1}, evidence=evidence), *GET).code, code, status)
        for status, code in written.items():
            equal(ask(answering(status, evidence=evidence), *PUT).code, code, status)


@test
def a_redirect_is_not_followed_and_says_so():
    other = Scripted(admits)
    answer = ask(lambda request: reply(307, {"Location": other.base + "/orders"}), *ADMIT)
    equal(answer.code, UNSUPPORTED)
    matches(answer.text, "redirects are not followed")
    equal(other.requests, [])


@test
def no_data_yet_is_told_apart_from_a_server_that_knows_nothing():
    equal(ask(answering(404, evidence=True), *GET).code, NOT_FOUND)
    equal(ask(answering(404), *GET).code, UNSUPPORTED)
    equal(ask(answering(404, evidence=True), *FORGET).code, NOT_FOUND)
    equal(ask(lambda request: reply(404, admitted=request), *ADMIT).code, OK)


@test
def data_come_whole_or_not_at_all():
    head = b"HTTP/1.1 200 OK\r\nPawl-Admitted: orders 7\r\nPawl-Before: 3\r\n"
    for body, code in {b"Content-Length: 4\r\n\r\ndata": OK,
                       b"Transfer-Encoding: chunked\r\n\r\n2\r\nda\r\n2\r\nta\r\n0\r\n\r\n": OK,
                       b"Content-Length: 5\r\n\r\ndata": UNREACHABLE,
                       b"Transfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n": UNREACHABLE,
                       b"\r\ndata": UNSUPPORTED,
                       b"Connection: close\r\n\r\ndata": UNSUPPORTED,
                       b"Content-Length: 4\r\nContent-Length: 4\r\n\r\ndata": UNSUPPORTED,
                       b"Content-Length: 4\r\nContent-Encoding: gzip\r\n\r\ndata": UNSUPPORTED}.items():
        def serve(connection, body=body):
            connection.recv(65536)
            connection.sendall(head + body)

        answer = Peer("http://127.0.0.1:%d" % Listener(serve).port).ask(*GET)
        equal(answer.code, code, body, answer.text)
        equal(answer.data, b"data" if code == OK else b"", body)


@test
def data_without_the_token_before_are_refused():
    equal(ask(lambda request: reply(200, None, b"data", admitted=request), *GET).code, UNSUPPORTED)


@test
def interim_answers_are_skipped():
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    for words in PUT, GET, ADMIT:
        equal(ask(lambda request: interim + admits(request), *words).code, OK)


@test
def what_is_not_http_is_refused():
    for noise in b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100 + b"\n", b"HTTP/1.1 200 OK\n\n":
        equal(ask(lambda request: noise, *ADMIT).code, UNSUPPORTED, noise)


@test
def a_huge_head_is_refused():
    answer = ask(lambda request: reply(204, {"X-Long": "x" * 70000}, admitted=request), *ADMIT)
    equal(answer.code, FULL)
    matches(answer.text, "64 KiB")
    equal(ask(lambda request: reply(204, {"X-Long": "x" * 60000}, admitted=request), *ADMIT).code, OK)


@test
def data_that_are_too_much_are_refused_at_once():
    answer = ask(lambda request: b"HTTP/1.1 200 OK\r\nPawl-Admitted: orders 7\r\nContent-Length: 99999999999\r\n\r\n", *GET)
    equal(answer.code, FULL)
    equal(ask(admits, "fill", "orders", 7, (64 << 20) + 1).code, FULL)


@test
def a_slow_server_is_waited_for_and_a_silent_one_is_not():
    def slow(connection):
        connection.recv(65536)
        for byte in b"HTTP/1.1 204 Fine\r\nPawl-Admitted: orders 7\r\n\r\n":
            connection.sendall(bytes([byte]))
            time.sleep(0.002)

    equal(Peer("http://127.0.0.1:%d" % Listener(slow).port).ask(*ADMIT).code, OK)
    silent = Listener(lambda connection: time.sleep(PATIENCE))
    answer = Peer("http://127.0.0.1:%d" % silent.port, wait=300).ask(*ADMIT)
    equal(answer.code, UNREACHABLE)
    matches(answer.text, "in time")


@test
def an_endless_answer_ends_with_the_wait():
    def drip(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"1\r\nx\r\n")
            time.sleep(0.01)

    equal(Peer("http://127.0.0.1:%d" % Listener(drip).port, wait=500).ask(*GET).code, UNREACHABLE)


@test
def a_put_without_an_answer_is_in_doubt_and_is_not_repeated():
    for closes in True, False:
        def answer(request, closes=closes):
            if request.method == "PUT":
                return None if closes else time.sleep(PATIENCE)
            return admits(request)

        server = Scripted(answer)
        said = Peer(server.base, wait=3000).ask(*PUT)
        equal(said.code, IN_DOUBT, said.text)
        matches(said.text, "may be done or not")
        equal(server.methods(), ["HEAD", "PUT"])


@test
def a_put_that_is_answered_by_nonsense_is_in_doubt():
    for nonsense in b"nonsense\r\n", b"HTTP/1.1 204 Fine\r\nbad line\r\n\r\n", b"HTTP/1.1 204 Fi":
        def answer(request, nonsense=nonsense):
            return nonsense if request.method == "PUT" else admits(request)

        equal(ask(answer, *PUT, wait=1000).code, IN_DOUBT, nonsense)


@test
def a_kept_connection_that_was_closed_is_opened_again():
    server = Scripted(admits)
    cutter = Cutter(server)
    peer = Peer("http://127.0.0.1:%d" % cutter.port)
    for words in ADMIT, GET, PUT, FORGET:
        for pause in 0, 0.05, 1.2:
            time.sleep(pause)
            answer = peer.ask(*words)
            equal(answer.code, OK, words, pause, answer.text)
            cutter.cut_all()
            time.sleep(0.05)


@test
def a_server_that_closes_after_each_answer_is_served_as_well():
    def closing(request):
        return admits(request).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)

    for words in ADMIT, GET, PUT:
        server = Scripted(closing)
        peer = Peer(server.base)
        for _ in range(3):
            equal(peer.ask(*words).code, OK)


@test
def an_unasked_word_after_an_answer_is_not_taken_for_the_next_one():
    server = Scripted(lambda request: reply(204, admitted=request) + b"HTTP/1.1 204 Fine\r\nPawl-Admitted: orders 8\r\n\r\n"
                      if request.fence.endswith(" 7") else reply(412, {"Pawl-Greatest": 9}))
    peer = Peer(server.base)
    equal(peer.admit("orders", 7).code, OK)
    time.sleep(0.05)
    equal(peer.admit("orders", 8).code, STALE)


@test
def a_password_is_sent_and_never_shown():
    expected = "Basic " + base64.b64encode("anna:s3cret/+?x".encode()).decode()

    def check(request):
        if request.fields.get("authorization") == expected:
            return admits(request)
        return reply(401, None, ("you said %s" % request.fields.get("authorization")).encode())

    server = Scripted(check)
    equal(Peer(server.base.replace("//", "//anna:s3cret%2F+%3Fx@")).admit("orders", 7).code, OK)
    refused = Peer(server.base.replace("//", "//anna:wr0ng@")).get("orders", 7)
    equal(refused.code, DENIED)
    require("wr0ng" not in refused.text and base64.b64encode(b"anna:wr0ng").decode() not in refused.text, refused.text)
    told = Peer(Scripted(lambda request: reply(500, None, b"password wr0ng")).base.replace("//", "//anna:wr0ng@"))
    require("wr0ng" not in told.get("orders", 7).text)


@test
def a_password_or_a_bearer_token_comes_from_a_file_that_only_we_may_read():
    place = os.path.join(directory(), "secret")
    with open(place, "w", encoding="utf-8") as file:
        file.write("abc.DEF-123~+/==\n")
    os.chmod(place, 0o600)
    server = Scripted(admits)
    equal(Peer(server.base + "?tokenfile=" + place).admit("orders", 7).code, OK)
    equal(server.requests[-1].fields["authorization"], "Bearer abc.DEF-123~+/==")
    equal(Peer(server.base.replace("//", "//anna@") + "?passfile=" + place).admit("orders", 7).code, OK)
    require(server.requests[-1].fields["authorization"].startswith("Basic "))
    equal(Peer(server.base.replace("//", "//anna:x@") + "?tokenfile=" + place).opened.code, INVALID)
    os.chmod(place, 0o644)
    equal(Peer(server.base + "?tokenfile=" + place).opened.code, DENIED)
    os.chmod(place, 0o600)
    for content in "", "two words", "a\r\nX: y", "x" * 5000, "a\nb\n", "a\0b":
        with open(place, "w", encoding="utf-8") as file:
            file.write(content)
        answer = Peer(server.base + "?tokenfile=" + place).opened
        equal(answer.code, INVALID, content)
        require(not content or content not in answer.text)
    equal(Peer(server.base + "?tokenfile=" + place + ".gone").opened.code, SYSTEM)


@test
def a_url_that_makes_no_sense_is_refused():
    for url in ("http:", "http:///x", "http://a,b/", "http://h/?nonsense=1", "http://h?ca=x", "http://h?insecure=1",
                "http://a%20b/", "http://a%2Fb/", "http://u@h/", "http://:p@h/", "http://a%3Ab:p@h/"):
        equal(Peer(url).opened.code, INVALID, url)
    equal(Peer("http://127.0.0.1:%d" % free_port()).admit("orders", 7).code, UNREACHABLE)


@test
def marks_are_listed_whole_or_not_at_all():
    def marks(body, count):
        return lambda request: reply(200, {"Pawl-Marks": count}, body)

    answer = ask(marks(b"a 1\nb/c%20d 9223372036854775807\nbroken 0\n", 3), "list", "-")
    equal(answer.data.decode(), "a=1:0\nb/c d=9223372036854775807:0\nbroken=0:%d\n" % CORRUPT)
    equal(ask(marks(b"a 1\nb 2\n", 2), "list", "b").data, b"b=2:0\n")
    for body, count in ((b"a 1\n", 2), (b"a 1\nb 2", 2), (b"a\n", 1), (b"a x\n", 1), (b"a%zz 1\n", 1), (b" 1\n", 1),
                        (b"a 1\n\n", 2), (b"<html>\n", 1)):
        answer = ask(marks(body, count), "list", "-")
        equal((answer.code, answer.data), (UNSUPPORTED, b""), body)
    equal(ask(lambda request: reply(200, None, b"a 1\n"), "list", "-").code, UNSUPPORTED)


@test
def a_prune_is_asked_once_and_only_of_a_server_that_tells_its_tokens():
    def answer(request):
        return reply(204, {"Pawl-Pruned": 4}) if request.method == "POST" else admits(request)

    server = Scripted(answer)
    pruned = Peer(server.base).ask("prune", 12)
    equal((pruned.code, pruned.number), (OK, 4))
    equal([request.target for request in server.requests], ["/?marks&prefix=%2E", "/?prune=12"])
    equal(ask(answering(204), "prune", 12).code, UNSUPPORTED)
    equal(ask(answering(501), "prune", 12).code, UNSUPPORTED)
    equal(ask(answering(500), "prune", 12).code, IN_DOUBT)


@test
def an_examination_says_what_is_seen():
    found = ask(admits, "examine")
    equal((found.code, found.number), (OK, 1))
    found = ask(lambda request: reply(404), "examine")
    equal(found.code, OK)
    matches(found.data.decode(), "does not tell its tokens")
    equal(ask(lambda request: reply(503), "examine").code, UNREACHABLE)


main(missing="")
