"""screen.py - progress: a status line in place on a terminal, a plain line every now and then otherwise; failures at once."""
import os
import shutil
import sys
import time

from . import result

PLAIN_SECONDS = 15  # between two status lines where there is no terminal


def clock(seconds):
    return "%d:%02d" % divmod(int(seconds), 60)


class Screen:
    def __init__(self, out=sys.stdout):
        self.out = out
        self.terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.began = time.monotonic()
        self.last_shown = 0.0
        self.build = None
        self.queue = None
        self.done = []
        self.failed = 0
        self.drawn = False
        self.all_built = None  # when the last build had ended, and how much CPU time the programs done by then should take

    def line(self, text):
        """A line that stays."""
        self.erase()
        print(text, file=self.out, flush=True)

    def erase(self):
        if self.drawn:
            self.out.write("\r\033[K")
            self.drawn = False

    def building(self, name):
        self.build = name

    def built(self, name):
        self.build = None
        if not self.terminal:
            self.line("%7s  built %s" % (clock(time.monotonic() - self.began), name))

    def build_failed(self, build):
        self.build = None
        self.line("---- %s does not build\n%s" % (build.name, build.text()))

    def finished(self, program):
        self.done.append(program)
        if program.result.failures:
            self.failed += 1
            self.line(failure_text(program))

    def show(self, running):
        now = time.monotonic()
        if now - self.last_shown < (0.2 if self.terminal else PLAIN_SECONDS):
            return
        self.last_shown = now
        text = self.status(now, running)
        if not self.terminal:
            self.line(text)
            return
        self.erase()
        # Without line wrap: a terminal that was made narrower would otherwise keep the rest of an old line.
        self.out.write("\033[?7l" + text[:shutil.get_terminal_size().columns - 1] + "\033[?7h")
        self.out.flush()
        self.drawn = True

    def status(self, now, running):
        known = len(self.queue.all)
        text = "%7s  %d of %d%s programs" % (clock(now - self.began), len(self.done), known,
                                             "" if not self.queue.to_build and not self.build else "+")
        text += ", %d failed" % self.failed
        left = self.seconds_left(now)
        text += ", about %s left" % clock(left) if left is not None else ""
        names = ["building " + self.build] if self.build else []
        names += ["%s %s" % (item.program.variant, item.program.name) for item in sorted(running, key=lambda item: item.began)]
        return text + "; " + ", ".join(names)

    def seconds_left(self, now):
        """From the CPU time that the programs done since the last build, and those to do, should take; nothing while there is too
        little to go by."""
        if self.queue.to_build or self.build:
            self.all_built = None
            return None
        cost = self.queue.times.cpu
        done = sum(cost(program) for program in self.done)
        total = sum(cost(program) for program in self.queue.all)
        if self.all_built is None:
            self.all_built = now, done
        since, before = self.all_built
        if done - before <= 0.02 * total:
            return None
        return (now - since) * (total - done) / (done - before)


def failure_text(program):
    lines = ["---- failed: %s (%.0f s)" % (program.title(), program.seconds)]
    lines += [text for text in (result.shorten(program.output), result.shorten(program.errors)) if text]
    for sentence, reason in program.result.failures:
        lines.append("FAILED: %s%s%s" % (program.title(), ": " + sentence if sentence else "", ": " + reason if reason else ""))
        lines.append("  to repeat it: " + program.repeat_command(sentence))
    return "\n".join(lines)
