#!/usr/bin/env python3
"""embed.py SOURCE SCRIPT... - makes a C source of the scripts for shells: each is completion_ and the ending of its name, or zsh."""
import pathlib
import sys

with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write("/* scripts.c - made by embed.py. */\n")
    for path in map(pathlib.Path, sys.argv[2:]):
        codes = [str(byte) for byte in path.read_bytes()] + ["0"]
        rows = ",\n        ".join(", ".join(codes[i:i + 24]) for i in range(0, len(codes), 24))
        name = "completion_" + (path.suffix[1:] or "zsh")
        out.write(f"\nextern const char {name}[];\nconst char {name}[] = {{\n        {rows}}};\n")
