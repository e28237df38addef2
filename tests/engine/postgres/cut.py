#!/usr/bin/env python3
"""cut.py - the connection ends after every few bytes of an exchange, in either direction: see hurt.py."""
from pg import *

add(Postgres.one, CUTS, within=400)
main(missing("postgres"))
