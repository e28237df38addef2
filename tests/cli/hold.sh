#!/bin/sh
# hold.sh - `pawl hold`: a lock for any program that can start another one.
. "${0%/*}/cli.sh"

# field KEY FILE: the value of KEY in the last line of FILE.
field() {
        python3 -c '
import json, sys
print(json.loads(open(sys.argv[2]).read().splitlines()[-1])[sys.argv[1]])' "$1" "$2"
}

# begin NAME OPTION...: a holder whose standard input is a pipe that descriptor 9 keeps open; its lines are in $lines.
begin() {
        lines=$scratch/lines.$1
        rm -f "$scratch/pipe" "$lines"
        mkfifo "$scratch/pipe"
        "$pawl" hold "$@" <"$scratch/pipe" >"$lines" 2>"$lines.errors" 9>&- &
        holder=$!
        later $holder
        exec 9>"$scratch/pipe"
}

# waiter_of NAME: somebody waits for it.
waiter_of() {
        "$pawl" show --json "$1" | grep -q '"role":"waiter"'
}

begin x --note nightly
ok "one line says that it is held" await_file "$lines"
is "the event" "$(field event "$lines")" held
is "the name" "$(field name "$lines")" x
is "the token" "$(field token "$lines")" "$("$pawl" show --json x | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["token"])')"
like "the note is there for others" "$("$pawl" show x)" "*nightly*"
ok "it is held" held x
echo "whatever is written is ignored" >&9
ok "and goes on" held x
exec 9>&-
wait_status $holder
is "when its input ends so does it, with success" "$code" 0
not_ok "and the lock is free" held x
is "one line was all" "$(wc -l <"$lines")" 1

begin x --ttl 4s
ok "a short lease" await_file "$lines"
sleep 6
ok "is renewed" held x
kill -STOP $holder
ok "a holder that is stopped past its lease loses the lock" "$pawl" run -w 20s x true
kill -CONT $holder
wait_status $holder
is "and ends with 123" "$code" 123
is "its last line says so" "$(field event "$lines")" lost
like "with the reason" "$(field reason "$lines")" "?*"
exec 9>&-

begin x
await_file "$lines"
"$pawl" break x
wait_status $holder
is "a lock that is broken is lost, too" "$code" 123
is "and reported" "$(field reason "$lines")" "broken by an administrator"
exec 9>&-

begin x
await_file "$lines"
kill -TERM $holder
wait_status $holder
is "TERM releases it: 128+15" "$code" 143
not_ok "nobody holds it" held x
exec 9>&-

# ---- waiting
begin x
await_file "$lines"
first=$holder
status 1 "-n is refused" "$pawl" hold -n x
like "in a line of JSON" "$output" '{"event":"refused","name":"x","held":false,"error":"PAWL_BUSY",*'
status 0 "a wait ends with its input" "$pawl" hold x </dev/null
is "and holds nothing" "$output" ""
mkfifo "$scratch/other"
"$pawl" hold x <"$scratch/other" >"$scratch/second" 9>&- &
second=$!
later $second
exec 8>"$scratch/other"
await waiter_of x
exec 9>&-
ok "the next one gets it" await_file "$scratch/second"
wait_status $first
kill -KILL $second
wait_status $second
ok "one that is killed leaves it free" await "$pawl" run -n x true
exec 8>&-

# ---- as a program uses it
cat >"$scratch/program.py" <<'PROGRAM'
import json, subprocess, sys
with subprocess.Popen([sys.argv[1], "hold", "job"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lock:
    held = json.loads(lock.stdout.readline())
    print(held["event"], held["token"])
    lock.stdin.close()
    print(lock.wait())
PROGRAM
like "a program in Python" "$(python3 "$scratch/program.py" "$pawl" | tr '\n' ' ')" "held [1-9]* 0 "
mkfifo "$scratch/open"
exec 7<>"$scratch/open"
status 125 "a lock that cannot be announced is no success" sh -c '"$0" hold x <&7 >/dev/full 7<&-' "$pawl"
like "that is said" "$errors" "pawl: cannot write to standard output: *; the lock is given back"
not_ok "and true" held x
exec 7>&-
status 125 "with a closed input it holds nothing" sh -c '"$0" hold x <&-' "$pawl"
is "and says why" "$errors" "pawl: standard input is closed: the lock is held while it is open"
done_testing
