#!/usr/bin/env python3
"""mutants.py - breaks the core in one place at a time and asks the simulator whether it notices.

    python3 tests/sim/mutants.py BUILD_DIR

By hand, after changes to src/core or to the checks: a mutant that survives is a check that is missing. The tree itself is
not touched. Exit status 0 if every mutant was found."""
import pathlib
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


def build(work, objects_of):
    core = work / "src" / "core"
    objects = []
    for part in PARTS:
        objects.append(str(work / (part + ".o")))
        subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-O1", "-w",
                        f"-I{work / 'include'}", f"-I{work / 'src'}", "-c", "-o", objects[-1], str(core / part)],
                       check=True)
    libraries = [objects_of / name for name in ("tests/sim/libsim.a", "tests/sim/libsim_model.a", "src/libpawl_inside.a",
                                                "src/libpawl_base.a")]
    subprocess.run(["cc", "-o", str(work / "sim"), str(objects_of / "tests/sim/sim.p/main.c.o"), *objects,
                    "-Wl,--start-group", *map(str, libraries), "-Wl,--end-group", "-pthread"], check=True)


def is_found(work):
    run = subprocess.run([str(work / "sim"), "--seeds", SEEDS], capture_output=True, text=True)
    first = [line for line in run.stdout.splitlines() if line.startswith("# seed") or "gave up" in line]
    print("   ", first[0] if first else "nothing was found")
    return run.returncode != 0


def main():
    survivors = 0
    for what, name, old, new in MUTANTS:
        with tempfile.TemporaryDirectory() as directory:
            work = pathlib.Path(directory)
            shutil.copytree(ROOT / "src", work / "src")
            shutil.copytree(ROOT / "include", work / "include")
            path = work / "src" / "core" / name
            text = path.read_text()
            if old not in text:
                sys.exit(f"{name} has changed: there is no place for the mutant '{what}' any more")
            path.write_text(text.replace(old, new, 1))
            print(what)
            build(work, pathlib.Path(sys.argv[1]).resolve())
            survivors += not is_found(work)
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} mutants found")
    return survivors != 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main())
