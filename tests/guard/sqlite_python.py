#!/usr/bin/env python3
"""sqlite_python.py EXTENSION SCHEMA - Python's sqlite3 as a stranger: processes that admit tokens in their own transactions,
race, and are killed in the middle."""
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tap"))
from tap import check, finish  # noqa: E402

EXTENSION, SCHEMA = sys.argv[1:]
WRITERS, UPDATES, KILLS = 4, 60, 40


def connect(path, functions=False):
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    if functions:
        connection.enable_load_extension(True)
        connection.load_extension(EXTENSION)
    return connection


def make(directory, name, journal):
    path = os.path.join(directory, name)
    connection = connect(path)
    connection.execute("PRAGMA journal_mode = " + journal)
    with open(SCHEMA, encoding="utf-8") as schema:
        connection.executescript(schema.read())
    connection.execute("CREATE TABLE counter(number INTEGER NOT NULL, token INTEGER NOT NULL)")
    connection.execute("INSERT INTO counter VALUES (0, 0)")
    connection.close()
    return path


def next_token(shared):
    with shared.get_lock():
        shared.value += 1
        return shared.value


def update(connection, token, pause, admit):
    """Read in one transaction, write in another, as slow programs do: True, or False if the token was too old."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(admit, ("counter", token))
        number = connection.execute("SELECT number FROM counter").fetchone()[0]
        connection.execute("COMMIT")
        time.sleep(pause)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(admit, ("counter", token))
        connection.execute("UPDATE counter SET number = ?, token = ?", (number + 1, token))
        connection.execute("COMMIT")
        return True
    except sqlite3.IntegrityError:
        connection.execute("ROLLBACK")
        return False


VIEW = "INSERT INTO pawl_admit(resource, token) VALUES (?, ?)"
FUNCTION = "SELECT pawl_admit(?, ?)"


def write(path, shared, written, refused, seed, admit):
    connection = connect(path, admit == FUNCTION)
    chance = random.Random(seed)
    for _ in range(UPDATES):
        done = update(connection, next_token(shared), chance.random() / 500, admit)
        counter = written if done else refused
        with counter.get_lock():
            counter.value += 1


def race(path, admit, sentence):
    shared, written, refused = (multiprocessing.Value("q", 0) for _ in range(3))
    writers = [multiprocessing.Process(target=write, args=(path, shared, written, refused, seed, admit))
               for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    connection = connect(path)
    number = connection.execute("SELECT number FROM counter").fetchone()[0]
    check(sentence + ": every writer ended well", all(writer.exitcode == 0 for writer in writers))
    check(sentence + ": the counter is what was confirmed", number == written.value > 0, number, written.value)
    check(sentence + ": each was confirmed or refused", written.value + refused.value == WRITERS * UPDATES)
    check(sentence + ": some were refused", refused.value > 0)
    connection.close()


def write_until_killed(path, shared, confirmed):
    """One at a time, and numbers without a lock: whoever is killed with it would keep it."""
    connection = connect(path)
    while True:
        shared.value = token = shared.value + 1
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(VIEW, ("counter", token))
        connection.execute("UPDATE counter SET number = number + 1, token = ?", (token,))
        connection.execute("COMMIT")
        confirmed.value = token


def kill_writers(path, sentence):
    shared, confirmed = multiprocessing.RawValue("q", 0), multiprocessing.RawValue("q", 0)
    chance = random.Random(4711)
    wrong = []
    for _ in range(KILLS):
        writer = multiprocessing.Process(target=write_until_killed, args=(path, shared, confirmed))
        writer.start()
        time.sleep(0.01 + chance.random() / 20)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        connection = connect(path)
        token = connection.execute("SELECT token FROM counter").fetchone()[0]
        mark = connection.execute("SELECT token FROM pawl_admit WHERE resource = 'counter'").fetchone()
        connection.close()
        if (mark[0] if mark else 0) != token or token < confirmed.value:
            wrong.append((mark, token, confirmed.value))
    check(sentence + ": mark and row are of one transaction", not wrong, wrong[:3])
    check(sentence + ": some were confirmed", confirmed.value > 0)


def main():
    multiprocessing.set_start_method("fork")
    directory = tempfile.mkdtemp(prefix="pawl-test.")
    try:
        for journal in ("DELETE", "WAL"):
            race(make(directory, "race-%s.db" % journal, journal), VIEW, "the view, " + journal)
            kill_writers(make(directory, "kill-%s.db" % journal, journal), "killed, " + journal)
        if hasattr(sqlite3.Connection, "enable_load_extension"):
            race(make(directory, "function.db", "WAL"), FUNCTION, "the function")
        else:
            print("# this Python cannot load extensions; sqlite_shell.sh does")
    finally:
        shutil.rmtree(directory)
    finish()


main()
