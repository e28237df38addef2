#!/usr/bin/env python3
"""redis_py.py PORT - drives redis-py's Lock for the benchmark."""
import redis

import jobs

TTL = 10  # seconds


class Peer:
    def version(self):
        return "redis-py " + redis.__version__

    def connect(self):
        return redis.Redis(host="127.0.0.1", port=self.port)

    def lock(self, client, name):
        return client.lock(name, timeout=TTL)

    def disconnect(self, client):
        client.close()


jobs.serve(Peer())
