#!/bin/sh
# servers_test.sh - the real stores can be started, answer one real command each, and leave nothing behind.
. "$TAP_SH"
servers=$(dirname "$0")/servers
chmod 755 "$scratch"
at_end "$servers" down "$scratch/run"

umask 077 # of somebody who is careful: PostgreSQL and PgBouncer read files as another user where we are root

there=
for name in redis etcd zookeeper postgres etcd3 etcd-tls etcd-auth zookeeper3 zookeeper-tls zookeeper-default postgres-tls \
        postgres-role postgres-pair pgbouncer pgbouncer-session; do
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
say_to() { printf %s "$2" | nc -w 30 "${1%:*}" "${1#*:}"; }
ask() { psql -qAtX "$@" 2>"$scratch/psql"; }
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
                is "postgres counts" "$(ask "$POSTGRES_URL" -c 'select 6 * 7')" 42
                is "and has its data in memory" "$(stat -f -c %T "$(ask "$POSTGRES_URL" -c 'show data_directory')")" \
                        "$(stat -f -c %T /dev/shm)"
                ;;
        postgres-tls)
                is "one with TLS knows the worker by a password" "$(ask "$POSTGRES_TLS_URL" -c 'select user')" worker
                is "and the worker the server" "$(ask "$POSTGRES_TLS_URL" -c 'select ssl from pg_stat_ssl where pid = pg_backend_pid()')" t
                not_ok "nobody comes in without" ask "${POSTGRES_TLS_URL%%\?*}?sslmode=disable" -c 'select 1'
                not_ok "nor with another password" ask "$(echo "$POSTGRES_TLS_URL" | sed 's|one%3A100|two%3A100|')" -c 'select 1'
                ;;
        postgres-role)
                not_ok "a role for calls only may make no table" ask "$POSTGRES_ROLE_URL" -c 'create table pawl.x()'
                not_ok "nor read one" ask "$POSTGRES_ROLE_URL" -c 'select * from pawl.lock'
                like "but call" "$(ask "$POSTGRES_ROLE_URL" -c 'select pawl.lock_version()')" "[1-9]"
                ;;
        postgres-pair)
                at=$(host_of "$POSTGRES_PAIR_URL")
                is "the first of a pair is the primary" "$(ask "$POSTGRES_PAIR_URL" -c 'select pg_is_in_recovery()')" f
                is "what it says is heard" "$(ask "$POSTGRES_PAIR_URL" -c 'create table x as select 7 as y' &&
                        ask "postgres://postgres@${at#*,}/postgres" -c 'select y from x')" 7
                ;;
        pgbouncer)
                # What is said between two transactions is said to somebody else now and then.
                is "pgbouncer hands on transactions" "$(ask "$PGBOUNCER_URL" -c 'select 6 * 7')" 42
                ask "postgres://postgres@$(host_of "$PGBOUNCER_URL")/pgbouncer" -c 'show config' >"$scratch/config"
                like "and no sessions" "$(grep '^pool_mode' "$scratch/config")" "pool_mode|transaction|*"
                ;;
        pgbouncer-session)
                is "and one hands on sessions" "$(ask "$PGBOUNCER_SESSION_URL" -c 'select 6 * 7')" 42
                ;;
        esac
done

is "every server is in a session of its own" "$(ps -o sid= -p "$sessions" | sort -u | wc -l)" "$(echo "$processes" | wc -l)"
children=$(ps -o pid= --ppid "$sessions" | paste -s -d , | tr -d ' ')
ok "they stop" "$servers" down "$scratch/run"
is "and leave no process behind" "$(ps -o stat=,args= -s "$sessions" | grep -v '^Z')" ""
is "nor one of PostgreSQL, which have sessions of their own" "$(ps -o pid=,args= -p "$children" | grep postgres:)" ""
ok "stopping twice is no trouble" "$servers" down "$scratch/run"

if [ "$(id -u)" -eq 0 ] && "$servers" have postgres; then
        mkdir -m 700 "$scratch/closed"
        status 1 "below a directory that PostgreSQL may not enter it does not start" "$servers" up "$scratch/closed/run" postgres
        like "and that is said" "$errors" "*may not enter $scratch/closed/run: set TMPDIR*"
fi

# Of eight ports, outside of the range of other runs, seven are another's: he need not be listening at the moment.
ports=/tmp/pawl-ports.$(id -u)
first=$((9000 + $$ % 100 * 8))
mkdir -p "$scratch/another"
port=$first
while [ $port -lt $((first + 7)) ]; do
        ln -sfT "$scratch/another" "$ports/$port"
        at_end rm -f "$ports/$port"
        port=$((port + 1))
done
unset PAWL_TEST_SERVERS
at_end "$servers" down "$scratch/other"
if "$servers" have redis; then
        PAWL_TEST_PORTS=$first-$port ok "a server starts beside another run" "$servers" up "$scratch/other" redis
        is "on a port that nobody has reserved" "$(sed 's/.*:\([0-9]*\).$/\1/' "$scratch/other/env")" "$port"
        is "and reserves it" "$(readlink "$ports/$port")" "$scratch/other"
        "$servers" down "$scratch/other"
        is "until it is stopped" "$(readlink "$ports/$port")" ""
fi
status 2 "an unknown server is a usage error" "$servers" up "$scratch/other" oracle
done_testing
