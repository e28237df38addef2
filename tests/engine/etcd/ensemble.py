#!/usr/bin/env python3
"""ensemble.py - three members that are killed, stopped and cut off, above all the leader: see hurt.py."""
from hurt import *

add(Etcd.three, THREE, within=180)
main(have("etcd3"))
