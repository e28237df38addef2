#!/usr/bin/env python3
"""symbols.py - what the libraries export, what they use, and what they keep. Reads the plain build."""
import os
import re

from style import BUILD, check, done, files, read, run

# Writable data in the library, each with its reason. Nothing else may be: state belongs to a client.
WRITABLE = {
    "completed.0": "the compiler's own",
    "__dso_handle": "the compiler's own",
    "_edata": "the linker's own", "__bss_start": "the linker's own", "_end": "the linker's own",
    "opened": "local: who is open in this process, so that a child of fork() can let go of what it inherited",
    "opened_mutex": "local: guards that list",
    "opened_once": "local: the fork handler is installed once",
    "opened_error": "local: whether that failed",
    "capacity": "local: how large a new file is; tests make it small, to fill it",
    "__TMC_END__": "the linker's own", "_DYNAMIC": "the linker's own", "_GLOBAL_OFFSET_TABLE_": "the linker's own",
}

# DESIGN: the library never prints, exits, aborts, reads the environment or installs signal handlers.
# __assert_fail is allowed: it says that we, not the caller, were wrong.
NEVER = re.compile(r"^(printf|puts|putchar|perror|fprintf|vprintf|vfprintf|fputs|fputc|fwrite|__printf_chk|__fprintf_chk|"
                   r"__vfprintf_chk|stdout|stderr|stdin|exit|_exit|_Exit|quick_exit|abort|raise|getenv|secure_getenv|"
                   r"signal|sigaction|setenv|putenv|unsetenv|system|popen|setlocale|gmtime|localtime|ctime|strerror|"
                   r"strtok|srand|rand|random|srandom|environ|__environ)(@|$)")


def defined(path, *options):
    _, text = run("nm", "--defined-only", *options, path)
    return {line.split()[-1].split("@")[0] for line in text.splitlines() if len(line.split()) == 3
            and line.split()[1] != "A"}


def undefined(path, *options):
    _, text = run("nm", "--undefined-only", *options, path)
    return {line.split()[-1] for line in text.splitlines() if line.split() and line.split()[0] in ("U", "w")}


def declared():
    names = set()
    for path in files(".h"):
        if path.startswith("include/"):
            text = re.sub(r"/\*.*?\*/", " ", read(path), flags=re.S)
            text = re.sub(r"^\s*#.*(\\\n.*)*", "", text, flags=re.M)
            for declaration in re.findall(r"\bPAWL_EXPORT\b[^;{]*?\b(pawl_\w+)\s*\(", text, flags=re.S):
                names.add(declaration)
    return names


def differences(left_name, left, right_name, right):
    yield from ("%s: only in %s" % (name, left_name) for name in sorted(left - right))
    yield from ("%s: only in %s" % (name, right_name) for name in sorted(right - left))


def writable(path):
    _, text = run("objdump", "-t", path)
    for line in text.splitlines():
        match = re.match(r"^[0-9a-f]+ .{7} (\.data|\.bss|\.tdata|\.tbss)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", line)
        if match and not match.group(3).startswith(".") and match.group(3) not in WRITABLE:
            yield "%s in %s (%d bytes)" % (match.group(3), match.group(1), int(match.group(2), 16))


def objects(layer):
    directory = os.path.join(BUILD, "src", "libpawl_inside.a.p")
    return [os.path.join(directory, name) for name in os.listdir(directory)
            if name.startswith(layer) and name.endswith(".o")]


shared = os.path.join(BUILD, "libpawl.so")
static = os.path.join(BUILD, "libpawl.a")
exported = defined(shared, "-D")
in_map = set(re.findall(r"^\s*(pawl_\w+);", read("src/pawl.sym"), re.M))

check("src/pawl.sym lists what the headers declare",
      differences("src/pawl.sym", in_map, "the headers", declared()))
check("libpawl.so exports what src/pawl.sym lists", differences("libpawl.so", exported, "src/pawl.sym", in_map))
check("libpawl.a has the same global names", differences("libpawl.a", defined(static, "-g"), "libpawl.so", exported))
_, dynamic = run("readelf", "-dW", shared)
check("libpawl.so needs the C library only",
      (line for line in dynamic.splitlines() if "(NEEDED)" in line and not re.search(r"\[(libc|ld-linux.*)\.so", line)))
check("libpawl.so has a soname", [] if re.search(r"SONAME.*\[libpawl\.so\.0\.\d+\]", dynamic) else [dynamic])
check("the library does not print, exit, abort, read the environment or use what is not safe with threads",
      sorted(name for name in undefined(shared, "-D") if NEVER.match(name)))
check("the library has no writable global data but what is listed, with reasons", writable(shared))

modules = [os.path.join(BUILD, "src/engine", name) for name in os.listdir(os.path.join(BUILD, "src/engine"))
           if re.match(r"pawl-.*\.so$", name)]
for module in modules:
    name_ = os.path.basename(module)
    check("%s exports pawl_module and nothing else" % name_,
          differences(name_, defined(module, "-D"), "the rule", {"pawl_module"}))
    check("%s uses no symbol of the library" % name_,
          sorted(name for name in undefined(module, "-D") if name.startswith("pawl_")))
    check("%s has no writable global data" % name_, writable(module))

for engine in sorted({path.split("/")[2] for path in files(".c") if re.match(r"src/engine/[^/]+/", path)}):
    own = objects("engine_%s_" % engine)
    if not own:
        continue
    names = set().union(*(defined(path, "-g") for path in own))
    used = set().union(*(undefined(path) for path in objects("") if path not in own))
    check("of the engine %s the others use its ops table only" % engine, sorted(used & names - {engine + "_engine"}))
done()
