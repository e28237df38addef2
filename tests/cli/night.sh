#!/bin/sh
# night.sh - docs/RUNBOOK.md, beside what runbook.sh runs of it: a store that is down, a holder that is ended, results that are
# forgotten, a restore. The lines as they are written: only hosts, paths and process ids are others. The stores are at REDIS_URL,
# which is stopped and goes on, and ETCD_URL.
. "${0%/*}/cli.sh"
. "${0%/*}/document.sh"

document docs/RUNBOOK.md
redis_url="$REDIS_URL"
server=$(redis-cli -u "$redis_url" INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
replace="s|/srv/|$scratch/srv/|g; s|etcd://e1,e2,e3|$ETCD_URL|g"
mkdir -p srv/reports
for heading in "Is the store well?" "Who holds the lock?" "Free a lock by force" "A guard refuses everything"; do
        block "$heading" >runbook # runbook.sh runs them
done

# Whatever happens, it does not stay stopped.
at_end kill -CONT "$server"

# ---- the store is down
PAWL_URL=$redis_url pawl run --ttl 3s short -- sh -c 'echo began >short; exec sleep 600' 2>short.said &
short=$!
later $short
PAWL_URL=$redis_url pawl run --ttl 10m long -- sh -c 'echo began >long; until [ -e long-over ]; do sleep 0.05; done' &
long=$!
later $long
ok "a job with a short lease runs" await_file short
ok "and one with a long lease" await_file long
before=$(PAWL_URL=$redis_url pawl show short | awk '$1 == "holder" { print $3 }')
kill -STOP "$server"
status 1 "a store that does not answer is a danger" pawl doctor -e "$redis_url?timeout=1s"
like "which is said" "$output" "danger *"
printf '%s\n' "$output" | grep '^danger' >danger
status 125 "no lock can be acquired" pawl run -n -e "$redis_url?timeout=1s" other true
wait_status $short
is "a holder loses its lock when its lease ends" "$code" 123
like "and says so" "$(cat short.said)" "*lease of 'short' could not be renewed*"
ok "a longer lease stands" alive $long
kill -CONT "$server"
PAWL_URL=$redis_url
block "The store is down" | sed 's/&& pawl doctor/\&\& pawl doctor >doctor || [ $? -eq 1 ]/' >back.sh
ok "The store is down: there are lines" test -s back.sh
ok "when it is back it grants again" sh -e back.sh
ok "and that danger is over" sh -c 'test -s danger && ! grep -xF -f danger doctor'
is "the lost lock is free" "$(pawl run -w 1m short sh -c 'echo "$PAWL_TOKEN" >token; echo free')" free
ok "with a greater token" test "$(cat token)" -gt "$before"
status 1 "the longer lease still stands" pawl run -n long true
: >long-over
wait_status $long
is "and its job ends well" "$code" 0

# ---- free it safely
fresh
pawl run --on-asked signal:USR1 nightly -- sh -c 'trap "echo asked >asked" USR1; trap "echo ended >ended; exit 0" TERM
        echo began >began; while :; do sleep 0.05; done' &
holder=$!
later $holder
ok "a job holds the lock" await_file began
block "Who holds the lock?" 2 | sed "s/4711/$holder/" >ps.sh
ok "its process is there" sh ps.sh
like "with what it runs" "$output" "*$holder*pawl run*nightly*"
block "Free a lock safely" | sed "s/4711/$holder/" >free.sh
ok "it is asked" sh -ec "$(sed -n 1p free.sh)"
ok "and has heard" await_file asked
status 1 "but holds the lock" pawl run -n nightly true
ok "then it is ended" sh -ec "$(sed -n 2p free.sh)"
wait_status $holder
is "its command first" "$(cat ended)" ended
is "and the lock is free" "$(pawl run -n nightly echo free)" free

# ---- once
pawl once invoice-7 -- sh -c 'echo wrong' >once
run_block "Once has kept a wrong result"
is "the kept output is shown" "$output" wrong
is "and forgotten" "$(pawl once invoice-7 -- echo right)" right

# ---- a restore
write='pawl put --store file:srv/reports today.txt "$PAWL_TOKEN" -- echo report'
PAWL_URL=local:$scratch/srv/locks
ok "a guard sees a token" pawl run today.txt -- sh -c "$write"
cp -a srv/locks backup
for turn in 1 2 3; do
        pawl run today.txt -- sh -c "$write"
done
rm -r srv/locks && mv backup srv/locks
block "After a restore from a backup" >restore.sh
ok "after a restore the directory is removed" sh -ec "$(sed -n 1p restore.sh)"
ok "and pawl init is run for etcd" sh -ec "$(sed -n 2p restore.sh)"
block "After a restore from a backup" 2 >right.sh
sh -e right.sh >right
set -- $(awk '$1 == "today.txt" { print $2 } END { print $1 }' right)
ok "a new token is greater than that of the mark" test "$2" -gt "$1"
ok "so that writes pass" pawl run today.txt -- sh -c "$write"

every_block_is_used
done_testing
