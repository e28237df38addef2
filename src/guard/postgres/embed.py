#!/usr/bin/env python3
"""embed.py OUTPUT SCRIPT TRUST - makes a C header of guard.sql: the script as it is, for administrators; and its text without
comments, with a byte 1 wherever the name of the schema stands, so that another name can be put there. And of pq_trust.sql a string."""
import pathlib
import re
import sys



def write_text(out, name, text):
    codes = [str(byte) for byte in text.encode()] + ["0"]  # as numbers: a string literal may not be as long as that
    out.write("static const char %s[] = {\n" % name)
    for i in range(0, len(codes), 24):
        out.write("        " + ", ".join(codes[i:i + 24]) + ",\n")
    out.write("};\n")


def quoted(text):
    lines = [line.strip() for line in text.splitlines() if not line.startswith("--")]
    return " \\\n        ".join('"%s\\n"' % line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)


output, script, trust = sys.argv[1], pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(sys.argv[3]).read_text()
lines = [line for line in script.splitlines() if not re.fullmatch(r"\s*(--.*)?", line)]
with open(output, "w") as header:
    header.write("/* guard_sql.h - made by embed.py. */\n#ifndef PAWL_GUARD_SQL_H\n#define PAWL_GUARD_SQL_H\n")
    write_text(header, "guard_script", script)
    write_text(header, "guard_template", re.sub(r"\bpawl\b", "\x01", "\n".join(lines) + "\n"))
    header.write("#define GUARD_TRUST %s\n#endif\n" % quoted(trust))
