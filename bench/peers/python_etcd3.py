#!/usr/bin/env python3
"""python_etcd3.py PORT - drives python-etcd3's Lock for the benchmark. It takes a lease for each lock."""
import etcd3

import jobs

TTL = 10  # seconds


class Peer:
    def version(self):
        return "python-etcd3 " + etcd3.__version__

    def connect(self):
        return etcd3.client(host="127.0.0.1", port=self.port)

    def lock(self, client, name):
        return client.lock(name, ttl=TTL)

    def disconnect(self, client):
        client.close()


jobs.serve(Peer())
