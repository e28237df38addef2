#!/bin/sh
# with_test.sh - a command has servers of its own, gets its URLs and keeps its status; and they end with it.
. "$TAP_SH"
with=${0%/*}/with
servers=${0%/*}/servers
export TMPDIR="$scratch"

if ! "$servers" have redis-tls; then
        skip "missing: redis-server, openssl" "a command has servers of its own"
        done_testing
fi

nothing_left() {
        [ -z "$(ls "$scratch" | grep pawl-with)" ] || return 1
        ! ps -e -o stat=,args= | grep -v '^Z' | grep -q "redis-server.*$1\$"
}

# shellcheck disable=SC2016
for name in redis redis-tls redis-password redis-unix redlock3 redlock5; do
        PAWL_TEST_URL="{$name}" capture "$with" $name -- sh -c 'echo "$PAWL_TEST_URL"; exit 7'
        is "$name starts, and the status is the command's" "$code" 7
        like "its URL is told" "$output" "re*:*"
done
PAWL_TEST_URL='{redis-tls}/3' capture "$with" redis-tls -- sh -c 'echo "$PAWL_TEST_URL"'
like "a path goes before the options" "$output" "rediss://127.0.0.1:*/3[?]ca=*.key"
capture "$with" redis redis-unix -- sh -c 'echo "$REDIS_URL $REDIS_UNIX_URL"; cat'
like "several at once" "$output" "redis://127.0.0.1:* redis+unix:/*"

"$with" redis -- sh -c 'echo "$REDIS_URL" >"$0/url"; exec sleep 60' "$scratch" &
pid=$!
later $pid
tries=0
until [ -s "$scratch/url" ] || [ $tries -gt 1000 ]; do
        tries=$((tries + 1))
        sleep 0.02
done
kill $pid
code=0
wait $pid || code=$?
is "killed, it says so" "$code" 143
ok "and nothing is left" nothing_left ":$(sed 's/.*://' "$scratch/url")"
# Servers for a whole run, in a directory that outlives the command.
mkdir "$scratch/run"
unset PAWL_TEST_SERVERS
capture "$with" --shared redis -- sh -c 'echo "$REDIS_URL"'
ok "without a run --shared means a server of its own" nothing_left ":${output##*:}"
export PAWL_TEST_SERVERS="$scratch/run"
at_end "$servers" down "$scratch/run/redis"
capture "$with" --shared redis -- sh -c 'echo "$REDIS_URL"'
first=$output
not_ok "the server of a run outlives the command" nothing_left ":${first##*:}"
capture "$with" --shared redis -- sh -c 'echo "$REDIS_URL"'
is "the next command gets the same" "$output" "$first"
capture "$with" redis -- sh -c 'echo "$REDIS_URL"'
unlike "one that does not share gets its own" "$output" "$first"
kill -KILL "$(cut -d' ' -f1 "$scratch/run/redis/redis.pid")"
capture "$with" --shared redis -- sh -c 'echo "$REDIS_URL"; redis-cli -u "$REDIS_URL" ping'
like "a shared server that died is started again" "$output" "redis://*PONG"
"$servers" down "$scratch/run/redis"
ok "and all of it is stopped" nothing_left ":$(echo "$output" | sed -n '1s/.*://p')"
status 2 "a command must be given" "$with" redis
not_ok "an unknown server is an error" "$with" oracle -- true
done_testing
