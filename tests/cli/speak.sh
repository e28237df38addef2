#!/bin/sh
# speak.sh - what the command says while it waits, when it is refused, and when the lock is lost: as text and as JSON.
. "${0%/*}/cli.sh"

# field PATH: the value at PATH ("a.b") of the JSON objects on stdin that have it, one per line.
field() {
        python3 -c '
import json, sys
for line in sys.stdin:
        value = json.loads(line)
        for key in sys.argv[1].split("."):
                value = value.get(key, {}) if isinstance(value, dict) else {}
        if value != {}:
                print(json.dumps(value) if isinstance(value, (dict, list)) else value)' "$1"
}

# hold NAME COMMAND...: somebody holds it, and is $holder.
hold() {
        hold_name=$1
        shift
        rm -f "$scratch/holds.$hold_name" # of one before
        "$pawl" run "$hold_name" sh -c 'echo $PAWL_TOKEN >"$0"; exec sleep 600' "$scratch/holds.$hold_name" &
        holder=$!
        later $holder
        await_file "$scratch/holds.$hold_name"
        token=$(cat "$scratch/holds.$hold_name")
}

# waiters N NAME: the queue has that many.
waiters() {
        [ "$("$pawl" show --json "$2" | python3 -c '
import json, sys
print(sum(entry["role"] == "waiter" for entry in json.load(sys.stdin)))')" -eq "$1" ]
}

# ---- refused
hold x
status 1 "-n is refused" "$pawl" run -n x true
like "by a line that names the holder, its command, its age and its lease" "$errors" \
        "pawl: 'x' is held by *:$holder:pawl (sh) for *s (lease ends within *s)"
ok "one line" one_sentence
status 1 "-w is refused later" "$pawl" run -w 50ms x true
like "and says for how long it waited" "$errors" "pawl: 'x' was not free within 50ms: held by *:$holder:pawl (sh) for *"
status 1 "-q says nothing" "$pawl" run -q -w 50ms x true
is "not a word" "$output$errors" ""
status 1 "acquire is refused in the same words" "$pawl" acquire -n x
like "on standard error" "$errors" "pawl: 'x' is held by *:$holder:pawl (sh) for *"
is "and prints no lease" "$output" ""
status 1 "acquire --json prints the refusal" "$pawl" acquire --json -n x
is "as an object: not held" "$(printf '%s\n' "$output" | field held)" False
is "why" "$(printf '%s\n' "$output" | field error)" PAWL_BUSY
like "by whom" "$(printf '%s\n' "$output" | field holder.owner)" "*:$holder:pawl"
is "with which token" "$(printf '%s\n' "$output" | field holder.token)" "$token"
status 1 "acquire --json -w" "$pawl" acquire --json -w 50ms x
is "says that it waited" "$(printf '%s\n' "$output" | field error)" PAWL_TIMEOUT
status 0 "acquire --json of a free lock" "$pawl" acquire --json --ttl 1s free
is "says that it is held" "$(printf '%s\n' "$output" | field held)" True

# ---- waiting, without a terminal
"$pawl" run x true 2>"$scratch/first" &
first=$!
later $first
ok "a waiter says so after a second" await_file "$scratch/first"
like "who holds it, and for how long" "$(cat "$scratch/first")" "pawl: waiting for 'x': held by *:$holder:pawl (sh) for *s (lease ends within *s)"
"$pawl" --log-format json run x true 2>"$scratch/second" &
second=$!
later $second
ok "the next one, too" await_file "$scratch/second"
is "as JSON: the event" "$(field event <"$scratch/second")" waiting
is "the lock" "$(field name <"$scratch/second")" x
like "the time" "$(field time <"$scratch/second")" "20??-??-??T??:??:??.???Z"
is "the holder's token" "$(field holder.token <"$scratch/second")" "$token"
is "how many waiters are ahead" "$(field ahead <"$scratch/second")" 1
like "and the line for people" "$(field message <"$scratch/second")" "waiting for 'x': held by * 1 ahead of you"
"$pawl" run -q x true 2>"$scratch/third" &
third=$!
later $third
await waiters 3 x
kill $holder
for waiter in $first $second $third; do
        wait_status $waiter
        is "each waiter gets its turn" "$code" 0
done
is "a waiter writes one line, however long it waits" "$(wc -l <"$scratch/first")" 1
is "-q waits without a word" "$(cat "$scratch/third")" ""

# ---- lost
status 123 "a lock that is broken" "$pawl" run --log-format json x sh -c '"$0" break x; exec sleep 600' "$pawl"
is "is a loss" "$(printf '%s\n' "$errors" | field event)" lost
like "that says what happened and what was done" "$(printf '%s\n' "$errors" | field message)" \
        "the lock 'x' was lost: broken*; the command was sent SIGTERM, and is killed in * if it has not ended
the lock 'x' was broken by *:pawl"
status 123 "--on-lost ignore" "$pawl" run --on-lost ignore x \
        sh -c '"$0" break x; until grep -q lost "$1"; do sleep 0.05; done' "$pawl" "$scratch/.errors"
like "says that the command goes on" "$errors" "pawl: the lock 'x' was lost: *; the command runs on without it (--on-lost ignore)*"
status 123 "--on-lost kill" "$pawl" run --on-lost kill x sh -c '"$0" break x; sleep 60' "$pawl"
like "says that it was killed" "$errors" "*; the command was killed*"
status 123 "a command that ignores TERM" "$pawl" run -k 100ms x sh -c 'trap "" TERM; "$0" break x; sleep 60; sleep 60' "$pawl"
like "is killed, and that is said" "$errors" "*the command under 'x' did not end in time and was killed*"
status 143 "--max-hold" "$pawl" run --max-hold 100ms x sleep 60
like "says why the command was ended" "$errors" "pawl: 'x' was held for as long as --max-hold allows: the command was sent SIGTERM, *"

# ---- asked for
ask_for() {
        "$pawl" run "$@" -- sh -c 'trap "echo usr1 >\"$0.got\"; exit 5" USR1; echo >"$0"; while :; do sleep 0.05; done' "$scratch/asked" \
                2>"$scratch/asked.errors" &
        asked=$!
        later $asked
        await_file "$scratch/asked"
        ok "pawl ask" "$pawl" ask x
}
status 1 "pawl ask where nobody holds it" "$pawl" ask x
is "says so" "$errors" "pawl: nobody holds 'x'"
ask_for --on-asked signal:USR1 x
wait_status $asked
is "a holder that is asked, with --on-asked signal:USR1, ends as COMMAND does" "$code" 5
ok "which had the signal" test -s "$scratch/asked.got"
# The shell reports the death of its sleep, too, at any time.
is "and says so" "$(grep '^pawl: ' "$scratch/asked.errors")" "pawl: another client asks for 'x': the command was sent SIGUSR1"
rm "$scratch/asked"
ask_for --on-asked term x
wait_status $asked
is "--on-asked term" "$code" 143
rm "$scratch/asked"
ask_for x
ok "without it, it only says so" await_file "$scratch/asked.errors"
ok "somebody else asks" "$pawl" ask x
ok "and another one" "$pawl" ask x
kill $asked
wait_status $asked
is "once" "$(cat "$scratch/asked.errors")" "pawl: another client asks for 'x'"
status 125 "--on-asked kill is refused" "$pawl" run --on-asked kill x true
like "with what there is" "$errors" "pawl: --on-asked wants ignore, term or signal:SIG*"

# ---- one name for several
hold x
for n in 1 2; do
        "$pawl" run --owner batch x true 2>"$scratch/batch.$n" &
        eval "batch_$n=$!"
        later $!
        await waiters $n x
done
ok "of two waiters with one name" await_file "$scratch/batch.2"
unlike "none is told a place in the queue that may be the other's" "$(cat "$scratch/batch.2")" "*ahead of you*"
kill $holder
for n in 1 2; do
        eval "wait_status \$batch_$n"
        is "both get their turn" "$code" 0
done

# ---- who we are, and the lock-delay
"$pawl" run --owner 'batch on web1' --note 'nightly report' x sh -c '"$0" show --json x >"$1"' "$pawl" "$scratch/shown"
like "--owner" "$(cat "$scratch/shown")" '*"owner":"batch on web1"*'
like "--note" "$(cat "$scratch/shown")" '*"note":"nightly report"*'
"$pawl" run --lock-delay 60s x sh -c 'kill -9 $PPID' 2>"$scratch/killed"
like "--lock-delay keeps the lock of a holder that was killed" "$("$pawl" ls --json)" '*"name":"x","role":"free"*'
status 1 "-n is refused" "$pawl" run -n x true
like "with the reason" "$errors" "pawl: 'x' was taken a moment ago: its last holder failed, and its lock-delay ends in *"
fresh

# ---- the format
status 125 "another format is refused" "$pawl" run --log-format xml x true
like "by name" "$errors" "pawl: --log-format wants text or json, not 'xml'"
status 125 "an error as JSON" "$pawl" run --log-format json -e nonsense://x x true
is "has its level" "$(printf '%s\n' "$errors" | field level)" error
"$pawl" --log-format json -e "$PAWL_URL" run -v x true 2>"$scratch/verbose"
is "-v reports the grant, also with options before the command" "$(field event <"$scratch/verbose")" held
done_testing
