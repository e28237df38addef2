#!/usr/bin/env python3
"""mutants.py - breaks the core, or a recipe, in one place at a time and asks the simulator whether it notices.

    python3 tests/sim/mutants.py BUILD_DIR [core | recipes]

By hand, after changes to src/core, to src/recipe or to the checks: a mutant that survives is a check that is missing. The tree
itself is not touched. Exit status 0 if every mutant was found."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SEEDS = "1..300"
ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ["core.c", "renew.c", "lease.c", "stats.c"]

# what is wrong, the file, the text, what stands there instead
MUTANTS = [
    ("leases are kept in the order in which they were told", "renew.c",
     "while (before != list && container_of(before, struct pawl_lock, term)->sent_at > lock->sent_at)", "while (0)"),
    ("a late renewal resurrects a lease", "renew.c",
     "if (lock->valid_until <= now) { /* a lease is never resurrected */", "if (0) {"),
    ("no allowance for clocks", "lease.h", "return sent_at + ttl - lease_allowance(ttl);", "return sent_at + ttl;"),
    ("a renewal counts from its answer", "renew.c",
     "lock->sent_at = sent_at;\n                lock->valid_until = lease_end(sent_at, class->ttl);",
     "lock->sent_at = now;\n                lock->valid_until = lease_end(now, class->ttl);"),
    ("a grant that came too late is believed", "core.c",
     "else if (now >= lease_end(grant->sent_at, claim->ttl))", "else if (0)"),
    ("a grant that came after the cancel is kept", "core.c",
     "if (lock->state != LOCK_WAITING) { /* given up meanwhile */\n                engine->ops->release(engine, claim);",
     "if (lock->state != LOCK_WAITING) {"),
    ("a lost lock is not given back", "core.c", "        let_go(lock);\n        core_end_renewal(lock, PAWL_LOST);",
     "        core_end_renewal(lock, PAWL_LOST);"),
    ("what the store says is gone is believed on", "core.c",
     "if (held(lock))\n                core_lose(lock, reason, loop_now(lock->core->loop));",
     "if (held(lock))\n                lock->known = true;"),
    ("every attempt has the same uid", "core.c", "lock->claim.uid[1] = ++core->attempts;", "lock->claim.uid[1] = 7;"),
    ("a failed renewal is not tried again", "renew.c",
     "class->retry_at = earlier(class->retry_at, now + lease_retry_after(class->ttl));", ""),
    ("a lease that is being renewed never ends", "renew.c", "lose_expired(&class->renewing, now);", ""),
    ("a wait never ends", "core.c", "if (lock->state == LOCK_WAITING)\n                core_cancel(lock, true);",
     "if (0)\n                core_cancel(lock, true);"),
    ("renewal goes on after the release", "core.c", "renew_end(lock); /* no renewal is sent after the release */", ""),
]

# the same, the scene of ./recipes that is to notice, and the seeds if it takes more of them
RECIPE_MUTANTS = [
    ("wait-die: nobody dies", "txn_wait.c", "if (must_die(txn, part, &scene) || was_asked_by_older(txn, part))",
     "if (was_asked_by_older(txn, part))", "txn_wait_die"),
    ("wound-wait: nobody is wounded", "txn_wait.c", "if (may_wound(txn, &scene))", "if (0)", "txn_wound_wait"),
    ("wound-wait: who is asked holds on", "txn_wait.c", "bool first = !doubted && txn_wound(txn);", "bool first = !doubted;",
     "txn_wound_wait"),
    ("back off: who holds something waits for ever", "txn.c", "bool bounded = bound_try(txn, options);",
     "bool bounded = false;", "txn_back_off"),
    ("a transaction does not see that it has lost a lock", "txn.c", "else if (one != PAWL_OK)\n                        return one;",
     "else if (0)\n                        return one;", "txn_ordered"),
    ("a restart keeps its locks", "txn.c", "(void)release_all(txn);\n", "", "txn_back_off"),
    ("once: no second look", "once.c",
     "return look_alone(client, name, options->why, result, lock);", "return code;", "once"),
    ("once: who was overtaken keeps its own result", "once.c", "code = pawl_once_finish(lock, result, options->keep_ms);",
     "code = pawl_once_finish(lock, result, options->keep_ms) == PAWL_NO_MEMORY;", "once"),
    ("once: a result is not stored", "once.c", "int code = result ? store(lock, result, keep_ms) : PAWL_INVALID;",
     "int code = result ? PAWL_OK : PAWL_INVALID;", "once"),
    ("limit: the bucket is not written back", "limit.c", "return keep(lock, full_at, full_at - now);", "return PAWL_OK;", "limit"),
    ("limit: nobody waits", "limit.c", "recipe_sleep(client, wait + wait / 100);", "", "limit"),
    ("limit: what was lost is taken all the same", "limit.c", "if (code != PAWL_LOST)", "if (code == PAWL_LOST)\n"
     "                        code = PAWL_OK;", "limit"),
    ("election: a value of another epoch is shown", "election.c", "if (value.token != leader->epoch) {", "if (0) {", "election"),
    ("rw: an upgrade in spite of a lost right", "rw.c", "if (pawl_check(rw->right) != PAWL_OK) /* lost",
     "if (0) /* lost", "rw"),
    ("rw: writers need no right", "rw.c", "if (code == PAWL_OK && mode != PAWL_READ)",
     "if (code == PAWL_OK && mode == PAWL_UPGRADABLE)", "rw"),
    ("barrier: who is taken for dead goes through", "barrier.c",
     "code = pawl_check(barrier->lock);\n                if (code == PAWL_OK && barrier->through >= mine)",
     "if (code == PAWL_OK && barrier->through >= mine)", "barrier", "1..1500"),
    ("barrier: all who are there go through", "barrier.c", "crowd.tokens[first + barrier->parties - 1]",
     "crowd.tokens[crowd.count - 1]", "barrier"),
    ("latch: nobody waits", "latch.c", "if (code == PAWL_OK && count == 0)", "if (code == PAWL_OK)", "barrier"),
    ("flight: who has the lock does not look again", "flight.c",
     "if (code == PAWL_OK && age != AGE_FRESH)\n                code = build(flight, lock, value);",
     "if (code == PAWL_OK)\n                code = build(flight, lock, value);", "flight"),
]


def compile_part(work, folder, part):
    target = str(work / (part + ".o"))
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-O1", "-w", f"-I{work / 'include'}",
                    f"-I{work / 'src'}", "-c", "-o", target, str(work / "src" / folder / part)], check=True)
    return target


def link(work, objects_of, objects, libraries, flags=()):
    libraries = [objects_of / name for name in [*libraries, "src/libpawl_inside.a", "src/libpawl_base.a"]]
    subprocess.run(["cc", "-o", str(work / "sim"), *map(str, objects), *flags, "-Wl,--start-group", *map(str, libraries),
                    "-Wl,--end-group", "-pthread"], check=True)


def build_core(work, objects_of, name):
    objects = [compile_part(work, "core", part) for part in PARTS]
    link(work, objects_of, [objects_of / "tests/sim/sim.p/main.c.o", *objects],
         ["tests/sim/libsim.a", "tests/sim/libsim_model.a"])


def build_recipes(work, objects_of, name):
    text = (ROOT / "tests/sim/recipes/meson.build").read_text()
    names = re.findall(r"'(\w+)'", text[text.index("foreach name"):text.index("wrapped +=")])
    objects = [path for path in (objects_of / "tests/sim/recipes/sim_recipes.p").glob("*.o")]
    link(work, objects_of, [*objects, compile_part(work, "recipe", name)], ["tests/sim/libsim_model.a"],
         ["-Wl,--wrap=" + name for name in names])


def is_found(work, arguments, seeds=SEEDS):
    run = subprocess.run([str(work / "sim"), "--seeds", seeds, *arguments], capture_output=True, text=True)
    first = [line for line in run.stdout.splitlines() if line.startswith("# ")] if run.returncode else []
    print("   ", first[0] if first else "nothing was found")
    return run.returncode != 0


def breaks(objects_of, build, folder, mutant):
    """True if the simulator notices."""
    what, name, old, new, *scene = mutant
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        shutil.copytree(ROOT / "src", work / "src")
        shutil.copytree(ROOT / "include", work / "include")
        path = work / "src" / folder / name
        text = path.read_text()
        if old not in text:
            sys.exit(f"{name} has changed: there is no place for the mutant '{what}' any more")
        path.write_text(text.replace(old, new, 1))
        print(what, flush=True)
        build(work, objects_of, name)
        return is_found(work, ["--scene", scene[0]] if scene else [], *scene[1:])


def main():
    objects_of = pathlib.Path(sys.argv[1]).resolve()
    wanted = sys.argv[2] if len(sys.argv) == 3 else ""
    found = []
    if wanted != "recipes":
        found += [breaks(objects_of, build_core, "core", mutant) for mutant in MUTANTS]
    if wanted != "core":
        found += [breaks(objects_of, build_recipes, "recipe", mutant) for mutant in RECIPE_MUTANTS]
    print(f"{sum(found)} of {len(found)} mutants found")
    return not all(found)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["core"], ["recipes"]):
        sys.exit(__doc__)
    sys.exit(main())
