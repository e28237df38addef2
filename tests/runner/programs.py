"""programs.py - what there is to run: the variants are built one after the other, and their programs run as soon as they are."""
import hashlib
import json
import os
import re
import subprocess
import sys
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
        self.alone = not test["is_parallel"]
        self.priority = test["priority"]
        self.seconds = self.cpu = 0.0
        self.result = None
        self.retriable = False
        self.output = self.errors = ""

    def key(self):
        return "%s/%s/%s" % (self.variant, self.suite, self.name)

    def title(self):
        return "%s: %s: %s" % (self.variant, self.suite, self.name)

    def ended(self, output, errors, ending):
        self.result = result.read_output(output, ending)
        self.retriable = self.suite in plan.RETRIED and not plan.GRAVE.search(output) and not plan.GRAVE.search(errors)
        self.output, self.errors = output, errors

    def repeat_command(self, sentence=""):
        """What a person types to run just this again."""
        case = " --case '%s'" % sentence if re.fullmatch(r"\w+", sentence) else ""
        return "tests/run --variant %s --suite %s%s '^%s$'" % (self.variant, self.suite, case, re.escape(self.name).replace("\\ ", " "))


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
        self.seconds.update({program.key(): (round(program.seconds, 2), round(program.cpu, 2)) for program in programs})
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.seconds, file)


def introspect(directory, what):
    with open(os.path.join(directory, "meson-info", "intro-%s.json" % what), encoding="utf-8") as file:
        return json.load(file)


class Build:
    """Sets up and builds one variant, in the background."""

    def __init__(self, name, variant):
        self.name = name
        self.variant = variant
        self.directory = os.path.join(ROOT, variant.directory)
        self.log = tempfile.TemporaryFile()
        self.child = None

    def start(self):
        options = self.variant.options
        if any("sanitize" in option for option in options):
            options = [*options, "-Db_lundef=false"]  # sanitizers leave symbols to the program
        self.child = subprocess.Popen([sys.executable, "-B", os.path.join(ROOT, "tests/runner/build.py"), self.directory,
                                       self.name if self.variant.part else "", *options], cwd=ROOT,
                                      env=dict(os.environ, CC=self.variant.compiler), stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=subprocess.STDOUT)
        return self.child.pid

    def text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def programs(self):
        return [Program(self.name, test, self.directory) for test in introspect(self.directory, "tests")]


class Queue:
    """What the scheduler takes from. A program that wants the machine for itself waits until nothing else is left."""

    def __init__(self, builds, wanted, times, screen):
        self.to_build = list(builds)
        self.wanted = wanted
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
            self.children[build.start()] = build
            self.screen.building(build.name)

    def child_ended(self, pid, status):
        build = self.children.pop(pid)
        build.child.returncode = status
        if status:
            self.failed_builds.append(build)
            self.screen.build_failed(build)
            return
        programs = build.programs()
        self.everything |= {(program.suite, program.name) for program in programs}
        chosen = [program for program in programs if self.wanted(program)]
        self.all += chosen
        self.waiting = sorted(self.waiting + chosen, key=self.order)
        self.screen.built(build.name)

    def order(self, program):
        """The long ones first, so that none is waited for at the end; of equals not all of one store at once."""
        wall = self.times.wall(program)
        suite = LONG_SUITES.index(program.suite) if program.suite in LONG_SUITES else len(LONG_SUITES)
        mixed = hashlib.sha256(program.key().encode()).digest()
        return program.alone, -program.priority, -wall if wall is not None else -30.0, suite, mixed

    def take(self, running):
        self.build_next()
        if not self.waiting or any(program.alone for program in running):
            return None
        if self.waiting[0].alone and (running or self.to_build or self.children):
            return None
        return self.waiting.pop(0)

    def left(self):
        return len(self.waiting) + len(self.to_build) + len(self.children)
