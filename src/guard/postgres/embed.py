#!/usr/bin/env python3
"""embed.py OUTPUT SCRIPT - makes a C header of guard.sql: its text without comments, with a byte 1 wherever the name of
the schema stands, so that another name can be put there."""
import pathlib
import re
import sys

output, script = sys.argv[1], pathlib.Path(sys.argv[2])
lines = [line for line in script.read_text().splitlines() if not re.fullmatch(r"\s*(--.*)?", line)]
text = re.sub(r"\bpawl\b", "\x01", "\n".join(lines) + "\n")
codes = [str(byte) for byte in text.encode()] + ["0"]  # as numbers: a string literal may not be as long as that
with open(output, "w") as out:
    out.write("/* guard_sql.h - made by embed.py. */\n#ifndef PAWL_GUARD_SQL_H\n#define PAWL_GUARD_SQL_H\n")
    out.write("static const char guard_sql[] = {\n")
    for i in range(0, len(codes), 24):
        out.write("        " + ", ".join(codes[i:i + 24]) + ",\n")
    out.write("};\n#endif\n")
