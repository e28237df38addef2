#!/bin/sh
# lease_script.sh - a lock that spans several commands of a script: take a lease, extend it, give it back.
# The lease lives for its ttl whether or not this script does; nothing runs in the background.
# $PAWL is the command (default: pawl); $PAWL_URL chooses the engine.
set -eu
pawl=${PAWL:-pawl}
name=example/release

# "TOKEN LEASE": the token goes to whatever is written under the lock, the lease is our proof of holding it.
grant=$("$pawl" acquire --ttl 30s --wait 5s "$name")
token=${grant% *}
lease=${grant#* }
echo "holding $name under token $token"

if "$pawl" acquire -n "$name" >/dev/null 2>&1; then
        echo "somebody else got $name too" >&2
        exit 1
fi

"$pawl" renew "$lease" >/dev/null # before the ttl ends; a lease that ended cannot be renewed
"$pawl" release "$lease"

if "$pawl" renew "$lease" >/dev/null 2>&1; then
        echo "a released lease was renewed" >&2
        exit 1
fi

again=$("$pawl" acquire --ttl 30s -n "$name")
"$pawl" release "${again#* }"
[ "${again% *}" -gt "$token" ] && echo "the next grant has a greater token: ${again% *}"
