"""result.py - what a program's output says: how many of its tests passed, failed and were skipped."""
import os
import re

CI = os.environ.get("CI", "") not in ("", "0", "false")
TAP_LINE = re.compile(r"^(ok|not ok)\b\s*\d*\s*(?:-\s*)?(.*?)(?:\s+#\s*(SKIP)\b\s*(.*))?$", re.I)


class Result:
    """Failures and skips are (sentence, reason)."""

    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skips = []

    def skip(self, sentence, reason):
        if CI and reason.startswith("missing:"):
            self.failures.append((sentence, "skipped, but CI allows no missing part: " + reason))
        else:
            self.skips.append((sentence, reason))


def read_tap(text, result, ending):
    """Adds the tests of one program. A plan that was not met is a failure of the program, with how it ended."""
    planned = None
    seen = 0
    for line in text.splitlines():
        plan = re.match(r"^1\.\.(\d+)", line)
        if plan:
            planned = int(plan.group(1))
        if line.startswith("Bail out!"):
            result.failures.append(("", line))
        match = TAP_LINE.match(line)
        if not match:
            continue
        seen += 1
        if match.group(1).lower() == "not ok":
            result.failures.append((match.group(2), ""))
        elif match.group(3):
            result.skip(match.group(2), match.group(4))
        else:
            result.passed += 1
    if planned is None or planned != seen:
        how = ending + "; " if ending else ""
        result.failures.append(("", "%s%s tests planned, %d ran" % (how, planned if planned is not None else "no", seen)))


def read_output(output, ending):
    """The result of a program that wrote this; ending says how it ended, None if it exited with status 0."""
    result = Result()
    if "TAP version" in output or re.search(r"^1\.\.\d", output, re.M):
        read_tap(output, result, ending)
    elif ending is None:
        result.passed += 1
    if ending and not result.failures:
        result.failures.append(("", ending))
    return result


def shorten(text, most=300):
    """What a failed program wrote, without what passed, and not without end."""
    lines = [line for line in text.splitlines() if not re.match(r"^ok\b", line)]
    if len(lines) > most:
        lines = lines[:most // 2] + ["... %d lines ..." % (len(lines) - most)] + lines[-(most // 2):]
    return "\n".join(lines)
