#!/bin/sh
# watch_redis.sh - `pawl watch` and a server that does not answer for a while: that is said once, and what happened meanwhile
# is found in the history.
. "${0%/*}/cli.sh"

PAWL_URL="$REDIS_URL?timeout=500ms"
port=${REDIS_URL##*:}
server=$(redis-cli -p "$port" info server | tr -d '\r' | sed -n 's/^process_id://p')
at_end kill -CONT "$server"

has() {
        grep -q "$1" "$scratch/seen"
}

"$pawl" acquire --owner before --ttl 10m job >"$scratch/lease"
"$pawl" watch -i 100ms --prefix j >"$scratch/all" 2>"$scratch/said" &
all=$!
later $all
"$pawl" watch -i 100ms --json job >"$scratch/seen" 2>"$scratch/said" &
watcher=$!
later $watcher
ok "a holder" await has '"event":"held","name":"job".*"owner":"before"'
kill -STOP "$server"
ok "a server that does not answer" await has '"event":"away","at":.*"error":"PAWL_UNREACHABLE","message":".'
sleep 2
is "is reported once" "$(grep -c away "$scratch/seen")" 1
kill -CONT "$server"
ok "and when it is back" await has '"event":"back","at":'
"$pawl" release "$(cut -d' ' -f2 "$scratch/lease")"
"$pawl" run --owner after job true
ok "the watch goes on" await has '"event":"released","name":"job".*"owner":"before"'
ok "with what came and went" await has '"event":"released","name":"job".*"owner":"after"'
ok "of many names as of one" await grep -q "released 'job' token [0-9]* after" "$scratch/all"
is "where the same is said" "$(grep -c "away\|back" "$scratch/all")" 2
kill $watcher $all
wait_status $watcher
is "TERM ends it" "$code" 143
done_testing
