#!/usr/bin/env python3
"""lost.py - pawl_update on the guards in PostgreSQL and Redis where every connection is cut: as many changes are made as are
said to be. Started by tests/servers/with."""
from servers import *


def cut_off(url, mean):
    """The same store behind a network that cuts."""
    port = re.search(r"127\.0\.0\.1:(\d+)", url).group(1)
    proxy = Proxy(int(port), "--cut", str(mean), "--seed", "3", "--spare", "600")
    return url.replace(":" + port, ":%d" % proxy.port)


@test(within=300)
def every_change_that_is_said_to_be_made_in_postgresql_was_made():
    url = os.environ["POSTGRES_URL"] + "?schema=lost"
    watcher = Peer(url)
    equal(watcher.ask("look", "number").code, NOT_FOUND)
    there = cut_off(url, 4000)
    counted("postgres", [Peer(there, wait=5000) for _ in range(8)], watcher)


@test(within=300)
def every_change_that_is_said_to_be_made_in_redis_was_made():
    url = os.environ["REDIS_URL"] + "?prefix=lost:"
    there = cut_off(url, 4000)
    counted("redis", [Peer(there, wait=5000) for _ in range(8)], Peer(url))


main(missing="")
