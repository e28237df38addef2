#!/bin/sh
# fenced.sh - a script whose late write is refused. `pawl run` hands its command a token; `pawl put` writes a file only if
# no greater token was there before.
# $PAWL is the command (default: pawl); $PAWL_URL chooses the engine. Writes into the current directory.
set -eu
pawl=${PAWL:-pawl}
export pawl
store=file:$PWD
name=example/fenced-report

# The usual case: hold the lock, write under its token. (Here the token is also kept, to come back with it later.)
"$pawl" run "$name" sh -c '
        echo "$PAWL_TOKEN" >old-token
        echo "from the first holder" | "$pawl" put --store "$1" report.txt "$PAWL_TOKEN"' sh "$store"

# Somebody else holds the lock and writes.
"$pawl" run "$name" sh -c '
        echo "from the second holder" | "$pawl" put --store "$1" report.txt "$PAWL_TOKEN"' sh "$store"

# The first holder was paused all the while, and now writes what it had prepared: 124, and nothing is changed.
status=0
echo "late, from the first holder" | "$pawl" put --store "$store" report.txt "$(cat old-token)" || status=$?
[ "$status" -eq 124 ] || { echo "the late write ended with status $status" >&2; exit 1; }
[ "$(cat report.txt)" = "from the second holder" ] || { echo "the report is damaged" >&2; exit 1; }
echo "the late write was refused; the report is still from the second holder"
