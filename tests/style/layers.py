#!/usr/bin/env python3
"""layers.py - includes go downwards only (ARCHITECTURE.md). Every #include "..." is resolved to a file of the project and
checked against the arrows; <...> outside of engines and guards must be the C library's."""
import os
import re

from style import check, done, files, read

PUBLIC = ("include/",)
ENGINE = ("src/engine/engine.h",)

# What a file under a path may include, beside its own folder; the longest path that fits decides.
ARROWS = {
    "include/": PUBLIC,
    "src/base/": PUBLIC,
    "src/loop/": PUBLIC + ("src/base/",),
    "src/net/": PUBLIC + ("src/base/", "src/loop/"),
    "src/guard/": PUBLIC + ("src/base/",),
    "src/guard/*/": PUBLIC + ("src/guard/guard.h", "src/base/", "src/loop/", "src/net/"),
    "src/engine/": PUBLIC + ("src/base/", "src/loop/"),
    "src/engine/*/": PUBLIC + ENGINE + ("src/base/", "src/loop/", "src/net/", "src/engine/session/"),
    "src/core/": PUBLIC + ENGINE + ("src/base/", "src/loop/"),
    "src/api/": PUBLIC + ENGINE + ("src/base/", "src/loop/", "src/core/", "src/guard/guard.h"),
    "src/recipe/": PUBLIC,
    "cli/": PUBLIC,
    "bench/": PUBLIC,
    "examples/": PUBLIC,
}

# Who may use the client library of a store.
MAY_USE_LIBRARIES = ("src/engine/*/", "src/guard/*/", "src/net/", "bench/", "examples/")

LIBC = re.compile(r"^(sys|linux|asm|net|netinet|arpa)/[\w/]+\.h$|^(" + "|".join("""
    alloca assert ctype dirent dlfcn elf endian err errno execinfo fcntl fenv features float fnmatch ftw getopt glob grp
    inttypes iso646 langinfo libgen limits link locale malloc math memory mntent netdb poll pthread pty pwd regex sched
    semaphore setjmp sgtty signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string
    strings sysexits syslog termios tgmath threads time uchar ucontext unistd utime utmp wait wchar wctype
    """.split()) + r")\.h$")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def layer_of(path):
    inner = re.match(r"src/(engine|guard)/[^/]+/", path)
    if inner:
        return "src/%s/*/" % inner.group(1), inner.group(0)
    for layer in ARROWS:
        if path.startswith(layer):
            return layer, layer
    return None, None


# Made by the build, each from files of the folder that uses it.
GENERATED = {"engine/redis/scripts.h": "src/engine/redis/scripts/embed.py",
             "engine/postgres/sql.h": "src/engine/postgres/embed.py",
             "guard/postgres/guard_sql.h": "src/guard/postgres/embed.py",
             "guard/sqlite/schema.h": "src/guard/sqlite/schema.sql",
             "guard/redis/fence_scripts.h": "src/guard/redis/scripts/embed.py",
             "engine/etcd/etcd.pb-c.h": "src/engine/etcd/etcd.proto"}


def resolve(path, name):
    """The file of the project that is meant, as the compiler would look for it."""
    if name in GENERATED:
        return GENERATED[name]
    for directory in (os.path.dirname(path), "include", "src"):
        candidate = os.path.normpath(os.path.join(directory, name))
        if os.path.isfile(candidate):
            return candidate
    return None


def problems_of(path):
    layer, own = layer_of(path)
    for kind, name in INCLUDE.findall(read(path)):
        target = resolve(path, name)
        if kind == "<" and target and target.startswith("include/"):
            continue
        if kind == "<":
            if layer not in MAY_USE_LIBRARIES and not LIBC.match(name):
                yield "%s includes <%s>, which is not the C library's" % (path, name)
        elif not target:
            yield '%s includes "%s", which is not there' % (path, name)
        elif not target.startswith((own,) + ARROWS[layer]):
            yield "%s includes %s: not downwards" % (path, target)


sources = files(".c", ".h")
for layer_name in ARROWS:
    mine = [path for path in sources if layer_of(path)[0] == layer_name]
    if mine:
        check("%s includes only what stands below it" % layer_name.rstrip("/"),
              (problem for path in mine for problem in problems_of(path)))

engines = {path.split("/")[2] for path in sources if layer_of(path)[0] == "src/engine/*/"}
above = [path for path in sources if path.startswith(("src/core/", "src/api/"))]
check("core and api name no engine",
      ("%s names %s" % (path, name) for path in above for name in re.findall(r"\b(\w+)_engine\b", read(path))
       if name in engines))
CLOCKS = re.compile(r"\b(clock_gettime|gettimeofday|timespec_get|getrandom|getentropy|time|random|rand|srand|"
                    r"clock_nanosleep|nanosleep|usleep|sleep)[ ]?\(")
check("core has time and randomness from the loop alone",
      ("%s calls %s" % (path, name) for path in above if path.startswith("src/core/")
       for name in CLOCKS.findall(read(path))))
check("recipes have time and randomness from when.c alone",
      ("%s calls %s" % (path, name) for path in sources if path.startswith("src/recipe/") and path != "src/recipe/when.c"
       for name in CLOCKS.findall(read(path))))
done()
