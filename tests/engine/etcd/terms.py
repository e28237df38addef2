#!/usr/bin/env python3
"""terms.py - leases that end while somebody holds or waits, and a server that goes away and comes back: see hurt.py."""
from hurt import *

SLOW = 60000  # a ttl whose first keep-alive comes long after a test has lost its patience


def sentinel(store):
    """That of the lease by which "a" is held: it is put a moment after the grant."""
    end = "/lease-%x" % store.lease("a")
    return eventually(lambda: [key for key in store.keys(".pawl/mail/") if key.endswith(end)], "no sentinel")[0]


def etcdctl(store, *words):
    done = subprocess.run(["etcdctl", "--endpoints", store.members[0].where, *words], env={**os.environ, "ETCDCTL_API": "3"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    equal(done.returncode, 0, done.stdout)


def told_without_a_keep_alive(holder):
    eventually(lambda: holder.check() == LOST, "it was not told before the next keep-alive", patience=10)
    eventually(lambda: holder.number("lost") == 1, "the callback did not run")
    equal(holder.number("reason"), SESSION)
    equal(holder.release(), LOST)


def a_lease_that_is_revoked_by_hand_is_lost_at_once(store):
    holder, waiter = Peer(store.url()), warmed(store.url())
    equal(holder.acquire("a", ttl=SLOW).code, OK)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    sentinel(store)
    etcdctl(store, "lease", "revoke", "%x" % store.lease("a"))
    equal(waiter.hear().code, OK)
    told_without_a_keep_alive(holder)
    equal(waiter.release(), OK)
    equal(holder.acquire("a", ttl=SLOW).code, OK, "the client is not able to go on")
    equal(holder.release(), OK)


def a_lease_that_is_revoked_while_the_client_is_cut_off_is_found_when_it_is_back(store):
    between = Between(store.members[0])
    holder = Peer(store.url(between, timeout="2s"))
    equal(holder.acquire("a", ttl=SLOW).code, OK)
    sentinel(store)
    between.refuse = True
    between.cut_all()
    store.revoke(store.lease("a"))
    between.refuse = False
    told_without_a_keep_alive(holder)


def a_sentinel_that_is_deleted_by_hand_takes_its_lease_along(store):
    """The holder is told that it is lost: then nobody else may have to wait for it."""
    holder, waiter = Peer(store.url()), warmed(store.url())
    equal(holder.acquire("a", ttl=SLOW).code, OK)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    store.remove(sentinel(store))
    equal(waiter.hear().code, OK)
    told_without_a_keep_alive(holder)
    equal(waiter.release(), OK)


add(Etcd.one, (a_lease_that_is_revoked_by_hand_is_lost_at_once,
               a_lease_that_is_revoked_while_the_client_is_cut_off_is_found_when_it_is_back,
               a_sentinel_that_is_deleted_by_hand_takes_its_lease_along,
               *TERMS))
main(have("etcd"))
