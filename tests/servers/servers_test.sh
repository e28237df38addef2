#!/bin/sh
# servers_test.sh - the real stores can be started, answer one real command each, and leave nothing behind.
. "$TAP_SH"
servers=$(dirname "$0")/servers
chmod 755 "$scratch"
at_end "$servers" down "$scratch/run"

there=
for name in redis etcd zookeeper postgres; do
        if "$servers" have $name; then
                there="$there $name"
        else
                skip "missing: $name" "$name is started"
        fi
done
[ -n "$there" ] || done_testing

# shellcheck disable=SC2086
ok "the servers start and answer:$there" "$servers" up "$scratch/run" $there
[ "$code" -eq 0 ] || done_testing
. "$scratch/run/env"
processes=$(cut -d' ' -f1 "$scratch"/run/*.pid)
sessions=$(echo $processes | tr ' ' ,)

host_of() { echo "$1" | sed 's|.*://||; s|.*@||; s|/.*||'; }

for name in $there; do
        case $name in
        redis)
                at=$(host_of "$REDIS_URL")
                cli="redis-cli -h ${at%:*} -p ${at#*:}"
                is "redis sets a key only once" "$($cli set x 1 nx px 60000),$($cli set x 2 nx px 60000)" "OK,"
                ;;
        etcd)
                at=$(host_of "$ETCD_URL")
                export ETCDCTL_API=3
                etcdctl --endpoints "http://$at" put x 1 >"$scratch/put"
                is "etcd keeps a key" "$(etcdctl --endpoints "http://$at" get --print-value-only x)" 1
                ;;
        zookeeper)
                at=$(host_of "$ZOOKEEPER_URL")
                like "zookeeper says who it is" "$(echo srvr | nc -w 2 "${at%:*}" "${at#*:}")" "*Mode: standalone*"
                ;;
        postgres)
                is "postgres counts" "$(psql -qAt "$POSTGRES_URL" -c 'select 6 * 7')" 42
                ;;
        esac
done

like "every server is in a session of its own" "$(ps -o pid= -s "$sessions" | wc -l)" "[4-9]*"
ok "they stop" "$servers" down "$scratch/run"
is "and leave no process behind" "$(ps -o stat=,args= -s "$sessions" | grep -v '^Z')" ""
ok "stopping twice is no trouble" "$servers" down "$scratch/run"
status 2 "an unknown server is a usage error" "$servers" up "$scratch/other" oracle
done_testing
