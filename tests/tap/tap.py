"""tap.py - TAP for tests in Python that say one sentence after the other:

    equal("a lock is taken", code, 0)
    check("the message names the lock", "orders" in text, text)
    ...
    finish()

A failed equal() shows what was expected and what there was; a failed check() shows the values after the condition, as they
were."""
import sys

count = failed = 0


def check(sentence, good, *values):
    global count, failed
    count += 1
    failed += not good
    print("%sok %d - %s" % ("" if good else "not ", count, sentence))
    for value in values if not good else ():
        print("#   actual:   %r" % (value,))
    sys.stdout.flush()


def equal(sentence, actual, expected):
    check(sentence, actual == expected)
    if actual != expected:
        print("#   expected: %r\n#   actual:   %r" % (expected, actual), flush=True)


def skip(why, sentence):
    """why: "missing: ..." for what should be there."""
    global count
    count += 1
    print("ok %d - %s # SKIP %s" % (count, sentence, why), flush=True)


def finish():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)
