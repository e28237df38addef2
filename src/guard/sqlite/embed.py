#!/usr/bin/env python3
"""embed.py HEADER SQL - makes schema.h of schema.sql: its text, without comments."""
import sys

header, sql = sys.argv[1:]
with open(sql, encoding="utf-8") as file:
    lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("--")]
with open(header, "w", encoding="utf-8") as out:
    out.write("/* schema.h - made of schema.sql by embed.py. */\nstatic const char schema_text[] = {\n")
    codes = [str(byte) for byte in ("\n".join(lines) + "\n").encode()] + ["0"]
    out.writelines("        " + ", ".join(codes[i:i + 24]) + ",\n" for i in range(0, len(codes), 24))
    out.write("};\n")
