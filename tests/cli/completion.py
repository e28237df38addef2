#!/usr/bin/env python3
"""completion.py [shells] - what may come next on a command line, as the scripts of shells ask for it. shells: in the shells
themselves, what a TAB makes of a line, and that no command and no option is left out."""
import fcntl
import os
import pty
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tap"))
from tap import check, equal, finish, skip

PAWL = os.environ["PAWL"]
PATIENCE = 60
PLACE = tempfile.mkdtemp(prefix="pawl-test.")
STORE = os.path.join(PLACE, "marks")
ENVIRONMENT = {"PATH": "%s:%s" % (PLACE, os.environ["PATH"]), "HOME": PLACE, "ZDOTDIR": PLACE, "TERM": "dumb", "LC_ALL": "C.UTF-8",
               "PAWL_URL": "local:%s/locks" % PLACE, "TMPDIR": PLACE}
COMPLETE = "\t"
SHOW = "\x14"  # ^T
SHOWN = "<shown>"
KILL = "\x15"


def pawl(*words, text=None, **variables):
    done = subprocess.run([PAWL, *words], env=dict(ENVIRONMENT, **variables), input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
    return done.stdout


def write(name, text):
    with open(os.path.join(PLACE, name), "w", encoding="utf-8") as file:
        file.write(text)
    return os.path.join(PLACE, name)


# ---- the tables, as --help shows them

COMMANDS = re.findall(r"^  ([a-z]+) ", pawl("--help"), re.MULTILINE)


def options_of(command):
    found = []
    for letter, name in re.findall(r"^  (?:(-.), )? *(--[a-z-]+)", pawl(command, "--help"), re.MULTILINE):
        found += [name] + [letter] * bool(letter)
    return found


# ---- a shell at a terminal

class Shell:
    """Lines are typed into it; SHOW makes it write what has become of one into a file."""

    def __init__(self, *argv):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(PLACE)
            os.execvpe(argv[0], argv, ENVIRONMENT)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 1000, 1000, 0, 0))
        self.output = ""
        self.lines = open(write("lines", ""), encoding="utf-8")
        self.ready = self.wait(lambda: "READY> " in self.output)

    def read(self, seconds):
        while select.select([self.terminal], [], [], seconds)[0]:
            try:
                self.output += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:
                return
            seconds = 0

    def wait(self, condition):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.02)
            if condition():
                return True
        return False

    def type(self, keys):
        """The line after these keys, and what was shown meanwhile."""
        line = ""

        def shown():
            nonlocal line
            line = line or self.lines.readline()
            return line and SHOWN in self.output  # the terminal may be later than the file

        self.read(0)
        self.output = ""
        os.write(self.terminal, (keys + SHOW + KILL).encode())
        self.wait(shown)
        return line.rstrip("\n"), self.output

    def line(self, keys):
        return self.type(keys)[0]

    def end(self):
        self.lines.close()
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


CASES = (  # what is typed before TAB, and what is there then
    ("pawl ru", "pawl run "),
    ("pawl help ver", "pawl help version "),
    ("pawl run --kill", "pawl run --kill-after "),
    ("pawl run x --kill", "pawl run x --kill-after "),
    ("pawl -q run --kill", "pawl -q run --kill-after "),
    ("pawl run --log-format j", "pawl run --log-format json "),
    ("pawl run --log-format=j", "pawl run --log-format=json "),
    ("pawl run --on-lost signal:W", "pawl run --on-lost signal:WINCH "),
    ("pawl engines --sql ", "pawl engines --sql postgres "),
    ("pawl completion z", "pawl completion zsh "),
    ("pawl -e redl", "pawl -e redlock://"),
    ("pawl run -eredl", "pawl run -eredlock://"),
    ("pawl put --store sq", "pawl put --store sqlite:"),
    ("pawl put --store=sq", "pawl put --store=sqlite:"),
    ("pawl -e local:%s/dire" % PLACE, "pawl -e local:%s/directory/" % PLACE),
    ("pawl -e @%s/dire" % PLACE, "pawl -e @%s/directory/" % PLACE),
    ("pawl get --store @%s/pawl-test-c" % PLACE, "pawl get --store @%s/pawl-test-command " % PLACE),
    ("pawl top --color al", "pawl top --color always "),
    ("pawl watch --until h", "pawl watch --until held "),
    ("pawl watch ba", "pawl watch backup/nightly "),
    ("pawl watch -p ba", "pawl watch -p backup/nightly "),
    ("pawl break --if-t", "pawl break --if-token "),
    ("pawl show ba", "pawl show backup/nightly "),
    ("pawl show col", "pawl show colon:name "),
    ("pawl run ba", "pawl run backup/nightly "),
    ("pawl -e local:%s/other show th" % PLACE, "pawl -e local:%s/other show there " % PLACE),
    ("pawl show th", "pawl show th"),
    ("pawl get --store file:%s re" % STORE, "pawl get --store file:%s report.txt " % STORE),
    ("pawl run --ttl=1s x -- pawl-test-c", "pawl run --ttl=1s x -- pawl-test-command "),
    ("pawl run x pawl-test-c", "pawl run x pawl-test-command "),
    ("pawl run x -- pawl-test-command %s/dire" % PLACE, "pawl run x -- pawl-test-command %s/directory/" % PLACE),
    ("pawl run --ttl 1", "pawl run --ttl 1"),
)


HOSTILE = {  # what is typed, and the name
    "wi": "with space",
    "exc": "exc!lamation",
    "bra": "brace{a,b}[c]",
    "sla": "slash\\slash",
    "quo": "quo'te;touch RAN;'",
    "dol": "dollar$(touch RAN)`touch RAN`",
}


def words_of(shell, line):
    """What the shell makes of a line."""
    done = subprocess.run([shell, "-c", "printf '%%s\\0' %s" % line], stdout=subprocess.PIPE, check=False, cwd=PLACE, timeout=PATIENCE)
    return done.stdout.decode().split("\0")[:-1]


def at_terminal(name, shell):
    check("%s starts" % name, shell.ready, shell.output)
    for typed, expected in CASES:
        line = shell.line(typed + COMPLETE)
        equal("%s: %s" % (name, typed), line, expected)
    for typed, word in HOSTILE.items():
        line = shell.line("pawl show %s%s" % (typed, COMPLETE))
        equal("%s: a name is one word: %s" % (name, word), words_of(name, line), ["pawl", "show", word])
    line = shell.line("pawl show 'wi" + COMPLETE)
    equal("%s: within quotes" % name, words_of(name, line), ["pawl", "show", "with space"])
    line = shell.line("pawl -e 'local:%s/di" % PLACE + COMPLETE)
    equal("%s: a directory within quotes" % name, line.rstrip("'/ "), "pawl -e 'local:%s/directory" % PLACE)
    shell.line("pawl show 'quo" + COMPLETE)
    shell.line('pawl show "dol' + COMPLETE)
    equal("%s: a last line that is no number runs nothing" % name, shell.line("broken/pawl show x" + COMPLETE), "broken/pawl show x")
    check("%s: no name was run" % name, not os.path.exists(os.path.join(PLACE, "RAN")))
    for command in ["", *COMMANDS]:
        written = shell.type("pawl %s -%s%s" % (command, COMPLETE, COMPLETE))[1]
        shown = set(re.findall(r"(?<![^\s])--?[a-z0-9-]+", written, re.IGNORECASE))
        wanted = set(options_of(command) if command else ["-e", "--engine", "--json", "-q", "-v", "--log-format", "--version"])
        equal("%s: all options of '%s'" % (name, command), sorted(wanted - shown), [])
    written = shell.type("pawl %s%s" % (COMPLETE, COMPLETE))[1]
    equal("%s: all commands" % name, sorted(set(COMMANDS) - set(written.split())), [])
    shell.end()


def bash():
    rc = write("bashrc", "PS1='READY> '; %s\n" % "source <(pawl completion bash)"
               + "bind 'set bell-style none'; bind 'set completion-query-items 0'; bind 'set page-completions off'\n"
               + r"""bind -x '"\C-t": echo "$READLINE_LINE" >>~/lines; echo "<shown>"'""" + "\n")
    at_terminal("bash", Shell("bash", "--noprofile", "--rcfile", rc, "-i"))


def zsh():
    if not shutil.which("zsh"):
        skip("missing: zsh", "zsh completes")
        return
    os.mkdir(os.path.join(PLACE, "functions"))
    write("functions/_pawl", pawl("completion", "zsh"))
    write(".zshrc", "PS1='READY> '; LISTMAX=10000; fpath=(%s/functions $fpath)\n" % PLACE
          + "autoload -Uz compinit; compinit -u -d %s/dump\n" % PLACE
          + "show() { print -r -- $BUFFER >>~/lines; print -n '<shown>' }; zle -N show; bindkey '^T' show\n")
    at_terminal("zsh", Shell("zsh", "-d", "-i"))
    write(".zshrc", "PS1='READY> '; autoload -Uz compinit; compinit -u -d %s/dump2; source <(pawl completion zsh)\n" % PLACE
          + "show() { print -r -- $BUFFER >>~/lines; print -n '<shown>' }; zle -N show; bindkey '^T' show\n")
    shell = Shell("zsh", "-d", "-i")
    equal("zsh: without being installed", shell.line("pawl ru" + COMPLETE), "pawl run ")
    shell.end()


def fish():
    if not shutil.which("fish"):
        skip("missing: fish", "fish completes")
        return

    def candidates(line):
        done = subprocess.run(["fish", "--no-config", "-c", "pawl completion fish | source; complete -C $argv[1]", line],
                              env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    for typed, expected in CASES:
        last = expected.rstrip(" ").split(" ")[-1]
        wanted = [last] if expected != typed else []
        equal("fish: %s" % typed, candidates(typed), wanted)
    for typed, word in HOSTILE.items():
        equal("fish: a name is one word: %s" % word, candidates("pawl show " + typed), [word])
    for command in COMMANDS:
        equal("fish: all options of '%s'" % command, sorted(set(options_of(command)) - set(candidates("pawl %s -" % command))), [])
    equal("fish: all commands", sorted(set(COMMANDS) - set(candidates("pawl "))), [])


# ---- what the shells ask

def last_line(*words, **variables):
    return pawl("completion", "--", *words, **variables).splitlines()[-1:]


def asked():
    check("each option that has words has them", all(pawl("completion", "--", command, option, "").splitlines()[:-1]
                                                     for command, option in (("run", "--log-format"), ("run", "--on-lost"), ("run", "-e"),
                                                                             ("run", "--on-asked"), ("put", "--store"))))
    equal("--sql", pawl("completion", "--", "engines", "--sql", "p"), "postgres\n:words 0\n")
    equal("what has none gets no files", pawl("completion", "--", "run", "--note", ""), ":words 0\n")
    equal("behind local: is a path, and no other scheme", pawl("completion", "--", "run", "-e", "local:"), ":directories 6\n")
    check("a URL may be in a file", "\n@\n" in pawl("completion", "--", "run", "-e", ""))
    check("and so may a STORE", "\n@\n" in pawl("completion", "--", "get", "--store", ""))
    equal("which is a path behind the @", pawl("completion", "--", "run", "-e@u"), ":files 3\n")
    equal("nor has a lease", pawl("completion", "--", "release", ""), ":words 0\n")
    equal("no option behind --", pawl("completion", "--", "show", "--", "-"), ":words 0\n")
    equal("nor of no command", pawl("completion", "--", "nonsense", "-"), ":words 0\n")
    equal("COMMAND begins", last_line("run", "-w", "5", "x", "-n", "--", "a", "-"), [":command 6"])
    equal("also without --", last_line("run", "-w5", "x", "a", "-"), [":command 3"])
    equal("not before its name", last_line("run", "-w", "5", "-"), [":words 0"])
    equal("behind -- only", (last_line("put", "r", "5", ""), last_line("put", "r", "5", "--", "")), ([":words 0"], [":command 4"]))
    equal("a name with a line in it is left out", pawl("completion", "--", "show", "li"), ":words 0\n")
    equal("nor one that turns the text around", pawl("completion", "--", "show", "turn"), ":words 0\n")
    equal("each name once", pawl("completion", "--", "show", "sha"), "shared\n:words 0\n")
    equal("PAWL_STORE", pawl("completion", "--", "get", "", PAWL_STORE="file:" + STORE), "report.txt\n:words 0\n")
    none = os.path.join(PLACE, "none")
    pawl("completion", "--", "show", "", PAWL_URL="local:" + none)
    pawl("completion", "--", "get", "--store", "sqlite:" + none, "")
    check("nothing is made", not os.path.exists(none))


def silent():
    """A server that accepts and never answers, and a URL that would wait ten minutes for it."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = "redis://127.0.0.1:%d?timeout=10m" % listener.getsockname()[1]
    engines = pawl("engines")
    if re.search(r"^redis:.*\n    not here", engines, re.MULTILINE):
        skip("missing: the module of redis", "a store that does not answer is not waited for")
        return
    equal("a store that does not answer is not waited for", pawl("completion", "--", "-e", url, "show", ""), "")
    listener.setblocking(False)
    connected = True
    try:
        listener.accept()
    except BlockingIOError:
        connected = False
    check("though it was asked", connected)
    listener.close()


def prepare():
    os.symlink(PAWL, os.path.join(PLACE, "pawl"))
    for name in ("directory", "marks"):
        os.mkdir(os.path.join(PLACE, name))
    os.chmod(write("pawl-test-command", "#!/bin/sh\n"), 0o755)
    os.mkdir(os.path.join(PLACE, "broken"))
    os.chmod(write("broken/pawl", "#!/bin/sh\necho ':command x[$(touch${IFS}RAN)0]'\n"), 0o755)
    for name in ("backup/nightly", "colon:name", "line\nbreak", "turn\u202earound", *HOSTILE.values()):
        pawl("acquire", "--ttl", "1h", name)
    for _ in range(2):
        pawl("acquire", "--ttl", "1h", "-s", "shared")
    pawl("acquire", "--ttl", "1h", "-e", "local:%s/other" % PLACE, "there")
    pawl("put", "--store", "file:" + STORE, "report.txt", "5", text="report")


prepare()
try:
    for test in (bash, zsh, fish) if sys.argv[1:] == ["shells"] else (asked, silent):
        test()
finally:
    shutil.rmtree(PLACE)
finish()
