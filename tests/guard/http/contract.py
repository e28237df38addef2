#!/usr/bin/env python3
"""contract.py PROGRAM SERVER GUARD-URL [PREFIX] - the contract of the guards, each sentence against a fresh server of its own
that keeps its data at GUARD-URL ({dir}: an empty directory). Those that begin with PREFIX are left out."""
import os
import re
import subprocess
import sys
import tempfile

program, server, store, left_out = [*sys.argv[1:], "-"][:4]
names = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
names = [name for name in names if not name.startswith(left_out)]
count = failed = 0
print("TAP version 13\n1..%d" % len(names))
for name in names:
    with tempfile.TemporaryDirectory(prefix="pawl-http.") as directory:
        served = subprocess.Popen([server, "--port", "0", store.replace("{dir}", directory)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://[^/]+", served.stdout.readline()).group(0)
            done = subprocess.run([program, name], stdout=subprocess.PIPE, text=True, errors="replace", check=False,
                                  env={**os.environ, "PAWL_TEST_STORE": url})
        finally:
            served.kill()
            served.wait()
            served.stdout.close()
    count += 1
    failed += done.returncode != 0
    said = [line for line in done.stdout.splitlines() if not re.match(r"TAP version|1\.\.", line)]
    if not any(re.match(r"(not )?ok 1 ", line) for line in said):
        said.append("not ok 1 - %s" % name)
    print("\n".join(re.sub(r"^(not )?ok 1 ", lambda found: "%sok %d " % (found.group(1) or "", count), line) for line in said),
          flush=True)
sys.exit(1 if failed else 0)
