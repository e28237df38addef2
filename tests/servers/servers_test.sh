#!/bin/sh
# servers_test.sh - the real stores can be started, answer one real command each, and leave nothing behind.
. "$TAP_SH"
servers=$(dirname "$0")/servers
chmod 755 "$scratch"
at_end "$servers" down "$scratch/run"

there=
for name in redis etcd zookeeper postgres etcd3 etcd-tls etcd-auth zookeeper3 zookeeper-tls zookeeper-default; do
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

host_of() { echo "$1" | sed 's|.*://||; s|.*@||; s|/.*||; s|?.*||'; }
# say_to HOST:PORT WORD: to a ZooKeeper.
say_to() { echo "$2" | nc -w 2 "${1%:*}" "${1#*:}"; }
etcd3() { ETCDCTL_API=3 etcdctl --endpoints "$ETCD3_URL" "$@"; }

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
        etcd3)
                ETCD3_URL=$(host_of "$ETCD3_URL")
                is "of three members of etcd" "$(etcd3 member list | wc -l)" 3
                is "one leads" "$(etcd3 endpoint status | cut -d, -f5 | grep -c true)" 1
                ;;
        etcd-tls)
                at=https://$(host_of "$ETCD_TLS_URL")
                set -- --endpoints "$at" --command-timeout=2s --cacert "$scratch/run/ca.crt"
                not_ok "etcd refuses who has no certificate" etcdctl "$@" get x
                ok "and serves who has" etcdctl "$@" --cert "$scratch/run/client.crt" --key "$scratch/run/client.key" get x
                ;;
        etcd-auth)
                at=$(host_of "$ETCD_AUTH_URL")
                set -- --endpoints "$at"
                not_ok "etcd refuses who has no password" etcdctl "$@" put lock/x 1
                ok "and serves the worker" etcdctl "$@" --user worker:one:100% put lock/x 1
                not_ok "but only below lock/" etcdctl "$@" --user worker:one:100% put x 1
                ;;
        zookeeper)
                like "zookeeper says who it is" "$(say_to "$(host_of "$ZOOKEEPER_URL")" srvr)" "*Mode: standalone*"
                ;;
        zookeeper3)
                # The ensemble serves as soon as two of them do.
                for _ in $(seq 100); do
                        modes=$(for at in $(host_of "$ZOOKEEPER3_URL" | tr , ' '); do say_to "$at" srvr | grep Mode; done)
                        [ "$(echo "$modes" | wc -l)" -lt 3 ] || break
                        sleep 0.1
                done
                is "of three ZooKeepers one leads and two follow" "$(echo "$modes" | sort | uniq -c | tr -s ' \n' ' ')" \
                        " 2 Mode: follower 1 Mode: leader "
                ;;
        zookeeper-tls)
                at=$(host_of "$ZOOKEEPER_TLS_URL")
                is "one with TLS says nothing in the clear" "$(say_to "$at" srvr)" ""
                ;;
        zookeeper-default)
                like "one with the defaults has sessions of 4 s at least" \
                        "$(say_to "$(host_of "$ZOOKEEPER_DEFAULT_URL")" conf)" "*minSessionTimeout=4000*"
                ;;
        postgres)
                is "postgres counts" "$(psql -qAt "$POSTGRES_URL" -c 'select 6 * 7')" 42
                ;;
        esac
done

is "every server is in a session of its own" "$(ps -o sid= -p "$sessions" | sort -u | wc -l)" "$(echo "$processes" | wc -l)"
ok "they stop" "$servers" down "$scratch/run"
is "and leave no process behind" "$(ps -o stat=,args= -s "$sessions" | grep -v '^Z')" ""
ok "stopping twice is no trouble" "$servers" down "$scratch/run"
status 2 "an unknown server is a usage error" "$servers" up "$scratch/other" oracle
done_testing
