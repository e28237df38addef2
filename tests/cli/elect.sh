#!/bin/sh
# elect.sh - one leader, the next one when it fails, and those who watch.
. "${0%/*}/cli.sh"

status 1 "nobody leads in the beginning" "$pawl" elect --who boss
ok "with -1 the command runs once" "$pawl" elect -1 boss -- sh -c 'echo "$PAWL_NAME"'
is "as leader of the name" "$output" boss
status 4 "and its status is passed on" "$pawl" elect -1 boss -- sh -c 'exit 4'
status 127 "a command that is not there ends the campaign" "$pawl" elect boss -- /nonexistent
status 125 "a command must be there" "$pawl" elect boss
status 125 "who only looks runs none" "$pawl" elect --who boss -- true

"$pawl" elect --observe --every 20ms boss >"$scratch/seen" &
observer=$!
later $observer
await_file "$scratch/seen"
"$pawl" elect --value 'host one:80' --ttl 6s boss -- sh -c "echo \$PAWL_TOKEN >>'$scratch/one'; exec sleep 600" &
one=$!
later $one
await_file "$scratch/one"
ok "--who tells the leader" await "$pawl" elect --who boss
like "its epoch, owner and value" "$("$pawl" elect --who boss)" "$(cat "$scratch/one") *:$one:* host one:80"
ok "--json is JSON" sh -c '"$1" elect --who --json boss | python3 -m json.tool' sh "$pawl"
status 1 "-n does not wait to be elected" "$pawl" elect -n boss -- true
status 1 "-w gives up" "$pawl" elect -w 50ms boss -- true
"$pawl" elect --value two --ttl 6s boss -- sh -c "echo \$PAWL_TOKEN >>'$scratch/two'; exec sleep 600" &
two=$!
later $two
sleep 0.3
ok "the second candidate waits" test ! -e "$scratch/two"
kill -KILL $one
ok "when the leader is killed the next one leads" await_file "$scratch/two"
ok "with a greater epoch" test "$(cat "$scratch/two")" -gt "$(cat "$scratch/one")"
like "and its own value" "$("$pawl" elect --who boss)" "*two"
kill -TERM $two
wait_status $two
is "TERM ends the leader and its command, which is a success" "$code" 0
status 1 "and nobody leads" "$pawl" elect --who boss
ok "the observer has seen both" await grep -q ' two$' "$scratch/seen"
ok "and that nobody led in the end" await sh -c '[ "$(tail -n 1 "$1")" = - ]' sh "$scratch/seen"
kill $observer

# A command that ends is followed by another term.
"$pawl" elect --ttl 6s again -- sh -c "echo \$PAWL_TOKEN >>'$scratch/terms'" &
again=$!
later $again
ok "a leader whose command ends campaigns again" await sh -c '[ "$(wc -l <"$1")" -ge 2 ]' sh "$scratch/terms"
ok "with a new epoch" sh -c 'sort -n -c -u "$1"' sh "$scratch/terms"
kill -TERM $again
wait_status $again
is "TERM ends it between two terms or in one" "$code" 0

# As `docker run` and shells end.
"$pawl" elect --ttl 6s odd -- sh -c "echo \$PAWL_TOKEN >>'$scratch/odd'; exit 12\$((5 + \$(wc -l <'$scratch/odd') % 3))" &
odd=$!
later $odd
ok "whatever status a command has that ran" await sh -c '[ "$(wc -l <"$1")" -ge 4 ]' sh "$scratch/odd"
kill -TERM $odd
wait_status $odd

# A leader that is broken off.
rm -f "$scratch/one"
"$pawl" -q elect --ttl 6s broken -- sh -c "echo \$PAWL_TOKEN >>'$scratch/one'; exec sleep 600" &
one=$!
later $one
await_file "$scratch/one"
"$pawl" break broken
ok "a leader that was deposed campaigns again" await sh -c '[ "$(wc -l <"$1")" -ge 2 ]' sh "$scratch/one"
kill -TERM $one
wait_status $one
is "and ends by TERM" "$code" 0
done_testing
