"""report.py - the end of a run: what passed by suite and variant, what it cost, the slowest programs, flaky ones, the last line."""
from . import plan
from .screen import clock


def table(programs, variants):
    """Passed tests by suite and variant, and CPU seconds against the budget."""
    suites = sorted({program.suite for program in programs})
    lines = ["%-10s" % "suite" + "".join("%16s" % variant for variant in variants) + "%14s" % "CPU / budget"]
    for suite in suites:
        line = "%-10s" % suite
        for variant in variants:
            line += "%16s" % cell([p for p in programs if p.suite == suite and p.variant == variant])
        used = sum(p.cpu for p in programs if p.suite == suite)
        budget = plan.BUDGET.get(suite)
        line += "%7.0f s / %s%s" % (used, budget or "no budget", "  above its budget" if budget and used > budget else "")
        lines.append(line)
    return "\n".join(lines)


def cell(programs):
    if not programs:
        return "-"
    passed = sum(p.result.passed for p in programs)
    failed = sum(len(p.result.failures) for p in programs)
    return "%d%s" % (passed, ", %d failed" % failed if failed else "")


def slowest(programs, count=10):
    lines = ["the slowest programs:"]
    for program in sorted(programs, key=lambda p: -p.seconds)[:count]:
        lines.append("%7s  CPU %5.1f s  %s" % (clock(program.seconds), program.cpu, program.title()))
    return "\n".join(lines)


def skips(programs):
    """By reason: one line each, however many variants and engines say so."""
    reasons = {}
    for program in programs:
        for _, reason in program.result.skips:
            reasons[reason or "no reason given"] = reasons.get(reason or "no reason given", 0) + 1
    return "\n".join("skipped %4d: %s" % (count, reason) for reason, count in sorted(reasons.items(), key=lambda item: -item[1]))


def last_line(programs, failures, flaky):
    passed = sum(program.result.passed for program in programs)
    skipped = sum(len(program.result.skips) for program in programs)
    text = "%d passed, %d failed" % (passed, failures)
    text += ", %d skipped" % skipped if skipped else ""
    return text + ", %d flaky" % flaky


def costs(programs, left_behind, seconds, cpu):
    """Where the time went: the programs, the builds, and the servers by their command."""
    parts = [("programs", sum(program.cpu for program in programs)), *left_behind.items()]
    text = ", ".join("%s %.0f s" % part for part in sorted(parts, key=lambda part: -part[1]) if part[1] >= 1)
    return "%s, %.1f minutes of CPU time: %s" % (clock(seconds), cpu / 60, text)
