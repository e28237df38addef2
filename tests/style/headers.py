#!/usr/bin/env python3
"""headers.py - each public header stands alone, in every C and C++ that a user may have, without a warning; and its
structures have no holes, so that every byte of an options struct is known to be zero or meant."""
import os
import shutil
import tempfile

from style import ROOT, check, done, files, run, skip

WARNINGS = "-pedantic -Wall -Wextra -Wundef -Wconversion -Werror -fsyntax-only".split()
LANGUAGES = [
    ("gcc", "c", ["c99", "c11", "c17"], ["-Wstrict-prototypes", "-Wshadow"]),
    ("clang", "c", ["c99", "c11", "c17"], ["-Wstrict-prototypes", "-Wshadow"]),
    ("g++", "c++", ["c++11", "c++14", "c++17", "c++20"], ["-Wold-style-cast", "-Wzero-as-null-pointer-constant"]),
    ("clang++", "c++", ["c++11", "c++14", "c++17", "c++20"], ["-Wold-style-cast"]),
]

headers = [path[len("include/"):] for path in files(".h") if path.startswith("include/")]


def compile_one(compiler, language, header, options):
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "alone." + ("c" if language == "c" else "cc"))
        with open(source, "w", encoding="utf-8") as file:
            # Twice, for its guard; a definition, because an empty unit is not ISO C.
            file.write("#include <%s>\n#include <%s>\nextern int alone;\n" % (header, header))
        status, text = run(compiler, "-I" + os.path.join(ROOT, "include"), "-x", language, *WARNINGS, *options, source)
    return [text or "failed"] if status else []


for header_ in headers:
    for compiler_, language_, standards, more in LANGUAGES:
        for standard in standards:
            sentence = "%s stands alone as %s with %s" % (header_, standard, compiler_)
            if shutil.which(compiler_):
                check(sentence, compile_one(compiler_, language_, header_, ["-std=" + standard, *more]))
            else:
                skip(sentence, "missing: " + compiler_)
    for compiler_ in ("gcc", "clang"):
        sentence = "%s has no padding holes, says %s" % (header_, compiler_)
        if shutil.which(compiler_):
            check(sentence, compile_one(compiler_, "c", header_, ["-std=c11", "-Wpadded"]))
        else:
            skip(sentence, "missing: " + compiler_)
done()
