#!/usr/bin/env python3
"""embed.py HEADER SOURCE SCRIPT... - makes scripts.h and scripts.c of the Lua files: each with what it includes, as text
and with the digest by which the server knows it."""
import hashlib
import pathlib
import re
import sys


def read(path):
    lines = []
    for line in path.read_text().splitlines():
        match = re.fullmatch(r"--include (\S+)", line)
        if match:
            lines.append(read(path.parent / match.group(1)).rstrip("\n"))
        elif not re.fullmatch(r"\s*(--.*)?", line):  # comments and empty lines are for readers of the source
            lines.append(line.strip())
    return "\n".join(lines) + "\n"


def literal(text):
    """As numbers: a string literal may not be as long as that."""
    codes = [str(b) for b in text.encode()] + ["0"]
    return "\n".join("        " + ", ".join(codes[i:i + 24]) + "," for i in range(0, len(codes), 24))


header, source, scripts = sys.argv[1], sys.argv[2], [pathlib.Path(p) for p in sys.argv[3:]]
names = [p.stem for p in scripts]
with open(header, "w") as out:
    out.write("/* scripts.h - made by scripts/embed.py. */\n#ifndef PAWL_SCRIPTS_H\n#define PAWL_SCRIPTS_H\n")
    out.write("#include <stddef.h>\n")
    out.write("enum script {\n" + "".join(f"        SCRIPT_{n.upper()},\n" for n in names) + "        SCRIPTS\n};\n")
    out.write("struct script_text {\n        const char *name;\n        const char *digest;\n        const char *text;\n"
              "        size_t length;\n};\nextern const struct script_text script_list[SCRIPTS];\n#endif\n")
with open(source, "w") as out:
    out.write('/* scripts.c - made by scripts/embed.py. */\n#include "scripts.h"\n\n')
    for name, path in zip(names, scripts):
        out.write(f"static const char {name}_text[] = {{\n{literal(read(path))}\n}};\n\n")
    out.write("const struct script_text script_list[SCRIPTS] = {\n")
    for name, path in zip(names, scripts):
        digest = hashlib.sha1(read(path).encode()).hexdigest()
        out.write(f'        [SCRIPT_{name.upper()}] = {{"{name}", "{digest}", {name}_text, sizeof({name}_text) - 1}},\n')
    out.write("};\n")
