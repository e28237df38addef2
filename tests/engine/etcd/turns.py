#!/usr/bin/env python3
"""turns.py - claims that confirm their turn: see candidates.py."""
from candidates import *


class Kind:
    store = Etcd.one

    @staticmethod
    def mark(store, name, place):
        words = plain(store.entries(name + "/")[place][1].get("value", "")).split()
        return words[6] if words[:1] == ["pawl1"] else ""

    @staticmethod
    def tenant(store, name):
        return store.lease(name, len(store.line(name)) - 1)

    @staticmethod
    def lives(store, lease):
        return lease in store.leases()

    @staticmethod
    def strangers(store, name):
        """Queues one as etcdctl lock and Go's Mutex do, and yields what takes it away."""
        lease = store.asked("lease/grant", {"TTL": "600"})["ID"]
        key = "%s/%x" % (name, int(lease))
        store.asked("kv/put", {"key": text64(store.prefix + key), "lease": lease})
        yield lambda: store.revoke(lease)


add_candidates(Kind)
main(have("etcd"))
