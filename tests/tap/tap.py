"""tap.py - TAP for tests in Python that say one sentence after the other:

    check("a lock is taken", code == 0, code)
    ...
    finish()

What stands behind the condition is shown if it does not hold."""
import sys

count = failed = 0


def check(sentence, good, *notes):
    global count, failed
    count += 1
    failed += not good
    print("%sok %d - %s" % ("" if good else "not ", count, sentence))
    for note in notes if not good else ():
        print("# %r" % (note,))
    sys.stdout.flush()


def finish():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)
