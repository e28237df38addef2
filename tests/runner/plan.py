"""plan.py - which program runs in which variant, and what a suite may cost.

A variant is a build directory of its own. Every program runs in at least one variant; otherwise a whole run fails. What a
variant leaves out is listed here with the reason why nothing is lost; `tests/run --left-out` prints the list."""
import re


class Variant:
    """One build: its directory, compiler and options of meson setup, its suites (None: all), and what it leaves out.
    whole: everything is built, for its warnings; otherwise what its programs need."""

    def __init__(self, directory, compiler, options=(), suites=None, left_out=(), whole=False):
        self.directory = directory
        self.compiler = compiler
        self.options = list(options)
        self.suites = suites
        self.whole = whole
        self.left_out = [(re.compile(pattern), why) for pattern, why in left_out]

    def why_not(self, suite, name):
        """Why this variant does not run a program; None if it does."""
        if self.suites and suite not in self.suites:
            return "suite " + suite
        for pattern, why in self.left_out:
            if pattern.search(name):
                return why
        return None


# A sanitizer costs two to ten times the CPU. It sees code, not servers: each line of an engine runs under ASan and under TSan
# through one drive and one kind of connection. -O1 builds in two thirds of the time and keeps the code that is checked; some
# warnings of gcc are wrong there, and the plain builds have them as errors.
SANITIZED = ("-Dtests=true", "-Doptimization=1", "-Dwerror=false")
WHOLE = ("-Dtests=true", "-Dbench=true", "-Dexamples=true")

OTHER_DRIVE = "the other drive of the same engine; each engine runs under both sanitizers, each drive in some variant"
LONG = "ten thousand waiters and many thousand pairs: nothing for a sanitizer to see that the rest does not show; runs in gcc"
OTHER_WAY = "another way to the same server: what differs is the connection, which test_net and test_net_tls run here"
SERVERS_FAIL = "a server fails and the client answers; the code behind it runs here in the contract, in asan also in alloc"
PLAIN_HAS_IT = "checks what other programs and servers do, not our memory; runs in gcc"
COMMANDS_RUN = "the commands that it runs are those of other tests of the command, which run here"
RECIPES_ABOVE = "recipes call public functions only and are the same code on every store; local and redis run here"

VARIANTS = {
    "gcc": Variant("build", "gcc", WHOLE, left_out=(
        (r"^contract (redis|redlock|zookeeper|etcd|postgres|postgres advisory) caller$",
         "the other drive; runs in asan (tsan for etcd)"),
        (r"^contract (zookeeper|etcd) thread$", "runs in tsan (zookeeper) and asan (etcd); three servers run here"),
        (r"^alloc zookeeper$", "runs in asan"),
        (r"^(?!contract )\w+ redis caller$", "the other drive; runs in tsan"),
    ), whole=True),
    "asan": Variant("build-asan", "gcc", ("-Db_sanitize=address,undefined", *SANITIZED),
                    ("unit", "engine", "contract", "recipe", "alloc", "fuzz", "cli", "guard"), (
        (r"^contract (local caller|trace.*thread|(redis|redlock|zookeeper|postgres|postgres advisory) thread|etcd caller)$",
         OTHER_DRIVE),
        (r"^contract long ", LONG),
        (r"^contract \w+ (tls|password|unix|cut|three|auth|role) ", OTHER_WAY),
        (r"^redis (waiting|successors)$|^(zookeeper|etcd) (ensemble|cut|command)$", SERVERS_FAIL),
        (r"^postgres (failover|pooler|cut|command|doctor|functions|input)$", SERVERS_FAIL),
        (r"^cli messages$", "takes descriptors, memory and system calls away, which the sanitizer needs itself; runs in gcc"),
        (r"^updates|^guard postgres races$|^cli (guard (redis|postgres|http)|fencing)", PLAIN_HAS_IT),
        (r"^cli (documents|migrating|kubernetes|night|completion shells)$", PLAIN_HAS_IT),
        (r"^cli (readme|runbook|schema|engines --sql)$", COMMANDS_RUN),
        (r"^guard redis (tls|password|unix|cut|every_byte|alloc)$|^guard sqlite wal$|^guard http (tls|python|file)$", OTHER_WAY),
        (r"^(?!contract )\w+ redis caller$", "the other drive; runs in tsan"),
        (r"^(?!contract )\w+ (redlock|zookeeper|etcd|postgres|postgres advisory) (thread|caller)$", RECIPES_ABOVE),
    )),
    "tsan": Variant("build-tsan", "gcc", ("-Db_sanitize=thread", *SANITIZED),
                    ("unit", "engine", "contract", "recipe", "guard"), (
        (r"^contract (local caller|trace.*caller|(redis|redlock|zookeeper|postgres|postgres advisory) caller|etcd thread)$",
         OTHER_DRIVE),
        (r"^contract long ", LONG),
        (r"^contract \w+ (tls|password|unix|cut|three|auth|role) ", OTHER_WAY),
        (r"^redis (failover|waiting|successors|cut|command)$|^(zookeeper|etcd|postgres) ", SERVERS_FAIL),
        (r"^line$", "order of claims in one thread, tried exhaustively; runs in gcc, clang and asan"),
        (r"^updates|^sqlite|^guard (?!(mem|file|sqlite|redis|postgres|http mem)$)", PLAIN_HAS_IT),
        (r"^(?!contract )\w+ (redlock|zookeeper|etcd|postgres|postgres advisory) (thread|caller)$", RECIPES_ABOVE),
    )),
    "clang": Variant("build-clang", "clang", ("-Dbuiltin_trace=true", *WHOLE), ("unit", "engine", "contract"), (
        (r"^contract (trace|local caller|long|red|zookeeper|etcd|postgres)", "clang's warnings and code are the aim; local runs here"),
        (r"^redis (tokens|faults|failover|waiting|successors|cut|command)$|^(redlock|zookeeper|etcd|postgres) ", PLAIN_HAS_IT),
    ), whole=True),
}

# `make check`: the plain build, every engine, every promise once.
CHECK = Variant("build", "gcc", WHOLE, left_out=(
    (r"^contract (\S+|postgres advisory) caller$|^(?!contract )\w+ \w+ caller$", "the other drive"),
    (r"^contract \w+ (unix|cut|three|role|tls|password|auth) ", "other ways to the same server; net_tls and the suite engine have them"),
    (r"^contract long |^crowd$|^(kills|pauses) \w+$", "the same promises with more at once"),
    (r"^guard (redis (tls|password|unix|cut)|sqlite wal|http (tls|python|file))$|^updates (?!(file|redis)$)", "other ways to the same guard"),
    (r"^(?!contract )\w+ (redlock|zookeeper|postgres|postgres advisory) thread$",
     "recipes are the same code on every store; local, redis and etcd run here"),
    (r"^alloc (zookeeper|etcd|postgres)$", "failing allocations on local and redis run here"),
    (r"^models$|^bench|^servers$|^with$|^(install|musl|dist|deb|rpm|static)$", "not about the library and the command"),
), whole=True)

ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:die_after_fork=0",
    "LC_ALL": "C.UTF-8",
}

# CPU seconds of the programs of all variants together, without detached servers. A suite above its budget is marked in the table at
# the end; that fails nothing, because a busy host can double CPU time.
BUDGET = {
    "alloc": 60, "bench": 20, "chaos": 45, "cli": 85, "contract": 290, "engine": 340, "examples": 5, "fuzz": 25, "guard": 130,
    "install": 150, "interop": 50, "models": 55, "recipe": 75, "servers": 10, "sim": 40, "style": 15, "unit": 75,
}

# A failed program of these suites is retried once, alone. Not those that look for two holders or a token that went back.
RETRIED = {"unit", "engine", "contract", "recipe", "guard", "cli", "interop", "servers", "install", "examples", "bench"}
FLAKY_MAX = 3
# What is never retried, whatever the suite.
GRAVE = re.compile(r"^not ok.*(token|twice|never|at.most|keeps.everyone.out|alone|exclu|one.by.one|stale|update)"
                   r"|violation|Sanitizer:|runtime error:|Assertion|killed by signal (4|6|7|8|11)\b"
                   r"|stack smashing|double free|free\(\):|malloc\(\):|corrupted", re.I | re.M)


def average_cpu(suite, variant):
    """CPU seconds that one program of a suite needs, for the time left in a first run: a guess."""
    plain = {"models": 40.0, "interop": 16.0, "contract": 5.0, "alloc": 3.0, "chaos": 3.0, "sim": 2.0, "guard": 2.0, "style": 2.0}
    return plain.get(suite, 1.0) * (2.0 if variant in ("asan", "tsan") else 1.0)
