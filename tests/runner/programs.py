"""programs.py - what there is to run: the variants are built one after the other, and their programs run as soon as they are."""
import hashlib
import json
import os
import re
import subprocess
import tempfile

from . import plan, result

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Without times of an earlier run: the suites whose programs take long.
LONG_SUITES = ["contract", "alloc", "engine", "chaos", "interop", "models", "recipe", "sim", "guard"]


class Program:
    """One test program of one variant, as Meson describes it, and later how it went."""

    def __init__(self, variant, test, directory):
        self.variant = variant
        self.suite = test["suite"][0].split(":")[-1]
        self.name = test["name"]
        self.directory = test["workdir"] or directory
        self.command = [os.path.join(directory, word) if "/" in word and os.path.exists(os.path.join(directory, word)) else word
                        for word in test["cmd"]]
        self.extra = test["env"]
        self.timeout = test["timeout"] or 3600
        self.seconds = self.cpu = 0.0
        self.result = None
        self.retriable = False
        self.output = self.errors = ""

    def key(self):
        return "%s/%s/%s" % (self.variant, self.suite, self.name)

    def title(self):
        return "%s: %s: %s" % (self.variant, self.suite, self.name)

    def ended(self, output, errors, ending, timed_out=False):
        self.result = result.read_output(output, ending)
        grave = plan.GRAVE.search("\n".join((output, errors, ending or "")))
        self.retriable = self.suite in plan.RETRIED and not grave and not timed_out
        self.output, self.errors = output, errors

    def repeat_command(self, sentence=""):
        """What a person types to run just this again."""
        if any(word.endswith(".py") for word in self.command):  # they print the name of a test as a sentence
            sentence = sentence.replace(" ", "_")
        case = " --case '%s'" % sentence if re.fullmatch(r"\w+", sentence) else ""
        name = re.escape(self.name).replace("\\ ", " ").replace("'", ".")
        return "tests/run --variant %s --suite %s%s '^%s$'" % (self.variant, self.suite, case, name)


class Times:
    """How long each program took the last time, for the order and for the time left."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, encoding="utf-8") as file:
                self.seconds = json.load(file)
        except (OSError, ValueError):
            self.seconds = {}

    def wall(self, program):
        return self.seconds.get(program.key(), (None, None))[0]

    def cpu(self, program):
        """CPU seconds, or what a program of its suite needs on average."""
        known = self.seconds.get(program.key())
        return known[1] if known else plan.average_cpu(program.suite, program.variant)

    def save(self, programs):
        """Not being able to is no failure: it is for the next run's order only."""
        self.seconds.update({program.key(): (round(program.seconds, 2), round(program.cpu, 2)) for program in programs})
        try:
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                json.dump(self.seconds, file)
            os.replace(self.path + ".new", self.path)
        except OSError:
            pass


def introspect(directory, what):
    """What Meson wrote about the tests or targets of a build directory."""
    with open(os.path.join(directory, "meson-info", "intro-%s.json" % what), encoding="utf-8") as file:
        return json.load(file)


class Build:
    """Sets up one variant and builds it, in two background steps: which files the second builds is known after the first."""

    def __init__(self, name, variant, wanted, whole):
        self.name = name
        self.variant = variant
        self.wanted = wanted
        self.whole = whole
        self.directory = os.path.join(ROOT, variant.directory)
        self.log = tempfile.TemporaryFile()
        self.child = None
        self.programs = []
        self.chosen = []

    def start(self, command):
        self.child = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ, CC=self.variant.compiler),
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                      start_new_session=True)
        return self.child.pid

    def set_up(self):
        options = self.variant.options
        if any("sanitize" in option for option in options):
            options = [*options, "-Db_lundef=false"]  # sanitizers leave symbols to the program
        command = '.ci/configure "$@" && exec flock -o "$1/.lock" ninja -C "$1" --quiet build.ninja'
        return self.start(["sh", "-c", command, "build", self.directory, *options])

    def compile(self):
        """All of it, or what the chosen programs need."""
        self.programs = [Program(self.name, test, self.directory) for test in introspect(self.directory, "tests")]
        self.chosen = [program for program in self.programs if self.wanted(program)]
        return self.start(["flock", "-o", os.path.join(self.directory, ".lock"),  # another run may be building here
                           "ninja", "-C", self.directory, "--quiet", *([] if self.whole else self.targets())])

    def targets(self):
        """The files that the commands of the chosen programs are made of or depend on."""
        files = {target["id"]: target["filename"] for target in introspect(self.directory, "targets")}
        made = {name for names in files.values() for name in names}
        keys = {program.key() for program in self.chosen}
        wanted = set()
        for test in introspect(self.directory, "tests"):
            program = Program(self.name, test, self.directory)
            if program.key() in keys:
                words = [os.path.join(self.directory, word) for word in (*test["cmd"], *test["env"].values())]
                wanted.update(word for word in words if word in made)
                wanted.update(name for target in test["depends"] for name in files.get(target, ()))
        return sorted(os.path.relpath(name, self.directory) for name in wanted) or ["build.ninja"]

    def text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")


class Queue:
    """What the scheduler takes from."""

    def __init__(self, builds, times, screen):
        self.to_build = list(builds)
        self.times = times
        self.screen = screen
        self.waiting = []
        self.all = []
        self.everything = set()
        self.failed_builds = []
        self.children = {}

    def build_next(self):
        if self.to_build and not self.children:
            build = self.to_build.pop(0)
            self.children[build.set_up()] = build
            self.screen.building(build.name)

    def child_ended(self, pid, status):
        build = self.children.pop(pid)
        build.child.returncode = status
        if status:
            self.failed_builds.append(build)
            self.screen.build_failed(build)
        elif not build.programs:
            self.children[build.compile()] = build
        else:
            self.built(build)

    def built(self, build):
        self.everything |= {(program.suite, program.name) for program in build.programs}
        self.add(build.chosen)
        self.screen.built(build.name)

    def add(self, programs):
        self.all += programs
        self.waiting = sorted(self.waiting + programs, key=self.order)

    def order(self, program):
        """The long ones first, so that none is waited for at the end; of equals not all of one store at once."""
        wall = self.times.wall(program)
        suite = LONG_SUITES.index(program.suite) if program.suite in LONG_SUITES else len(LONG_SUITES)
        mixed = hashlib.sha256(program.key().encode()).digest()
        return -wall if wall is not None else -30.0, suite, mixed

    def take(self):
        self.build_next()
        return self.waiting.pop(0) if self.waiting else None

    def left(self):
        return len(self.waiting) + len(self.to_build) + len(self.children)
