#!/bin/sh
# migrating.sh - the lines of docs/MIGRATING.md, as they are written: only hosts, paths and long times are others. The stores are
# at LOCAL (always), REDIS_URL, REDLOCK3_URL, ETCD_URL, ZOOKEEPER_URL and POSTGRES_URL.
. "${0%/*}/cli.sh"
. "${0%/*}/document.sh"

document docs/MIGRATING.md
etcd=${ETCD_URL#etcd://}
zk=${ZOOKEEPER_URL#zk://}
replace="s|/srv/|$scratch/srv/|g; s|redis://cache.example|$REDIS_URL|g; s|redlock://r1,r2,r3|$REDLOCK3_URL|g
s|etcd://e1,e2,e3|$ETCD_URL|g; s|e1:2379|$etcd|g; s|z1:2181|$zk|g; s|postgres://db.example/app|$POSTGRES_URL|g
s|--hold-at-least 1m|--hold-at-least 1s|"
ETCDCTL_API=3
export ETCDCTL_API
python3=python3 # whose modules come from the distribution, and need not be the first in the PATH
$python3 -c 'import redis, kazoo' 2>import || python3=/usr/bin/python3
mkdir -p srv/reports
program ./backup.sh
program ./report

# python NUMBER: a program of the section redis-py or of kazoo, with a work() that says its token and waits for a file.
python() {
        block "$1" "$2" python >.program
        ok "$1: there is a program" test -s .program
        {
                echo "import os, time"
                echo "def work(token='none'):"
                echo "    open('working', 'w').write(token)"
                echo "    while not os.path.exists('work-over'): time.sleep(0.05)"
                cat .program
        } >program.py
        rm -f working work-over
        $python3 program.py >program.out 2>&1 &
        program=$!
        later $program
        ok "$1: it holds the lock" await_file working
}

# end_python SENTENCE: it goes on and ends well.
end_python() {
        : >work-over
        wait_status $program
        is "$1" "$code" 0
        [ "$code" -eq 0 ] || note "$(cat program.out)"
}

# excluded SENTENCE URL: ours is refused while theirs holds.
excluded() {
        status 1 "$1" pawl -e "$2" run -n nightly true
}

# hold_ours URL: ours holds nightly until let_go.
# What is started meanwhile must not inherit the writing end.
hold_ours() {
        mkfifo open
        pawl -e "$1" hold nightly <open >held 2>&1 &
        ours=$!
        later $ours
        exec 8>open
        ok "ours holds it" await_file held
}
let_go() {
        exec 8>&-
        wait_status $ours
        is "ours is released" "$code" 0
        rm -f open held
}

# ---- flock(1)
run_block "flock(1)"
is "flock(1): theirs and ours do the same" "$(echo "$output" | uniq -c | tr -s ' ')" " 6 backup.sh
 2 1"
block "flock(1)" >flock.sh
# each pair once more, while somebody holds both
flock backup.lock sh -c '
        pawl run backup -- sh -c "echo began >began; exec sleep 600"' &
holder=$!
later $holder
await_file began
grep -e '-n ' flock.sh | while read -r line; do
        sh -c "$line" >>refused 2>/dev/null
        echo "status $?" >>refused
done
is "flock(1): and are refused with the same status" "$(uniq refused)" "status 1"
block "flock(1)" 2 >both.sh
status 1 "flock(1): a job that wants both is refused as well" sh both.sh
kill "$(pawl show --json backup | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["owner"].split(":")[1])')"
wait_status $holder
run_block "flock(1)" 2
run_block "flock(1)" 3
is "flock(1): a lease in the middle of a script is given back" "$(pawl run -n backup echo free)" free

# ---- Redis
python redis-py 1
excluded "redis-py: theirs keeps ours out" "$REDIS_URL"
end_python "redis-py: it ends well"
run_block redis-py 1
python redis-py 2
like "redis-py: in Python by pawl hold there is a token" "$(cat working)" "[1-9]*"
excluded "redis-py: it keeps ours out" "$REDIS_URL"
end_python "redis-py: it ends well"
hold_ours "$REDIS_URL"
is "redis-py: ours keeps theirs out" "$($python3 -c '
import redis, sys
print(redis.Redis.from_url(sys.argv[1]).lock("lock:nightly", timeout=60).acquire(blocking=False))' "$REDIS_URL")" False
let_go
redis-cli -u "$REDIS_URL" HSET lock:nightly 8743c9c0-4795-40f7-97fd-6c719a6b4586:1 1 >hset
status 125 "Redisson: its lock is an error to ours" pawl -e "$REDIS_URL" run -n nightly true
redis-cli -u "$REDIS_URL" DEL lock:nightly >hset
run_block "Redlock libraries"
is "Redlock libraries: the job runs" "$output" backup.sh

# ---- ShedLock
run_block ShedLock
is "ShedLock: the job runs" "$output" report

# ---- etcd
run_block "etcdctl lock"
like "etcdctl lock: theirs and ours do the same" "$output" "*backup.sh*backup.sh"
printf '#!/bin/sh\necho began >etcd-began\nuntil [ -e etcd-over ]; do sleep 0.05; done\n' >long.sh
printf '#!/bin/sh\necho second >etcd-second\n' >second.sh
chmod +x long.sh second.sh
etcdctl --endpoints "$etcd" lock lock/nightly ./long.sh >etcdctl.out 2>&1 &
theirs=$!
later $theirs
ok "etcdctl lock: theirs holds it" await_file etcd-began
excluded "etcdctl lock: and keeps ours out" "$ETCD_URL"
: >etcd-over
wait_status $theirs
hold_ours "$ETCD_URL"
etcdctl --endpoints "$etcd" lock lock/nightly ./second.sh 8>&- >etcdctl.out 2>&1 &
theirs=$!
later $theirs
ok "etcdctl lock: theirs waits behind ours" await sh -c "pawl -e '$ETCD_URL' show nightly | grep -q '^waiter'"
ok "etcdctl lock: and does not run" test ! -e etcd-second
let_go
ok "etcdctl lock: then it does" await_file etcd-second

# ---- ZooKeeper
python "Curator and kazoo" 1
excluded "kazoo: theirs keeps ours out" "$ZOOKEEPER_URL/locks"
end_python "kazoo: it ends well"
run_block "Curator and kazoo"
is "kazoo: ours runs then" "$output" backup.sh

# ---- PostgreSQL
block "pg_advisory_lock and GET_LOCK" >advisory.sh
ok "pg_advisory_lock: the lines work" sh -e advisory.sh
like "pg_advisory_lock: theirs and ours do the same" "$output" "*backup.sh*backup.sh"
printf '#!/bin/sh\necho began >advisory-began\nuntil [ -e advisory-over ]; do sleep 0.05; done\n' >slow.sh
chmod +x slow.sh
sed -n 's|backup|slow|; /^psql/p' advisory.sh >theirs.sh
sh theirs.sh >psql.out 2>&1 &
theirs=$!
later $theirs
ok "pg_advisory_lock: theirs holds it" await_file advisory-began
case $POSTGRES_URL in
*\?*) advisory="$POSTGRES_URL&mode=advisory" ;;
*) advisory="$POSTGRES_URL?mode=advisory" ;;
esac
excluded "pg_advisory_lock: and keeps ours out" "$advisory"
: >advisory-over
wait_status $theirs

# ---- from one engine to another
write='pawl put --store file:srv/reports today.txt "$PAWL_TOKEN" -- ./report'
ok "a guard sees a token of local:" pawl -e "local:$scratch/srv/locks" run today.txt -- sh -c "$write"
run_block "From one engine to another"
like "it is shown beside one of the new store" "$output" "*today.txt *[1-9]*[1-9]* *"
status 124 "which is smaller, so that all writes are refused" pawl -e "$ETCD_URL" run today.txt -- sh -c "$write"
run_block "From one engine to another" 2
ok "after pawl init they pass" pawl -e "$ETCD_URL" run today.txt -- sh -c "$write"
status 124 "a holder of the old store is refused" pawl -e "local:$scratch/srv/locks" run today.txt -- sh -c "$write"
run_block "From one engine to another" 3
ok "after pawl forget it passes" pawl -e "local:$scratch/srv/locks" run today.txt -- sh -c "$write"
ok "as do those of an engine that counts by the clock, too" pawl -e "$REDIS_URL" run today.txt -- sh -c "$write"

every_block_is_used
every_block_is_used python
done_testing
