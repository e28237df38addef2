"""style.py - what the style checks share: the files of the project, and TAP."""
import os
import subprocess
import sys

ROOT = os.environ.get("SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD_DIR") or os.path.join(ROOT, "build")

_count = 0
_failed = 0


def files(*endings):
    """The project's files, as paths below ROOT. Of a clone only what git has; of a tarball everything."""
    os.chdir(ROOT)
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False) if os.path.exists(".git") else None
    if listed and listed.returncode == 0:
        paths = listed.stdout.splitlines()
    else:
        paths = [os.path.relpath(os.path.join(directory, name), ROOT)
                 for directory, _, names in os.walk(ROOT) for name in names
                 if not os.path.relpath(directory, ROOT).startswith(("build", ".git"))]
    return sorted(path for path in paths if os.path.isfile(path) and (not endings or path.endswith(endings)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def check(sentence, problems):
    """One test: passed if there are no problems; else they are told."""
    global _count, _failed
    _count += 1
    problems = list(problems)
    print("%s %d - %s" % ("not ok" if problems else "ok", _count, sentence))
    for problem in problems[:100]:
        for line in str(problem).splitlines():
            print("# " + line)
    _failed += bool(problems)


def skip(sentence, why):
    global _count
    _count += 1
    print("ok %d - %s # SKIP %s" % (_count, sentence, why))


def done():
    print("1..%d" % _count)
    sys.exit(1 if _failed else 0)


def run(*command, **options):
    """Returns the exit status and everything that was written."""
    done_ = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    return done_.returncode, done_.stdout


print("TAP version 13")
