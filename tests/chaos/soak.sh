#!/bin/sh
# soak.sh - the chaos tests for as long as you like: soak.sh [--long SECONDS] [--build DIR] [TEST...]
# Each random test hurts for SECONDS (default 300); the seed of each is printed, CHAOS_SEED=N uses it again.
set -eu
seconds=300
build=build
while [ $# -gt 0 ]; do
        case $1 in
        --long) seconds=$2; shift 2 ;;
        --build) build=$2; shift 2 ;;
        --) shift; break ;;
        -*) echo "usage: soak.sh [--long SECONDS] [--build DIR] [kills|pauses|forks|damage|crowd]..." >&2; exit 2 ;;
        *) break ;;
        esac
done
[ $# -gt 0 ] || set -- kills pauses forks damage crowd
failed=0
for part in "$@"; do
        CHAOS_SECONDS=$seconds "$build/tests/chaos/chaos_$part" --timeout $((seconds * 4 + 600)) || failed=1
done
exit $failed
