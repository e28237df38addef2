#!/bin/sh
# limit.sh - a common rate for all callers.
. "${0%/*}/cli.sh"

ok "a permit that is there is taken at once" "$pawl" limit --rate 2/1h mails -- echo sent
is "and the command runs" "$output" sent
ok "options may stand behind the name" "$pawl" limit mails --rate 2/1h -- true
status 1 "the rate is used up: -n" "$pawl" limit mails --rate 2/1h -n -- echo sent
is "and nothing is run" "$output" ""
status 1 "-w knows that it would take too long" "$pawl" limit mails --rate 2/1h -w 10s -- true
status 7 "-E chooses the status" "$pawl" limit mails --rate 2/1h -n -E 7 -- true
status 1 "--json tells how long" "$pawl" limit --rate 2/1h -n --json mails
like "like this" "$output" '{"granted":false,"waited_ms":0,"wait_ms":1[0-9][0-9][0-9][0-9][0-9][0-9]}'
ok "another name has its own rate" "$pawl" limit reports --rate 2/1h -n --permits 2
status 1 "several permits can be taken at once" "$pawl" limit reports --rate 2/1h -n
ok "a burst is more than the rate gives" "$pawl" limit bursts --rate 1/1h --burst 5 --permits 5 -n
ok "a unit alone is one of it" "$pawl" limit quick --rate 1000/s
ok "who waits gets its turn" sh -c 'for i in 1 2 3 4 5 6; do "$1" limit waits --rate 20/s --burst 1 -- true || exit 1; done' \
        sh "$pawl"
status 3 "the command's status is passed on" "$pawl" limit quick --rate 1000/s -- sh -c 'exit 3'
status 127 "a command that is not there" "$pawl" limit quick --rate 1000/s -- /nonexistent
status 125 "a rate must be given" "$pawl" limit x -- true
ok "which is said in one sentence" one_sentence
for bad in 5 /s 0/s -1/s 5/0s 5/x 5/ x/s 5000000000/s; do
        status 125 "'$bad' is no rate" "$pawl" limit --rate "$bad" x -- true
done
# Another one has the bucket and does not go on.
"$pawl" run limit/stuck -- sh -c "echo began >'$scratch/began'; exec sleep 600" &
stuck=$!
later $stuck
await_file "$scratch/began"
status 1 "-n does not wait for it" timeout 20 "$pawl" limit -n --rate 5/s stuck -- echo sent
status 1 "--json is JSON then" timeout 20 "$pawl" limit -n --json --rate 5/s stuck
like "like this" "$output" '{"granted":false,"waited_ms":0,"wait_ms":0}'
kill $stuck
wait_status $stuck
ok "and then there are permits" "$pawl" limit -n --rate 5/s stuck -- true
status 125 "more permits than the bucket holds are refused" "$pawl" limit --rate 2/s --permits 3 x
done_testing
