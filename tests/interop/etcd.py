#!/usr/bin/env python3
"""etcd.py - the clients that are in production on etcd exclude us and we them, both ways: etcdctl lock, and the Mutex of etcd's
own Go package, as the distribution has them. python-etcd3 is not here: its Lock is one key (/locks/NAME) that nobody queues
behind, and no client of the two above sees it either."""
from strangers import *

TTL_S = 3
GO = "/usr/share/gocode"


class Etcdctl(Stranger):
    """Holds for as long as it runs; says the name of its key when it does."""
    can_try = False

    def __init__(self, store):
        self.store = store
        self.process = None
        at_end(self.kill)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def request(self, name):
        self.process = subprocess.Popen(
            ["etcdctl", "--endpoints", self.store.hosts(), "lock", "--ttl", str(TTL_S), self.store.prefix + name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
            env={**os.environ, "ETCDCTL_API": "3"})

    def hear(self):
        require(readable(self.process.stdout, 3 * PATIENCE), "etcdctl does not get it")
        line = self.process.stdout.readline()
        require(line.startswith(self.store.prefix), "etcdctl says %r" % line)
        return True

    def release(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        return True


def go_mutex(store):
    source = os.path.join(HERE, "mutex.go")
    program = make("go-mutex", [source], ["go", "build", "-o", "go-mutex", source], GO111MODULE="off", GOPATH=GO, GOFLAGS="",
                   GOCACHE=os.path.join(MADE, "go-cache"))
    return Stranger(program, store.hosts(), TTL_S, store.prefix)


missing = [word for word, there in (("etcd-server etcd-client", not have("etcd")), ("golang-go", shutil.which("go")),
                                    ("golang-etcd-server-dev", os.path.isdir(GO + "/src/go.etcd.io/etcd"))) if not there]
add("etcdctl", Etcd.one, Etcdctl)
add("Go", Etcd.one, go_mutex)
add("Go on three members", Etcd.three, go_mutex, (a_storm_of_both_loses_no_update,))
main(" ".join(missing))
