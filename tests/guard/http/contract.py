#!/usr/bin/env python3
"""contract.py PROGRAM SERVER GUARD-URL [PREFIX...] - the contract of the guards, each sentence against a fresh server of its
own that keeps its data at GUARD-URL ({dir}: an empty directory). Those that begin with a PREFIX are left out.
contract.py PROGRAM DOCUMENT - [PREFIX...] - the same against the server in Python that stands in the document."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

program, server, store, *left_out = sys.argv[1:]
count = failed = 0


def start_example(directory):
    """The server, and its URL."""
    served = subprocess.Popen([server, "--port", "0", store.replace("{dir}", directory)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True)
    return served, re.search(r"http://[^/]+", served.stdout.readline()).group(0)


def start_python(directory):
    with open(server, encoding="utf-8") as file:
        code = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(os.path.join(directory, "server.py"), "w", encoding="utf-8") as file:
        file.write(code.replace("8088", str(port)))
    with open(os.path.join(directory, "log"), "w", encoding="utf-8") as log:
        served = subprocess.Popen([sys.executable, "server.py"], cwd=directory, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=log)
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.02)
    return served, "http://127.0.0.1:%d" % port


def run(name):
    """What the program says about one sentence, and its status."""
    start = start_python if server.endswith(".md") else start_example
    environment = dict(os.environ)
    if server.endswith(".md"):
        environment["PAWL_TEST_WITHOUT"] = "forget list prune examine versions"
    with tempfile.TemporaryDirectory(prefix="pawl-http.") as directory:
        served, environment["PAWL_TEST_STORE"] = start(directory)
        try:
            done = subprocess.run([program, name], stdout=subprocess.PIPE, text=True, errors="replace", check=False,
                                  env=environment)
        finally:
            served.kill()
            served.wait()
            served.stdout.close()
    lines = [line for line in done.stdout.splitlines() if not re.match(r"TAP version|1\.\.", line)]
    if not any(re.match(r"(not )?ok 1 ", line) for line in lines):
        lines.append("not ok 1 - %s" % name)
    return lines, done.returncode


names = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
names = [name for name in names if not name.startswith(tuple(left_out))]
print("TAP version 13\n1..%d" % len(names))
for name in names:
    said, status = run(name)
    count += 1
    failed += status != 0
    for line in said:
        print(re.sub(r"^(not )?ok 1 ", lambda found: "%sok %d " % (found.group(1) or "", count), line), flush=True)
sys.exit(1 if failed else 0)
