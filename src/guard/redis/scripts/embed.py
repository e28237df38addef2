#!/usr/bin/env python3
"""embed.py HEADER SOURCE LIBRARY DIRECTORY SCRIPT... - what is made of the Lua files. Each script defines one function,
pawl_NAME(keys, args), most on top of fence.lua.

HEADER and SOURCE: the scripts for EVAL, as text in C and with the digest by which the server knows it. LIBRARY: the functions
for other clients, for FUNCTION LOAD (Redis 7). DIRECTORY: the scripts as files, for those that have no functions (Redis 6)."""
import hashlib
import pathlib
import re
import sys

OF_THE_GUARD = ("list", "prune", "line", "probe", "swap_once")  # of no use to others
ALONE = ("list", "line", "probe")  # they need nothing of fence.lua

header, source, library, directory = map(pathlib.Path, sys.argv[1:5])
scripts = {path.stem: path.read_text() for path in map(pathlib.Path, sys.argv[5:])}
fence = (pathlib.Path(__file__).parent / "fence.lua").read_text()


def whole(name):
    return ("" if name in ALONE else fence + "\n") + f"{scripts[name]}\nreturn pawl_{name}(KEYS, ARGV)\n"


def bare(text):
    """Comments and empty lines are for readers of the source."""
    return "".join(line.strip() + "\n" for line in text.splitlines() if not re.fullmatch(r"\s*(--.*)?", line))


def literal(text):
    """As numbers: a string literal may not be as long as that."""
    codes = [str(b) for b in text.encode()] + ["0"]
    return "\n".join("        " + ", ".join(codes[i:i + 24]) + "," for i in range(0, len(codes), 24))


def write_header():
    with open(header, "w") as out:
        out.write(f"/* {header.name} - made by scripts/embed.py. */\n#ifndef PAWL_FENCE_SCRIPTS_H\n"
                  "#define PAWL_FENCE_SCRIPTS_H\n#include <stddef.h>\nenum fence_script {\n")
        out.writelines(f"        FENCE_{name.upper()},\n" for name in scripts)
        out.write("        FENCE_SCRIPTS\n};\nstruct fence_text {\n        const char *digest;\n        const char *text;\n"
                  "        size_t length;\n};\nextern const struct fence_text fence_list[FENCE_SCRIPTS];\n#endif\n")


def write_source():
    with open(source, "w") as out:
        out.write(f'/* {source.name} - made by scripts/embed.py. */\n#include "{header.name}"\n\n')
        for name in scripts:
            out.write(f"static const char {name}_text[] = {{\n{literal(bare(whole(name)))}\n}};\n\n")
        out.write("const struct fence_text fence_list[FENCE_SCRIPTS] = {\n")
        for name in scripts:
            digest = hashlib.sha1(bare(whole(name)).encode()).hexdigest()
            out.write(f'        [FENCE_{name.upper()}] = {{"{digest}", {name}_text, sizeof({name}_text) - 1}},\n')
        out.write("};\n")


def write_library():
    shared = [name for name in scripts if name not in OF_THE_GUARD]
    with open(library, "w") as out:
        out.write("#!lua name=pawl\n-- pawl.lua: writes that carry a fencing token. redis-cli -x FUNCTION LOAD REPLACE < pawl.lua\n"
                  "-- FCALL pawl_set 3 KEY pawl:mark:KEY pawl:floor:PREFIX TOKEN VALUE, and so on: see docs/guards/redis.md.\n\n")
        out.write("\n".join([fence, *(scripts[name] for name in shared)]) + "\n")
        out.writelines(f"redis.register_function('pawl_{name}', pawl_{name})\n" for name in shared)
    for name in shared:
        (directory / f"{name}.lua").write_text(whole(name))


write_header()
write_source()
write_library()
