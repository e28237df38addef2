#!/usr/bin/env python3
"""tls.py - https: who answers is checked, and who asks may be. A TLS end of Python's in front of the example server."""
import ssl

from servers import *


def openssl(*words, place):
    done = subprocess.run(["openssl", *words], cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    require(done.returncode == 0, done.stdout)


def certificates():
    """A directory with ca.pem; server.pem for localhost and 127.0.0.1; other.pem for another name; client.pem."""
    place = directory()
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out",
            "ca.pem", "-days", "2", "-subj", "/CN=test authority", place=place)
    for name, names in {"server": "DNS:localhost,IP:127.0.0.1", "other": "DNS:other.example", "client": "DNS:client"}.items():
        with open(os.path.join(place, name + ".ext"), "w", encoding="utf-8") as file:
            file.write("subjectAltName=%s\n" % names)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key", "-out",
                name + ".csr", "-subj", "/CN=" + name, place=place)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", name + ".ext", "-out", name + ".pem", place=place)
        os.chmod(os.path.join(place, name + ".key"), 0o600)
    return place


class Terminator(Listener):
    """TLS outside, the server behind it in the clear."""

    def __init__(self, server, place, name="server", asks=False):
        self.server = server
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(os.path.join(place, name + ".pem"), os.path.join(place, name + ".key"))
        if asks:
            self.context.load_verify_locations(os.path.join(place, "ca.pem"))
            self.context.verify_mode = ssl.CERT_REQUIRED
        super().__init__(self.relay)

    def relay(self, plain):
        with self.context.wrap_socket(plain, server_side=True) as outside:
            with socket.create_connection(("127.0.0.1", self.server.port)) as inside:
                back = threading.Thread(target=self.pump, args=(inside, outside), daemon=True)
                back.start()
                self.pump(outside, inside)
                back.join()

    def pump(self, source, target):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


place = None


def setting(name="server", asks=False):
    global place
    place = certificates()
    return Terminator(Fenced(), place, name, asks)


def url(end, host="localhost", **options):
    query = "&".join("%s=%s" % (key, os.path.join(place, value) if value.endswith((".pem", ".key")) else value)
                     for key, value in options.items())
    return "https://%s:%d?%s" % (host, end.port, query)


@test
def a_server_that_is_who_it_should_be_is_used():
    end = setting()
    for host in "localhost", "127.0.0.1":
        peer = Peer(url(end, host, ca="ca.pem"))
        answer = peer.put("orders-" + host, 7, b"data")
        equal(answer.code, OK, answer.text)
        got = peer.get("orders-" + host, 8)
        equal((got.code, got.data, got.number), (OK, b"data", 7))
        equal(peer.admit("orders-" + host, 7).code, STALE)
    equal(peer.ask("fill", "big", 7, 5 << 20).code, OK)
    equal(len(peer.get("big", 7).data), 5 << 20)


@test
def a_server_that_nobody_trusts_is_refused_by_default():
    end = setting()
    answer = Peer(url(end)).put("orders", 7)
    equal(answer.code, DENIED, answer.text)
    equal(os.listdir(end.server.directory), [])


@test
def a_server_of_another_name_is_refused_unless_it_is_asked_for():
    end = setting("other")
    equal(Peer(url(end, ca="ca.pem")).admit("orders", 7).code, DENIED)
    equal(Peer(url(end, ca="ca.pem", servername="other.example")).admit("orders", 7).code, OK)


@test
def insecure_asks_nobody_and_an_examination_says_so():
    end = setting("other")
    peer = Peer(url(end, insecure="1"))
    equal(peer.admit("orders", 7).code, OK)
    for no in ("false", "off", "NO", "0"):
        equal(Peer(url(end, insecure=no)).admit("orders", 7).code, DENIED)
    matches(peer.ask("examine").data.decode(), "certificate is not verified")


@test
def a_server_that_asks_who_we_are_is_shown_our_certificate():
    end = setting(asks=True)
    equal(Peer(url(end, ca="ca.pem", cert="client.pem", key="client.key")).put("orders", 7).code, OK)
    refused = Peer(url(end, ca="ca.pem")).put("orders", 8)
    require(refused.code in (DENIED, UNREACHABLE), show(refused.code), refused.text)
    equal(Peer(url(end, ca="ca.pem", cert="client.pem", key="client.key")).get("orders", 9).data, b"data")


@test
def plain_http_is_not_spoken_to_a_port_with_tls_nor_tls_to_a_plain_one():
    end = setting()
    require(Peer("http://127.0.0.1:%d" % end.port).put("orders", 7).code in (UNREACHABLE, UNSUPPORTED))
    answer = Peer("https://127.0.0.1:%d" % end.server.port, wait=3000).put("orders", 7)
    require(answer.code in (UNREACHABLE, DENIED), show(answer.code), answer.text)
    equal(os.listdir(end.server.directory), [])


main(missing="" if shutil.which("openssl") else "openssl")
