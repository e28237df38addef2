#!/usr/bin/env python3
"""kazoo_lock.py PORT - drives kazoo's Lock for the benchmark."""
import kazoo
from kazoo.client import KazooClient

import jobs

SESSION = 10  # seconds


class Peer:
    def version(self):
        return "kazoo " + kazoo.__version__

    def connect(self):
        client = KazooClient(hosts="127.0.0.1:%d" % self.port, timeout=SESSION)
        client.start()
        return client

    def lock(self, client, name):
        return client.Lock("/" + name)

    def disconnect(self, client):
        client.stop()
        client.close()


jobs.serve(Peer())
