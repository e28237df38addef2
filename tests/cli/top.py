#!/usr/bin/env python3
"""top.py - `pawl top` on terminals of several sizes: what they show, what the keys do, and how the terminal is left."""
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "../tap")]
from screen import Screen
from tap import check, equal, finish
from terminal import PATIENCE, PAWL, await_state, await_text, in_terminal

# NO_COLOR of the person who runs the tests is not meant.
os.environ.pop("NO_COLOR", None)
UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = b"\033[A", b"\033OB", b"\033[5~", b"\033[6~", b"\033[H", b"\033[F"
LONG = "nightly-backup/of/the/customers/database/host-17.example.com"


def acquire(*words):
    subprocess.run([PAWL, "acquire", "--ttl", "10m", *words], stdout=subprocess.DEVNULL, check=True)


class Top:
    """One `pawl top` and the screen it draws on."""

    def __init__(self, shell, height, width, *options, env=()):
        self.shell = shell
        self.screen = Screen(height, width)
        self.fed = len(shell.output)
        self.set_size(height, width)
        self.modes = termios.tcgetattr(shell.terminal)
        self.job = shell.do("start", ["/usr/bin/env", *env, PAWL, "top", "--interval", "50ms", *options], True, None)

    def set_size(self, height, width):
        fcntl.ioctl(self.shell.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, height, width):
        self.pump()
        self.set_size(height, width)
        self.screen.resize(height, width)

    def pump(self):
        self.shell.do("owner")
        data, self.fed = self.shell.output[self.fed:], len(self.shell.output)
        self.screen.feed(data)

    def lines(self):
        self.pump()
        return self.screen.lines()

    def sees(self, test):
        """True as soon as the lines pass the test."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if test(self.lines()):
                    return True
            except IndexError:
                pass  # not all of it is there yet
            time.sleep(0.02)
        return False

    def shows(self, sentence, test):
        check(sentence, self.sees(test), "\n".join(self.screen.lines()))

    def type(self, keys):
        self.shell.type(keys)

    def key(self, sentence, keys, test):
        self.type(keys)
        self.shows(sentence, test)

    def selected(self):
        """The row that is shown in reverse."""
        self.pump()
        for row in range(self.screen.height):
            if ";7" in self.screen.cells[row][0][1]:
                return self.screen.lines()[row]
        return ""

    def frames(self, count):
        """Lets some more screens be drawn."""
        end = time.monotonic() + PATIENCE
        begin = self.shell.output.count(b"\033[H")
        while self.shell.output.count(b"\033[H") < begin + count and time.monotonic() < end:
            self.pump()
        self.pump()

    def fits(self, sentence):
        """No character behind the last column, no line below the last one, no command but those of a screen."""
        self.frames(3)  # of the size before
        self.screen.overflowed, self.screen.unknown = False, []
        self.frames(4)
        check(sentence, not self.screen.overflowed and not self.screen.unknown, self.screen.unknown, self.screen.lines())

    def is_restored(self, sentence):
        self.pump()
        check(sentence, not self.screen.alternate and self.screen.cursor_shown and
              termios.tcgetattr(self.shell.terminal) == self.modes,
              (self.screen.alternate, self.screen.cursor_shown, termios.tcgetattr(self.shell.terminal)[:4], self.modes[:4]))

    def quit(self, sentence="q ends it"):
        self.type(b"q")
        equal(sentence, self.shell.do("wait"), 0)
        self.is_restored("and the terminal is as before")


def begins(row, text):
    return lambda lines: lines[row].startswith(text)


def column_of(screen, row, text):
    """The column where a word begins, as the terminal counts."""
    cells = [cell for cell, _ in screen.cells[row]]
    for column in range(len(cells)):
        if "".join(cells[column:]).startswith(text) and (column == 0 or cells[column - 1] == " "):
            return column
    return None


def sizes(shell, place):
    acquire(LONG, "--owner", "web-frontend-host-number-one.example.com:4711:python3")
    acquire("wide/錠前と鍵/ロック", "--note", "./nächster lauf")
    acquire("marks/e\u0301\u0308/क्षि")
    for i in range(30):
        acquire("name/%02d" % i)
    top = Top(shell, 24, 80)
    top.shows("80x24: the columns of a small terminal",
              lambda lines: lines[2].split() == ["NAME", "STATE", "WAIT", "HELD", "LEFT", "OWNER"])
    top.shows("the last line says which rows are seen", begins(23, "1-20 of 33"))
    top.key("sorted by name", b"n", begins(3, "marks/"))
    top.type(END)
    top.shows("a long name is shortened in the middle", lambda lines: any(
        line.startswith("nightly") and "…" in line.split()[0] and line.split()[0].endswith("example.com") for line in lines))
    top.shows("so is a long owner", lambda lines: any("web-fron" in line and line.endswith("python3") for line in lines))
    top.fits("nothing is wider than the screen")
    top.type(HOME + b"/e/\n")
    top.sees(lambda lines: lines[6] == "" and "…" in lines[4])
    places = {column_of(top.screen, row, "held") for row in (3, 4, 5)}
    check("wide characters and combining marks leave the columns straight", len(places) == 1 and None not in places,
          places, top.screen.lines())
    top.key("Escape shows all again", b"\033", begins(23, "1-20 of 33"))

    top.resize(10, 40)
    top.shows("40x10: the columns that matter most", lambda lines: lines[2].split() == ["NAME", "STATE", "HELD", "OWNER"])
    top.shows("six rows", begins(9, "1-6 of 33"))
    top.fits("nothing is wider than that screen")
    top.resize(50, 200)
    top.shows("200x50: all columns", lambda lines: lines[2].split() == ["NAME", "STATE", "WAIT", "HELD", "LEFT", "TOKEN", "OWNER", "NOTE"])
    top.shows("whole names", lambda lines: any(line.startswith(LONG + " ") for line in lines))
    top.shows("and all rows", lambda lines: lines[35].startswith("wide/") and lines[36] == "" and lines[49].startswith("?"))
    top.fits("nothing is wider than the widest screen")
    for size in (2, 9), (1, 1), (4, 20):
        top.resize(*size)
        top.fits("%dx%d is a screen, too" % size)
    top.resize(10, 60)
    top.shows("and it grows again", begins(3, "marks/"))
    top.quit()


def scrolling(shell, place):
    for i in range(20):
        acquire("name/%02d" % i)
    top = Top(shell, 10, 60)
    top.shows("the first row is selected", lambda lines: top.selected().startswith("name/00"))
    for what, keys, selected, first in (
            ("down", DOWN, "01", "00"), ("page down", PAGE_DOWN, "07", "06"), ("up", UP, "06", "06"), ("end", END, "19", "14"),
            ("beyond the end", PAGE_DOWN, "19", "14"), ("page up", PAGE_UP, "13", "08"), ("two keys at once", b"kk", "11", "08"),
            ("home", HOME, "00", "00"), ("a screen by f", b"f", "06", "06"), ("and back by b", b"b", "00", "00"),
            ("an arrow with Ctrl, which means nothing", b"\033[1;5B\033[200~j", "01", "00")):
        top.key("key: " + what, keys, lambda lines: top.selected().startswith("name/" + selected) and lines[3].startswith("name/" + first))
    # An arrow in two pieces, as a slow line brings it. A pause of the machine between them makes it an Escape: then it is tried again.
    def in_pieces(lines):
        if not top.selected().startswith("name/02"):
            top.type(HOME + b"j\033")
            top.type(b"[B")
            top.frames(2)
        return top.selected().startswith("name/02")
    top.shows("an arrow that comes in two pieces", in_pieces)
    top.type(b"jjr")
    top.shows("the selection stays on its row when the order changes", lambda lines: top.selected().startswith("name/04"))
    acquire("name/04x")
    top.shows("and when a row comes in", lambda lines: begins(9, "1")(lines) and "of 21" in lines[9] and top.selected().startswith("name/04 "))
    top.quit()


def order_of(lines):
    return [line.split()[0] for line in lines[3:6]]


def sorting(shell, place):
    acquire("b", "--owner", "zoe")
    acquire("c", "--owner", "max")
    acquire("a", "--owner", "ann", "--ttl", "5m")
    waiter = subprocess.Popen([PAWL, "run", "-q", "c", "true"])
    top = Top(shell, 24, 80)
    top.shows("the most wanted first", lambda lines: order_of(lines) == ["c", "a", "b"] and "sorted by waiters" in lines[1])
    for what, keys, order in (("name", b"n", "abc"), ("holder", b"o", "acb"), ("held for", b"t", "bca"), ("lease left", b"l", "abc"),
                              ("waiters", b"w", "cab"), ("name", b"s", "abc"), ("name, reversed", b"r", "cba"), ("holder", b"s", "acb")):
        top.key("key %s: by %s" % (keys.decode(), what), keys,
                lambda lines: order_of(lines) == list(order) and lines[1] == "sorted by " + what)
    top.key("/ shows only what contains a text, as it is typed", b"/MA", lambda lines: lines[3].startswith("c ") and lines[4] == "")
    top.shows("the text is seen", lambda lines: lines[23] == "/MA_" and lines[1].endswith("only MA"))
    top.key("Backspace takes a letter back", b"xq\x7f\x7f", lambda lines: lines[23] == "/MA_" and lines[3].startswith("c "))
    top.key("q is a letter there, and so is an umlaut", b"q\xc3\xa4", lambda lines: lines[23] == "/MAqä_")
    top.shows("no lock is found", lambda lines: lines[3] == "no lock, owner or note contains that")
    top.key("a whole one is taken back", b"\x7f\x7f", lambda lines: lines[23] == "/MA_" and lines[3].startswith("c "))
    top.key("Enter keeps it", b"\r", lambda lines: lines[23].startswith("?") and lines[1].endswith("only MA"))
    top.key("another one is begun", b"/\x15zoe", lambda lines: lines[3].startswith("b "))
    top.key("and given up by Escape", b"\033", lambda lines: lines[3].startswith("c ") and lines[1].endswith("only MA"))
    top.key("? shows the keys", b"?", lambda lines: lines[2].startswith("up down") and any(line.startswith("q ") for line in lines))
    top.key("Escape leaves the help", b"\033", lambda lines: lines[1].endswith("only MA"))
    top.key("h as well", b"h", lambda lines: lines[2].startswith("up down"))
    top.resize(10, 40)
    top.key("on a small screen it scrolls", END, lambda lines: lines[8].endswith("waiters or a lock-delay"))
    top.fits("and its lines fit")
    top.quit("q ends it from there")
    waiter.terminate()
    waiter.wait()


def details(shell, place):
    subprocess.run([PAWL, "acquire", "-q", "--owner", "first", "--note", "a job", "--ttl", "10m", "boss"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([PAWL, "break", "--owner", "admin", "--reason", "it hangs", "--yes", "boss"], check=True)
    subprocess.run([PAWL, "-q", "run", "--owner", "second", "--ttl", "300ms", "boss", "sh", "-c", "kill -KILL $PPID; sleep 9"])
    leader = subprocess.Popen([PAWL, "elect", "--owner", "host\033[2Jone", "--note", "the \033]0;note\007", "--value", "12345", "boss", "--",
                               "sh", "-c", "echo >%s/leads; exec sleep 60" % place])
    await_text(place + "/leads")
    waiters = []
    for i in range(12):
        waiters.append(subprocess.Popen([PAWL, "run", "-q", "--owner", "waiter-%02d" % i, "boss", "true"]))
        while b"waiter-%02d" % i not in subprocess.run([PAWL, "show", "boss"], stdout=subprocess.PIPE).stdout:
            pass
    top = Top(shell, 24, 80)
    top.shows("the lock is there", begins(3, "boss "))
    top.fits("an owner that would clear the screen is shown, not obeyed")
    top.key("Enter shows its details", b"\r", lambda lines: lines[1] == "lock boss" and lines[2].startswith("value: 5 bytes, stored under token "))
    top.shows("its holder", lambda lines: lines[4].startswith("holder  ") and "s left" in lines[4] and "host\\x1b[2Jone" in lines[4])
    top.shows("its queue, in its order", lambda lines: [line.split()[:2] + line.split()[-1:] for line in lines[5:17]] ==
              [["waiter", str(i + 1), "waiter-%02d" % i] for i in range(12)])
    top.shows("its past owners, and how each ended", lambda lines: [(line.split()[0], "broken" in line) for line in lines[17:19]] ==
              [("past", False), ("past", True)] and ("died" in lines[17] or "expired" in lines[17]) and lines[19] == "")
    top.resize(10, 40)
    top.shows("on a small screen", begins(9, "1-5 of 15"))
    top.fits("nothing is wider than that")
    top.key("it scrolls", END, lambda lines: lines[8].startswith("past ") and lines[9].startswith("11-15 of 15"))
    top.resize(24, 200)
    top.shows("a wide one has the note", lambda lines: "the \\x1b]0;note\\x07" in lines[4])
    top.shows("and who broke it, and why", lambda lines: "a job; broken by admin (it hangs)" in lines[18])
    top.key("Escape goes back", b"\033", begins(3, "boss "))
    top.type(b"\r")
    top.sees(begins(4, "holder"))
    for process in waiters:
        process.terminate()
        process.wait()
    leader.terminate()
    leader.wait()
    top.shows("the page is kept up to date", lambda lines: all(line.startswith(("past ", " ")) or not line for line in lines[4:23]) and
              lines[4].startswith("past ") and lines[2] == "value: none")
    top.quit()


def attributes(top, row, text):
    top.pump()
    return top.screen.styled(row, text)


def colours(shell, place):
    acquire("wanted")
    waiter = subprocess.Popen([PAWL, "run", "-q", "wanted", "true"])

    def state_is(state):
        return lambda lines: any(line.startswith("wanted") and line.split()[1] == state for line in lines)

    def look(options, env, coloured, sentence):
        top = Top(shell, 10, 80, *options, env=env)
        top.shows("wanted by another", state_is("wanted"))
        top.frames(2)
        found = attributes(top, 3, " wanted")
        check(sentence, bool(found) and any("33" in style for style in found) == coloured, found)
        check("and the row is selected", all(";7" in style for style in found), found)
        top.quit()

    look([], [], True, "a lock that is waited for has a colour")
    look([], ["NO_COLOR=1"], False, "not with NO_COLOR")
    look([], ["NO_COLOR="], True, "which is not set if it is empty")
    look(["--color=never"], [], False, "not with --color=never")
    look(["--color=always"], ["NO_COLOR=1"], True, "--color=always comes first")
    equal("--color wants one of three words", subprocess.run([PAWL, "top", "--color=red"], stderr=subprocess.DEVNULL).returncode, 125)

    top = Top(shell, 10, 80, "--stuck", "1ms")
    top.shows("one that is held for long while others wait is stuck", state_is("stuck"))
    check("which stands out", any("1;31" in style for style in attributes(top, 3, " stuck") or ()))
    waiter.terminate()
    waiter.wait()
    acquire("a/dying", "--ttl", "4s")
    top.type(b"n")
    top.shows("a lease that is renewed, or new, is held", lambda lines: lines[3].startswith("a/dying") and " held " in lines[3])
    top.shows("one that is not renewed is ending", lambda lines: lines[3].startswith("a/dying") and " ending " in lines[3])
    top.shows("and gone", begins(3, "wanted"))
    top.quit()


def restored(shell, place):
    acquire("looked/at")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        top = Top(shell, 24, 80)
        top.shows("a screen is drawn", begins(3, "looked/at"))
        check("on a page of its own, without echo", top.screen.alternate and
              not termios.tcgetattr(shell.terminal)[3] & (termios.ECHO | termios.ICANON))
        os.kill(top.job, number)
        equal("signal %d ends it" % number, shell.do("wait"), 128 + number)
        top.is_restored("and the terminal is as before")

    top = Top(shell, 24, 80)
    top.shows("a screen is drawn", begins(3, "looked/at"))
    top.type(b"\x1a")
    check("^Z stops it", shell.do("wait") == "stopped")
    top.is_restored("the terminal is the shell's meanwhile")
    shell.do("foreground")
    top.shows("it is drawn again when it goes on", lambda lines: top.screen.alternate and lines[3].startswith("looked/at"))
    top.key("and hears keys", b"?", begins(2, "up down"))
    top.type(b"\x1a")
    check("^Z stops it again", shell.do("wait") == "stopped")
    shell.do("background")
    check("in the background it is stopped at once", shell.do("wait") == "stopped")
    top.is_restored("and does not touch the terminal")
    shell.do("foreground")
    top.shows("in the foreground it goes on", lambda lines: top.screen.alternate and lines[2].startswith("up down"))

    # A stop that it cannot see: the shell has the terminal in its own modes meanwhile.
    os.kill(top.job, signal.SIGSTOP)
    check("SIGSTOP stops it", shell.do("wait") == "stopped")
    termios.tcsetattr(shell.terminal, termios.TCSANOW, top.modes)
    shell.do("foreground")
    end = time.monotonic() + PATIENCE
    while termios.tcgetattr(shell.terminal)[3] & termios.ICANON and time.monotonic() < end:
        top.pump()
    check("it sets the terminal again", not termios.tcgetattr(shell.terminal)[3] & termios.ICANON)
    top.quit()

    shell.do("start", [PAWL, "top"], False, None)
    check("started in the background it stops", shell.do("wait") == "stopped")
    shell.do("foreground")
    shell.type(b"q")
    equal("and runs in the foreground", shell.do("wait"), 0)


def without_screen(shell, place):
    seen = len(shell.output)
    acquire("looked/at")
    shell.do("start", ["/usr/bin/env", "TERM=dumb", PAWL, "top"], True, None)
    equal("a terminal that cannot move its cursor gets one snapshot", shell.do("wait"), 0)
    shell.do("owner")
    check("without commands for one that can", b"looked/at" in shell.output[seen:] and b"\033" not in shell.output[seen:], shell.output[seen:])
    shell.do("start", [PAWL, "top", "--count", "9", "--interval", "60s"], True, place + "/snapshots")
    check("what top writes to a file is there at once", await_text(place + "/snapshots", "looked/at"))
    shell.type(b"\x1a")
    check("^Z stops it there, too", shell.do("wait") == "stopped")
    shell.do("foreground")
    shell.type(b"\x03")
    equal("^C ends it", shell.do("wait"), 130)
    top = Top(shell, 24, 80, "--count", "3")
    equal("on a screen --count ends it as well", shell.do("wait"), 0)
    top.is_restored("and the terminal is as before")


def no_store(shell, place):
    """What is looked at is not made; a store that others make is found."""
    top = Top(shell, 10, 80)
    top.shows("without a store nothing is held", lambda lines: "(no store yet)" in lines[0] and "0 held" in lines[0])
    check("and none is made", not os.path.exists(place + "/locks"))
    acquire("first")
    top.shows("one that is made is shown", begins(3, "first "))
    top.shows("with its URL", lambda lines: "local:" in lines[0] and "create=no" not in lines[0])
    top.quit()


class Redis:
    def __init__(self, place):
        self.place, self.url = place, "redis+unix:%s/redis.socket" % place
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.place + "/redis.socket", "--dir", self.place,
                                         "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while subprocess.run(["redis-cli", "-s", self.place + "/redis.socket", "ping"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout != b"PONG\n" and time.monotonic() < end:
            time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()


def silent_store(shell, place):
    redis = Redis(place)
    os.environ["PAWL_URL"] = redis.url
    try:
        acquire("in/redis")
        top = Top(shell, 10, 80, "-e", redis.url)
        top.shows("what Redis has is shown", begins(3, "in/redis "))
        redis.kill()
        top.shows("a store that is killed is reported in the head", begins(1, "no answer for "))
        top.shows("with what was seen last", begins(3, "in/redis "))
        top.key("keys work", b"?", begins(2, "up down"))
        top.type(b"\033")
        top.fits("nothing is written over the screen")
        redis.start()
        top.shows("when it is back, without its data, that is shown", lambda lines: lines[1].startswith("sorted") and lines[3] == "nothing is held")
        acquire("again")
        top.shows("and what follows", begins(3, "again "))
        redis.process.send_signal(signal.SIGSTOP)
        top.shows("so is one that hangs", begins(1, "no answer for "))
        top.key("keys work while it does", b"?", begins(2, "up down"))
        os.kill(top.job, signal.SIGTERM)
        equal("and SIGTERM ends it", shell.do("wait"), 143)
        top.is_restored("the terminal is as before")
    finally:
        redis.kill()


for test in (sizes, scrolling, sorting, details, colours, restored, without_screen, no_store):
    in_terminal(test)
if not shutil.which("redis-server"):
    print("ok - a store that does not answer # SKIP missing: redis-server")
elif os.path.exists(os.path.join(os.path.dirname(PAWL), "src/engine/pawl-redis.so")):
    in_terminal(silent_store)
finish()
