#!/bin/sh
# cron.sh - a job on many hosts, once in a period, although their clocks differ.
. "${0%/*}/cli.sh"

# host NAME DELAY: cron on a host whose clock is so many seconds behind starts the job.
host() {
        sleep "$2"
        "$pawl" run -n --hold-at-least 2s report -- sh -c "echo '$1' >>'$scratch/ran'"
        echo "$?" >>"$scratch/statuses"
}

for delay in 0 0.1 0.3 0.5 0.8; do
        host "host-$delay" $delay &
done
wait
is "the job ran on one host" "$(wc -l <"$scratch/ran")" 1
is "the others gave up quietly" "$(grep -c '^1$' "$scratch/statuses")" 4
is "the one who ran has the job's status" "$(grep -c '^0$' "$scratch/statuses")" 1
ok "in the next period it runs again" "$pawl" run -w 20s report -- sh -c "echo next >>'$scratch/ran'"
is "once" "$(wc -l <"$scratch/ran")" 2

# Without it a host that is late runs the job a second time: that is what it is for.
rm -f "$scratch/ran"
for delay in 0 1; do
        (sleep $delay && "$pawl" run -n unheld -- sh -c "echo '$delay' >>'$scratch/ran'") &
done
wait
is "without --hold-at-least a late host runs it again" "$(wc -l <"$scratch/ran")" 2

# Whatever the clocks do: the period is the key.
for i in 1 2 3; do
        "$pawl" once report-2026-11-17-0300 --keep 1h -- sh -c "echo run >>'$scratch/keyed'; echo done" >"$scratch/answer-$i" &
done
wait
is "with the period as a key it runs once" "$(wc -l <"$scratch/keyed")" 1
is "and every host has its output" "$(cat "$scratch/answer-1" "$scratch/answer-2" "$scratch/answer-3" | sort | uniq -c | tr -s ' ')" \
        " 3 done"
done_testing
