#!/bin/sh
# once.sh - one execution for each key, and its status and output for everybody.
. "${0%/*}/cli.sh"

status 3 "the first caller runs the command and has its status" "$pawl" once k -- sh -c 'echo out; echo err >&2; exit 3'
is "and its output" "$output" out
is "standard error passes, too" "$errors" err
status 3 "the second has the same status" "$pawl" once k -- sh -c 'echo other; exit 0'
is "and the same output" "$output" out
is "standard error is not kept" "$errors" ""
status 0 "another key is another execution" "$pawl" once other -- echo hello
is "with its own output" "$output" hello
ok "options may stand behind the key" "$pawl" once third --keep 1h -- echo kept
ok "--look prints what is kept" "$pawl" once --look third
is "which is this" "$output" kept
status 1 "--look finds nothing where nothing was done" "$pawl" once --look nothing
ok "--look --json is JSON" sh -c '"$1" once --look --json k | python3 -m json.tool' sh "$pawl"
ok "--forget forgets" "$pawl" once --forget k
status 1 "once" "$pawl" once --forget k
status 0 "and the next caller runs" "$pawl" once k -- true

ok "bytes come back as they were" sh -c '
        "$1" once bytes -- head -c 50000 /dev/urandom >"$2/first"
        "$1" once bytes -- false >"$2/second"
        [ "$(wc -c <"$2/first")" -eq 50000 ] && cmp "$2/first" "$2/second"' sh "$pawl" "$scratch"
ok "a longer output passes whole" sh -c '[ "$("$1" once long -- head -c 200000 /dev/zero 2>"$2/said" | wc -c)" -eq 200000 ]' \
        sh "$pawl" "$scratch"
like "and it is said that less of it is kept" "$(cat "$scratch/said")" "*65472*"
ok "later callers get as much as was kept" sh -c '[ "$("$1" once long -- true 2>/dev/null | wc -c)" -eq 65472 ]' sh "$pawl"

status 125 "an output that cannot be written was not given" sh -c '"$1" once full -- echo text >/dev/full' sh "$pawl"
like "and that is said" "$errors" "*No space left on device*--look*"
status 4 "a failure stays what it is" sh -c '"$1" once full2 -- sh -c "echo text; exit 4" >/dev/full' sh "$pawl"
status 125 "nor is it where standard output is closed" sh -c '"$1" once closed -- echo text >&-' sh "$pawl"
status 0 "it is kept all the same" "$pawl" once full -- false
is "for later callers" "$output" text
sh -c '{ "$1" once left -- sh -c "sleep 0.1; echo text"; echo $? >"$2/left"; } | true' sh "$pawl" "$scratch"
is "a reader that has left is no failure" "$(cat "$scratch/left")" 0

status 127 "a command that is not there has no result" "$pawl" once missing -- /nonexistent
status 0 "and the next caller runs" "$pawl" once missing -- true
status 143 "a command that a signal ended has none either" "$pawl" once killed -- sh -c 'kill -TERM $$'
status 0 "and the next caller runs then, too" "$pawl" once killed -- true
ok "a result is kept for as long as was said" "$pawl" once short --keep 200ms -- echo first
ok "and then it is done anew" await sh -c '[ "$("$1" once short --keep 200ms -- echo second)" = second ]' sh "$pawl"

status 4 "a failure is no result with --only-success" "$pawl" once --only-success tried -- sh -c 'echo bad; exit 4'
is "but passed on" "$output" bad
status 0 "and the next caller runs" "$pawl" once --only-success tried -- echo good
status 0 "a success is one" "$pawl" once --only-success tried -- false
is "and kept" "$output" good
status 4 "failures may be kept for less time" "$pawl" once --keep-failures 200ms soon -- sh -c 'exit 4'
ok "and then it is done anew" await sh -c '"$1" once --keep-failures 1h soon -- true' sh "$pawl"
status 0 "successes stay" "$pawl" once --keep-failures 1ms soon -- false
status 4 "a failure that is kept is replayed" "$pawl" once --keep-failures 1h failed -- sh -c 'exit 4'
status 4 "as ever" "$pawl" once failed -- true
status 125 "both at once have no meaning" "$pawl" once --only-success --keep-failures 1s x -- true

# json FIELD: of the one object that the last command printed.
json() {
        printf %s "$output" | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}
status 3 "--json is whole for who runs" "$pawl" once --json j -- sh -c 'printf "a\0b\377\303\244\n"; exit 3'
is "the output is in it, and nowhere else" "$(json output | od -An -c | tr -s ' ')" "$(printf 'a\0b\357\277\275\303\244\n\n' | od -An -c | tr -s ' ')"
is "with its size" "$(json size)" 7
is "its status" "$(json status)" 3
is "it was not replayed" "$(json replayed)" False
is "but is kept" "$(json kept)" True
first=$(json output)
token=$(json token)
status 3 "and for who comes later" "$pawl" once --json j -- true
is "the same" "$(json output)" "$first"
is "with the token of who ran" "$(json token)" "$token"
is "replayed" "$(json replayed)" True
status 4 "what is not kept" "$pawl" once --json --only-success l -- sh -c 'echo no; exit 4'
is "says so" "$(json kept)" False
status 143 "and what was killed" "$pawl" once --json m -- sh -c 'echo half; kill -TERM $$'
is "too" "$(json kept) $(json output)" "False half"
ok "an output that is cut within a character is JSON" sh -c '"$1" once --json n -- sh -c "head -c 65471 /dev/zero; printf \"\303\244\"" 2>/dev/null |
        python3 -m json.tool >/dev/null' sh "$pawl"

# While one is at it.
mkfifo "$scratch/gate"
"$pawl" once gated -- sh -c "echo began >'$scratch/began'; read x <'$scratch/gate'; echo result" >"$scratch/first" &
first=$!
later $first
await_file "$scratch/began"
status 1 "-n does not wait for who is at it" "$pawl" once -n gated -- echo mine
status 9 "-E chooses the status" "$pawl" once -n -E 9 gated -- echo mine
status 0 "also 0" timeout 20 "$pawl" once -n -E 0 gated -- echo mine
is "and nothing is run then" "$output" ""
status 1 "-w gives up" "$pawl" once -w 50ms gated -- echo mine
"$pawl" once gated -- echo mine >"$scratch/second" &
second=$!
later $second
"$pawl" once gated -- echo mine >"$scratch/third" &
third=$!
later $third
sleep 0.2
echo go >"$scratch/gate"
wait_status $first
is "the one who ran has its result" "$(cat "$scratch/first")" result
wait_status $second
is "those who waited have it" "$(cat "$scratch/second")" result
wait_status $third
is "all of them" "$(cat "$scratch/third")" result

# One that is killed in the middle.
rm -f "$scratch/began"
"$pawl" once crash --ttl 1s -- sh -c "echo \$PAWL_TOKEN >'$scratch/began'; exec sleep 600" &
victim=$!
later $victim
await_file "$scratch/began"
kill -KILL $victim
status 0 "if the runner is killed another one runs" "$pawl" once crash -- sh -c 'echo "$PAWL_TOKEN"'
ok "with a greater token" test "$output" -gt "$(cat "$scratch/began")"

# One that is overtaken.
rm -f "$scratch/began"
"$pawl" once late --on-lost ignore -- sh -c "echo began >'$scratch/began'; read x <'$scratch/gate'; echo late" \
        >"$scratch/late" 2>/dev/null &
slow=$!
later $slow
await_file "$scratch/began"
ok "an administrator breaks its lock" "$pawl" break once/late
status 0 "another one runs meanwhile" "$pawl" once late -- echo early
echo go >"$scratch/gate"
wait_status $slow
is "the late one is refused" "$code" 123
status 0 "and the other's result stands" "$pawl" once late -- true
is "as it was" "$output" early

# Whoever reads the output takes longer than the lease, and COMMAND has ended: pipes are full of what it wrote.
ok "a slow reader does not cost the result" sh -c '
        { "$1" once slow --ttl 3s -- sh -c "head -c 120000 /dev/zero; echo end"; echo $? >"$2/status"; } 2>"$2/said" |
                { sleep 5; wc -c >"$2/count"; }' sh "$pawl" "$scratch"
is "which has its status" "$(cat "$scratch/status")" 0
is "and the reader has all of it" "$(cat "$scratch/count")" 120004
ok "and it is kept" "$pawl" once --look slow

status 125 "a key must be there" "$pawl" once
status 125 "and a command" "$pawl" once k2
ok "which is said in one sentence" one_sentence
status 125 "a key that is too long is refused" "$pawl" once "$(printf '%0251d' 0)" -- true
for words in "--list" "--list k" "--list k -- true"; do
        # shellcheck disable=SC2086
        status 125 "once $words" "$pawl" once $words
        like "says that keys cannot be listed, and what can be done" "$errors" "pawl: kept keys cannot be listed: *once --look KEY*pawl ls once/*"
        ok "... in one sentence" one_sentence
done
"$pawl" acquire --ttl 10m once/running >"$scratch/running"
is "such as listing those that are being run" "$("$pawl" ls once/ | awk 'NR > 1 { print $1 }')" once/running
status 125 "--look runs nothing" "$pawl" once --look k -- true
ok "the password is hidden from the command" "$pawl" once env -- sh -c 'test -n "$PAWL_URL" && test -n "$PAWL_TOKEN"'
done_testing
