#!/usr/bin/env python3
"""terms.py - leases that end while somebody holds or waits, and a server that goes away and comes back: see hurt.py."""
from hurt import *

add(Etcd.one, TERMS)
main(have("etcd"))
