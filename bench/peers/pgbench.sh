#!/bin/sh
# pgbench.sh PORT - drives pgbench, which comes with PostgreSQL, for the benchmark (bench/peer.h): advisory locks, by statements
# that are prepared. It connects anew for each job; what that takes does not count.
set -u
bin=
for directory in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -Vr); do
        [ -n "$bin" ] || [ ! -x "$directory/pgbench" ] || bin=$directory/
done
if [ "$1" = --version ]; then
        "${bin}pgbench" --version | sed 's/pgbench (PostgreSQL) \([^ ]*\).*/pgbench \1/'
        exit
fi
port=$1
scripts=$(mktemp -d)
trap 'rm -rf "$scripts"' EXIT
trap 'exit 0' INT TERM

printf 'SELECT %s(4712);\n' pg_try_advisory_lock pg_advisory_unlock >"$scripts/pair"
printf 'SELECT %s(4713);\n' pg_advisory_lock pg_advisory_unlock >"$scripts/turns"
printf '%s\n' 'SELECT pg_advisory_lock(4714);' '\sleep 1 ms' 'SELECT pg_advisory_unlock(4714);' '\sleep 5 ms' >"$scripts/polite"

# bench SCRIPT OPTION...: what pgbench says of it. It counts in whole seconds.
bench() {
        script=$1
        shift
        "${bin}pgbench" -n -M prepared -h 127.0.0.1 -p "$port" -U postgres -f "$scripts/$script" "$@" postgres 2>/dev/null
}

while read -r job first _; do
        case $job in
        pair) bench pair -t "$first" | sed -n 's/^latency average = \([0-9.]*\) ms/\1/p' | awk '{ print $1 * 1000 }' ;;
        *) bench "$job" -c "$first" -j 1 -T 1 | sed -n 's/^tps = \([0-9.]*\) .*/\1/p' ;;
        esac
done
