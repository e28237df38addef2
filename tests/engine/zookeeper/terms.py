#!/usr/bin/env python3
"""terms.py - sessions that end while somebody holds or waits, and a server that goes away and comes back: see hurt.py."""
from hurt import *

add(ZooKeeper.one, TERMS)
main(have("zookeeper"))
