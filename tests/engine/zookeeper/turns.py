#!/usr/bin/env python3
"""turns.py - claims that confirm their turn: see candidates.py."""
import uuid

from candidates import *


class Kind:
    store = ZooKeeper.one

    @staticmethod
    def mark(store, name, place):
        data, _ = store.keeper.retry(store.keeper.get, "%s/%s/%s" % (store.chroot, name, store.line(name)[place]))
        words = data.decode().split()
        return words[6] if words[:1] == ["pawl1"] else ""

    @staticmethod
    def tenant(store, name):
        return store.owner(name, len(store.line(name)) - 1)

    @staticmethod
    def lives(store, session):
        """A session that is over is not given back: there is a new one in its place. It is taken over, so ask once."""
        client = store.connect(client_id=(session, password_of(session)))
        same = client.client_id[0] == session
        client.stop()
        client.close()
        return same

    @staticmethod
    def strangers(store, name):
        """Queues one as Curator and one as kazoo does, and yields what takes it away."""
        for form in ("_c_%s-lock-", "%s__lock__"):
            word = form % (str(uuid.uuid4()) if form[0] == "_" else uuid.uuid4().hex)
            node = store.keeper.retry(store.keeper.create, "%s/%s/%s" % (store.chroot, name, word), b"127.0.0.1",
                                      ephemeral=True, sequence=True)
            yield lambda: store.keeper.retry(store.keeper.delete, node)


add_candidates(Kind)
main(have("zookeeper"))
