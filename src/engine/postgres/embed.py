#!/usr/bin/env python3
"""embed.py HEADER SOURCE SCHEMA STATEMENTS TRUST - makes sql.h and sql.c of schema.sql, whole, and of the statements, each under its
name and without comments; {trust} in them is pq_trust.sql."""
import pathlib
import re
import sys


def read_statements(text):
    """Pairs of name and text, in their order."""
    found, current = [], None
    for line in text.splitlines():
        match = re.fullmatch(r"-- name: (\w+)", line)
        if match:
            current = []
            found.append((match.group(1), current))
        elif line.startswith("--"):  # comments are for readers of the source, and stand before a name
            current = None
        elif current is not None and line.strip():
            current.append(line.strip())
    return [(name, " ".join(lines)) for name, lines in found]


def literal(text):
    """As numbers: a string literal may not be as long as that."""
    codes = [str(b) for b in text.encode()] + ["0"]
    return "\n".join("        " + ", ".join(codes[i:i + 24]) + "," for i in range(0, len(codes), 24))


header, source = sys.argv[1], sys.argv[2]
schema, statements, trust = (pathlib.Path(p).read_text() for p in sys.argv[3:])
trust = "\n".join(line for line in trust.splitlines() if not line.startswith("--"))
version = re.search(r"FUNCTION lock_version\(\).*'SELECT (\d+)'", schema).group(1)
pairs = [(name, text.replace("{trust}", trust)) for name, text in read_statements(statements)]
with open(header, "w") as out:
    out.write("/* sql.h - made by embed.py. */\n#ifndef PAWL_SQL_H\n#define PAWL_SQL_H\n")
    out.write("enum { SQL_VERSION = %s }; /* lock_version() of the schema */\n" % version)
    out.write("enum sql {\n" + "".join(f"        SQL_{n.upper()},\n" for n, _ in pairs) + "        SQLS\n};\n")
    out.write("extern const char *const sql_name[SQLS];\nextern const char *const sql_text[SQLS];\n"
              "extern const char sql_schema[];\n#endif\n")
with open(source, "w") as out:
    out.write('/* sql.c - made by embed.py. */\n#include "sql.h"\n\n')
    out.write("const char *const sql_name[SQLS] = {\n" + "".join(f'        [SQL_{n.upper()}] = "{n}",\n' for n, _ in pairs)
              + "};\n\n")
    for name, text in pairs:
        out.write(f"static const char {name}_text[] = {{\n{literal(text)}\n}};\n\n")
    out.write("const char *const sql_text[SQLS] = {\n" + "".join(f"        [SQL_{n.upper()}] = {n}_text,\n" for n, _ in pairs)
              + "};\n\n")
    out.write(f"const char sql_schema[] = {{\n{literal(schema)}\n}};\n")
