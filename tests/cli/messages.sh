#!/bin/sh
# messages.sh - docs/MESSAGES.md: every message of cli/ is in its tables, every row is a message of cli/, and each is provoked
# here, with the status that the document says. messages.py reads both.
. "${0%/*}/cli.sh"

python3 "$SOURCE_DIR/tests/cli/messages.py" table >"$scratch/table" || exit 99
python3 "$SOURCE_DIR/tests/cli/messages.py" sources >"$scratch/sources" || exit 99
: >"$scratch/shown"
tab=$(printf '\t')
server=$(redis-cli -u "$REDIS_URL" info server | tr -d '\r' | sed -n 's/^process_id://p')
at_end kill -CONT "$server"
redis="$REDIS_URL?timeout=500ms"
cd "$scratch" || exit 99

# ---- the document and the sources
cut -f2 table | sort >rows
cut -f2 sources | sort >messages
comm -13 rows messages >missing
is "the document has every message of cli/: these have no row" "$(grep -F -f missing sources)" ""
is "and no other" "$(comm -23 rows messages)" ""
is "no row is there twice" "$(uniq -d rows)" ""

# ---- what was said

# shown STATUS ROW [PART]: $errors has the message of that row, and $code is its status. PART: it is a part of a line.
shown() {
        shown_pattern="pawl: ${3:+*}$(printf '%s\n' "$2" | sed 's/[][*?\\]/\\&/g; s/\.\.\./*/g')${3:+*}"
        shown_code=$code
        case $1 in -) shown_code=- ;; esac
        if [ "$shown_code" = "$1" ] && grep -qxF -- "$1$tab$2" table && has_line; then
                printf '%s\t%s\n' "$1" "$2" >>shown
                pass "status $1: $2"
        else
                fail "status $1: $2"
                tap_show "status $1, and such a row in the document"
        fi
}

has_line() {
        printf '%s\n' "$errors" >lines
        while read -r line; do
                # shellcheck disable=SC2254
                case $line in
                $shown_pattern | $shown_pattern"; see 'pawl "*) return 0 ;;
                esac
        done <lines
        return 1
}

# says STATUS ROW COMMAND...
says() {
        says_status=$1
        says_row=$2
        shift 2
        capture "$@" </dev/null
        shown "$says_status" "$says_row"
}

# said STATUS ROW PID FILE [PART]: by a process in the background, whose messages are in FILE.
said() {
        wait_status "$3"
        errors=$(cat "$4")
        output=
        shown "$1" "$2" "${5:-}"
}

# scarce STATUS ROW COMMAND...: somewhere between no open file more and enough of them.
scarce() {
        scarce_status=$1
        scarce_row=$2
        shift 2
        for most in 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do
                # shellcheck disable=SC2016
                capture sh -c 'ulimit -n "$0"; exec "$@"' $most "$@" </dev/null
                shown_pattern="pawl: $(printf '%s\n' "$scarce_row" | sed 's/\.\.\./*/g')"
                if [ "$code" = "$scarce_status" ] && has_line; then
                        break
                fi
        done
        shown "$scarce_status" "$scarce_row"
}

# begin FILE COMMAND...: in the background as $begun, its messages in FILE.
begin() {
        begin_file=$1
        shift
        "$@" >"$begin_file.output" 2>"$begin_file" </dev/null &
        begun=$!
        later $begun
}

# refuse CALL ERROR COMMAND...: a system call of COMMAND fails in that way.
cat >refuse <<'EOF'
#!/usr/bin/env python3
import ctypes, errno, os, struct, sys
NUMBERS = {"x86_64": {"signalfd4": 289, "wait4": 61, "clone": 56, "clone3": 435},
           "aarch64": {"signalfd4": 74, "wait4": 260, "clone": 220, "clone3": 435}}
LOAD, EQUAL, RETURN, FAIL, ALLOW = 0x20, 0x15, 0x06, 0x00050000, 0x7fff0000
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
call, error = NUMBERS[os.uname().machine][sys.argv[1]], getattr(errno, sys.argv[2])
steps = ((LOAD, 0, 0, 0), (EQUAL, 0, 1, call), (RETURN, 0, 0, FAIL | error), (RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, program, 0, 0):
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[3], sys.argv[3:])
EOF

# at_terminal ANSWER COMMAND...: on a terminal of its own, with ANSWER to what it asks; what is shown there comes on stderr.
cat >at_terminal <<'EOF'
#!/usr/bin/env python3
import os, pty, re, sys
os.environ["TERM"] = "xterm"
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
answer, shown, more = sys.argv[1].encode() + b"\n", b"", b"."
while more:
    try:
        more = os.read(terminal, 4096)
    except OSError: # it has ended
        more = b""
    shown += more
    if answer and b"[y/N]" in shown:
        answer = answer[os.write(terminal, answer):]
sys.stderr.write(re.sub(r"\r|\x1b\[[?\d;]*[A-Za-z]", "\n", shown.decode(errors="replace")))
sys.exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
EOF
chmod +x refuse at_terminal

# ---- status 1
begin holder.said "$pawl" run held sh -c 'echo >held; exec sleep 600'
holder=$begun
await_file held
says 1 "'...' is ..." "$pawl" run -n held true
says 1 "'...' was not free within ...: ..." "$pawl" acquire -w 10ms held
says 1 "nobody holds '...'" "$pawl" ask free
says 1 "'...' was not broken" "$scratch/at_terminal" n "$pawl" break held
shown - "'...' is ..., token ..."
says 1 "nothing is known of '...'" "$pawl" show unknown
says 1 "'...' was not ... within ..." "$pawl" watch --until free --for 50ms held
says 1 "'...' was not ... within --count ..." "$pawl" watch --until free --count 1 held
"$pawl" run --lock-delay 600s delayed sh -c 'kill -9 $PPID' 2>killed
await sh -c '! "$0" show delayed | grep -q "^holder"' "$pawl" # the kill may take a moment longer than its command
says 1 "'...' was taken a moment ago: ..." "$pawl" run -n delayed true
"$pawl" acquire -e "$POSTGRES_URL" --ttl 10m held >lease
psql -XqAt -d "$POSTGRES_URL" -c 'CREATE ROLE blind LOGIN' -c 'GRANT USAGE ON SCHEMA pawl TO blind' \
        -c 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO blind' -c 'REVOKE EXECUTE ON FUNCTION pawl.show_lock FROM PUBLIC, blind' >granted 2>&1
says 1 "'...' is held by another client" "$pawl" run -n -e "postgres://blind@${POSTGRES_URL#*@}" held true

# ---- status 123
begin lost "$pawl" run x sh -c '"$0" break x; exec sleep 600' "$pawl"
said 123 "the lock '...' was lost: ...; ..." $begun lost
shown 123 "the lock '...' was broken by ..."
mkfifo input
# shellcheck disable=SC2094
"$pawl" hold x <input >hold.output 2>hold.lost &
begun=$!
later $begun
exec 8>input
await_file hold.output
"$pawl" break x
said 123 "the lock '...' was lost: ..." $begun hold.lost
exec 8>&-
# Lost without a notification: the release finds out.
vanish() {
        redis-cli -u "$REDIS_URL" --scan --pattern "*$1*" | xargs redis-cli -u "$REDIS_URL" del >vanished
}
"$pawl" hold -e "$redis" --ttl 10m vanishing <input >hold.late.output 2>hold.late &
begun=$!
later $begun
exec 8>input
await_file hold.late.output
vanish vanishing
exec 8>&-
said 123 "the lock was lost before it was given back" $begun hold.late
begin late "$pawl" run -e "$redis" --ttl 10m vanishing sh -c 'echo >late.began; until [ -e late.go ]; do sleep 0.05; done'
await_file late.began
vanish vanishing
touch late.go
said 123 "the lock '...' was lost while the command ran" $begun late
begin once.lost "$pawl" once -e "$redis" --ttl 10m vanishing sh -c 'echo >key.began; until [ -e key.go ]; do sleep 0.05; done'
await_file key.began
vanish vanishing
touch key.go
said 123 "the lock for '...' was lost: the result is another one's business" $begun once.lost
mkfifo full
exec 9<>full
head -c 65536 /dev/zero >&9
"$pawl" run -v --ttl 200ms blocked touch started 2>&9 &
begun=$!
later $begun
await sh -c '"$0" show blocked | grep -q "^past.*expired"' "$pawl"
cat <&9 >blocked &
reader=$!
later $reader
wait_status $begun
await grep -aq 'was lost before' blocked
kill $reader
exec 9>&-
errors=$(tr -d '\0' <blocked)
output=
shown 123 "the lock '...' was lost before '...' was started"
begin ended "$pawl" run --no-renew --ttl 1s x sleep 600
said 123 "the lease of '...' ... and ends in ..." $begun ended part
shown 123 "...: the command was sent ..., and is killed in ... if it has not ended"
begin killed "$pawl" run --no-renew --on-lost kill --ttl 1s x sleep 600
said 123 "...: the command was killed" $begun killed
begin stubborn "$pawl" run -k 100ms x sh -c 'trap "" TERM; "$0" break x; sleep 600; sleep 600' "$pawl"
said 123 "the command under '...' did not end in time and was killed" $begun stubborn

# ---- status 125: the command line
says 125 "there is no command '...'; did you mean '...'?" "$pawl" rnu
says 125 "there is no command '...'; 'pawl --help' lists them" "$pawl" unlock
says 125 "there is no command; 'pawl --help' lists them" "$pawl" -q
says 125 "... arguments: pawl ..." "$pawl" show
shown 125 "...; see 'pawl ... --help'"
says 125 "... has no option ..." "$pawl" run --nonsense x true
says 125 "... has no option ... (did you mean --...?)" "$pawl" run --nonblok x true
says 125 "--... takes no value" "$pawl" run --nonblock=1 x true
says 125 "--... wants a value (...)" "$pawl" run --wait
says 125 "-... wants a value (...)" "$pawl" run -w
says 125 "... wants a duration such as 500ms, 10s, 2m or 1h, not '...'" "$pawl" run -w soon x true
says 125 "...: '...' is longer than ten years" "$pawl" run -w 999999h x true
says 125 "... wants at least a millisecond, not '...'" "$pawl" run --ttl 0 x true
says 125 "... wants a number from 1 to ..., not '...'" "$pawl" run -N 0 x true
says 125 "--... wants a number from 0 to 255, not '...'" "$pawl" run -E 256 x true
says 125 "... wants a token as \`pawl show\` prints it, a number from 1 to 2^63 - 1, not '...'" "$pawl" break --if-token x x
says 125 "... wants text or json, not '...'" "$pawl" run --log-format xml x true
says 125 "--on-lost wants term, kill, signal:SIG (such as signal:USR1) or ignore, not '...'" "$pawl" run --on-lost x x true
says 125 "--on-asked wants ignore, term or signal:SIG (such as signal:USR1), not '...'" "$pawl" run --on-asked x x true
says 125 "--rate wants N/DUR, such as 100/1m or 5/s, not '...'" "$pawl" limit --rate 5 x
says 125 "--until wants free or held, not '...'" "$pawl" watch --until x x
says 125 "--... wants auto, always or never, not '...'" "$pawl" top --color x
says 125 "-x cannot go together with -s or -N" "$pawl" run -x -s x true
says 125 "--kill-after must be shorter than --ttl: COMMAND must be gone when the lease ends" "$pawl" run --ttl 1s -k 2s x true
says 125 "--kill-after must be shorter than the lease, which ends in ... ms: give a longer --ttl" "$pawl" run -k 1m x true
says 125 "--hold-at-least is longer than the lease, which ends in ... ms and with --no-renew is not renewed: give a longer --ttl" \
        "$pawl" run --no-renew --hold-at-least 1m x true
says 125 "run wants a COMMAND to run while it holds '...'" "$pawl" run x
says 125 "-c STRING is the whole command, '...' is too much" "$pawl" run -c true x true
says 125 "elect wants a COMMAND to run while we lead '...'" "$pawl" elect x
says 125 "--observe and --who run no COMMAND, '...' is too much" "$pawl" elect --who x true
says 125 "once wants a COMMAND to run for '...'" "$pawl" once x
says 125 "--look and --forget run no COMMAND, '...' is too much" "$pawl" once --look x true
says 125 "--only-success keeps no failures: --keep-failures has no meaning with it" "$pawl" once --only-success --keep-failures 1s x true
says 125 "a key has 1 to 250 bytes" "$pawl" once '' true
says 125 "kept keys cannot be listed: no engine lists what is kept beside a lock that nobody holds; 'pawl once --look KEY' prints one, 'pawl ls once/' lists those that are being run" "$pawl" once --list
says 125 "limit wants --rate N/DUR" "$pawl" limit x
says 125 "--json is for a permit without a COMMAND" "$pawl" limit --json --rate 1/s x true
says 125 "watch wants NAME, or --prefix PREFIX" "$pawl" watch
says 125 "ttl wants --work DUR" "$pawl" ttl
says 125 "completion wants a shell: bash, zsh or fish" "$pawl" completion
says 125 "there is no completion for '...', only for bash, zsh and fish" "$pawl" completion x
says 125 "a shell or words, not both" "$pawl" completion zsh -- x
says 125 "no setup needed for ...: only for postgres" "$pawl" engines --sql local
says 125 "...: ...; \`pawl engines\` says which there are, and what is missing" "$pawl" engines --sql nonsense
says 125 "-e is a store of locks, and --store one of a guard: name one of them" "$pawl" doctor -e local: --store file:guarded
says 125 "... wants --store STORE, such as --store file:DIR, or \$PAWL_STORE" "$pawl" marks
says 125 "'...' is no STORE: write file:DIR" "$pawl" marks --store guarded
says 125 "a mem: store ends with this process and guards nothing; use file:DIR" "$pawl" marks --store mem:
PAWL_STORE=file:$scratch/guarded
export PAWL_STORE
mkdir guarded
says 125 "fence wants RESOURCE, TOKEN and a COMMAND" "$pawl" fence r 5
says 125 "put wants RESOURCE and TOKEN, or --if-version VERSION and RESOURCE" "$pawl" put r
says 125 "put wants a COMMAND behind --" "$pawl" put r 5 --
says 125 "with --if-version there is no TOKEN, '...' is too much" "$pawl" put --if-version 0 r 5
says 125 "-V goes without TOKEN: a resource has a lock or a version, not both" "$pawl" get -V r 5
says 125 "a token is a number from 1 to 2^63 - 1, such as \$PAWL_TOKEN, not '...'" "$pawl" get r x
says 125 "... is no token of a lock: no engine makes 2^62 or more, and this one would be greater than all of them for ever; --force if you mean it" \
        "$pawl" put r 4611686018427387904
says 125 "a version is a number from 0 to 2^63 - 2, as 'pawl get -V' prints it, not '...'" "$pawl" put --if-version x r
says 1 "no token is known for '...'" "$pawl" forget r
ok "a guard has seen a token" "$pawl" fence r 5 true
says 1 "there are no data in '...' yet" "$pawl" get r 5
says 125 "'...' refuses tokens below ...; without its mark every holder passes, late ones too. If none can be left, repeat this with --yes" "$pawl" forget r
not_ok "a token that is stale" "$pawl" fence r 4 true
is "has the status 124" "$code" 124
like "and the library's words" "$errors" "pawl: *4*5*"
echo damaged >guarded/.r.pawl
says 125 "the mark of '...' cannot be read: ..." "$pawl" forget --yes r

# ---- status 125: secrets
says 125 "cannot open the URL file '...': ..." "$pawl" ls -e @none
: >empty && chmod 600 empty
says 125 "cannot take the URL from the file '...': ..." "$pawl" ls -e @empty
says 125 "passenv=... in the URL: there is no such variable in the environment, or it is empty" "$pawl" ls -e 'redis://h?passenv=NONE'
says 125 "the URL has both a password and passenv=, or there is no memory for it: choose one" env ONE=1 "$pawl" ls -e 'redis://:p@h?passenv=ONE'

# ---- status 125: the machine
says 125 "cannot write to standard output: ..." sh -c 'exec "$0" engines >/dev/full' "$pawl"
says 125 "cannot write the lease to standard output: ...; the lock is given back" sh -c 'exec "$0" acquire x >/dev/full' "$pawl"
says 125 "cannot write to standard output: ...; the lock is given back" sh -c 'exec "$0" hold x >/dev/full' "$pawl"
says 125 "standard input is closed: the lock is held while it is open" sh -c 'exec "$0" hold x <&-' "$pawl"
"$pawl" hold x <input >hold.poll.output 2>hold.poll &
begun=$!
later $begun
exec 8>input
await_file hold.poll.output
prlimit --pid $begun --nofile=2:2
said 125 "cannot wait for standard input: ..." $begun hold.poll
exec 8>&-
says 125 "cannot read ...: ..." sh -c 'exec "$0" put s 5 <&-' "$pawl"
says 125 "cannot learn how the command ended: ..." "$scratch/refuse" wait4 ECHILD "$pawl" put s 5 -- true
says 125 "cannot watch for signals: ..." "$scratch/refuse" signalfd4 EMFILE "$pawl" run x true
says 125 "cannot start a thread: ..." "$scratch/at_terminal" '' "$scratch/refuse" clone3 EAGAIN "$scratch/refuse" clone EAGAIN "$pawl" top
scarce 125 "cannot start '...': ..." "$pawl" run scarce true
scarce 125 "cannot pass the command's output on: ..." "$pawl" once scarce true
scarce 125 "cannot run '...': ..." "$pawl" put s 5 -- true
scarce 125 "cannot start the workers: ..." "$pawl" demo
says 125 "... is too large for the memory" sh -c 'ulimit -v 200000; exec "$0" put s 5 </dev/zero' "$pawl"
begin kept "$pawl" once -e "$redis" kept sh -c 'kill -STOP "$0"; echo result' "$server"
said 125 "the result of '...' may not have been kept: ..." $begun kept
kill -CONT "$server"

short=$(mktemp -d /tmp/pm.XXXXXX) # the demo takes no long one
at_end rm -rf "$short"
mkdir "$short/1" "$short/2" "$short/3"
says 125 "cannot make a directory in ...: ..." env TMPDIR="$short/none" "$pawl" demo
begin stuck env TMPDIR="$short/1" "$pawl" demo
await pgrep -P $begun
# shellcheck disable=SC2046
kill -STOP $(pgrep -P $begun)
wait_status $begun
said 125 "the demo is stuck: no worker does anything" $begun stuck
begin wrong env TMPDIR="$short/2" "$pawl" demo
while alive $begun; do
        for ledger in "$short"/2/*/store/ledger; do
                [ ! -s "$ledger" ] || grep -qs forged "$ledger" || echo forged >>"$ledger"
        done
        sleep 0.05
done
said 125 "the demo did not go as it must: this build does not keep its promises here" $begun wrong
begin removed env TMPDIR="$short/3" "$pawl" demo
await sh -c 'ls "$0"/3/*/store/ledger' "$short"
until rm -rf "$short"/3/*; do :; done
said - "cannot remove ...: ..." $begun removed

# ---- with another status
begin at_most "$pawl" run --max-hold 100ms x sleep 600
said - "'...' was held for as long as --max-hold allows" $begun at_most part
begin asked "$pawl" run --on-asked term x sh -c 'echo >asked.began; exec sleep 600'
await_file asked.began
"$pawl" ask x
said - "another client asks for '...': the command was sent ..." $begun asked
"$pawl" ask held
await_file holder.said
errors=$(cat holder.said)
shown - "another client asks for '...'..."
kill $holder
for share in 1 2 3 4 5 6 7 8 9 10 11; do
        "$pawl" acquire -s --ttl 10m shared >"share.$share"
done
says - "and ... more" "$scratch/at_terminal" y "$pawl" break shared
"$pawl" acquire -e "$redis&history=no" --ttl 10m forgotten >lease
says - "the reason is not kept: this store has no history of its locks" "$pawl" break -e "$redis&history=no" --reason why forgotten
says - "NOTIFY_SOCKET is neither a path nor an abstract address that fits: ..." env NOTIFY_SOCKET=x "$pawl" run x true
says - "cannot notify the service manager: ..." env NOTIFY_SOCKET="$scratch/none" "$pawl" run x true
begin released "$pawl" run -e "$redis" x kill -STOP "$server"
said - "'...' may stay locked until its lease ends: ..." $begun released
is "whatever becomes of the lock, the status is COMMAND's" "$code" 0
kill -CONT "$server"
"$pawl" hold -e "$redis" y <input >hold.released.output 2>hold.released &
begun=$!
later $begun
exec 8>input
await_file hold.released.output
kill -STOP "$server"
exec 8>&-
said - "the lock may stay until its lease ends: ..." $begun hold.released
kill -CONT "$server"
says - "'...' failed with status ...: '...' is as it was" "$pawl" put s 5 -- false
says - "the output of '...' is longer than ... bytes: later callers get no more of it" "$pawl" once long head -c 70000 /dev/zero
says - "the output of '...' was longer: only its first ... bytes were kept" "$pawl" once long true
begin dog "$pawl" run x sh -c 'echo $$ >dog.began; exec sleep 600'
runner=$begun
await_file dog.began
prlimit --pid $runner --nofile=4:4
for child in $(pgrep -P $runner); do
        [ "$child" = "$(cat dog.began)" ] || kill -KILL "$child"
done
await_file dog
kill "$(cat dog.began)"
said - "the watchdog was killed and cannot be started again: ..." $runner dog

# ---- the rest
sort -u shown >provoked
is "every row was provoked: these were not" "$(sort table | comm -13 provoked -)" ""
done_testing
