"""build.py DIRECTORY VARIANT [MESON OPTION...] - sets up a build directory and builds it: all of it, or, with the name of a variant,
what its programs need and nothing else."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from runner import plan, programs  # noqa: E402


def inside(directory, path):
    """The path as ninja knows it, if it is in the build directory."""
    path = os.path.join(directory, path)
    return os.path.relpath(path, directory) if path.startswith(directory + "/") else None


def targets_of(directory, variant):
    """The files that the commands of the variant's programs are made of or depend on."""
    made = {target["id"]: target["filename"] for target in programs.introspect(directory, "targets")}
    built = {name for names in made.values() for name in names}
    wanted = set()
    for test in programs.introspect(directory, "tests"):
        if not variant.why_not(test["suite"][0].split(":")[-1], test["name"]):
            wanted.update(name for target in test["depends"] for name in made.get(target, ()))
            wanted.update(name for name in (os.path.join(directory, word) for word in test["cmd"]) if name in built)
            wanted.update(value for value in test["env"].values() if value in built)
    return sorted(filter(None, (inside(directory, name) for name in wanted)))


def main(directory, variant, *options):
    status = subprocess.run([os.path.join(programs.ROOT, ".ci/configure"), directory, *options], check=False).returncode
    if status:
        return status
    targets = targets_of(directory, plan.VARIANTS[variant]) if variant else []
    return subprocess.run(["ninja", "-C", directory, "--quiet", *targets], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
