#!/bin/sh
# elect.sh - a service that runs on one of many hosts: each has this line in its unit file, and when the leader dies another one
# goes on. Clients ask where it is.
#
#     ExecStart=pawl elect --value %H:80 web -- /usr/bin/service
#
# $PAWL is the command (default: pawl); $PAWL_URL chooses the engine.
set -eu
pawl=${PAWL:-pawl}
name=example/web

"$pawl" elect --ttl 2s --value alpha:80 "$name" -- sleep 60 &
alpha=$!
beta=
trap 'kill $alpha $beta 2>/dev/null || :; wait' EXIT

# Waits until what is told of the leader ends like this.
await() {
        tries=0
        until leader=$("$pawl" elect --who "$name" 2>/dev/null) && [ "${leader##* }" = "$1" ]; do
                tries=$((tries + 1))
                [ $tries -lt 600 ] || { echo "$1 does not lead" >&2; exit 1; }
                sleep 0.1
        done
        echo "${leader##* } leads, in epoch ${leader%% *}"
}

await alpha:80
first=${leader%% *}
"$pawl" elect --ttl 2s --value beta:80 "$name" -- sleep 60 &
beta=$!
kill -KILL $alpha
await beta:80
[ "${leader%% *}" -gt "$first" ] || { echo "the epoch is not greater" >&2; exit 1; }
