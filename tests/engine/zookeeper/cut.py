#!/usr/bin/env python3
"""cut.py - the connection ends after every few bytes of an exchange, in either direction: see hurt.py."""
from hurt import *

add(ZooKeeper.one, CUTS, within=400)
main(have("zookeeper"))
