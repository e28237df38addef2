#!/usr/bin/env python3
"""ensemble.py - three servers that are killed, stopped and cut off, above all the leader: see hurt.py."""
from hurt import *

add(ZooKeeper.three, THREE, within=180)
main(have("zookeeper3"))
