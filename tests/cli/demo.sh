#!/bin/sh
# demo.sh - `pawl demo` shows the refused write, is quick, and leaves nothing behind.
. "${0%/*}/cli.sh"

mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp
export TMPDIR
began=$(date +%s)
status 0 "the demo succeeds" "$pawl" demo
said=$output
complaints=$errors
ok "in under 20 seconds" test $(($(date +%s) - began)) -lt 20
like "the late write is refused" "$said" "*anna*REFUSED by the guard: token*is older than*"
is "once" "$(printf '%s\n' "$said" | grep -c REFUSED)" 1
unlike "every check was true" "$said" "*NO *"
unlike "without a terminal there are no colours" "$said" "*$(printf '\033')*"
is "nothing is left behind" "$(ls -A "$TMPDIR")" ""
is "nothing is said on stderr" "$complaints" ""

"$pawl" demo >"$scratch/half" 2>&1 &
demo=$!
later $demo
await_file "$scratch/half"
workers=$(ps -e -o ppid= -o pid= | awk -v p="$demo" '$1 == p { print $2 }')
kill -TERM $demo
wait_status $demo
is "TERM ends it with 143" "$code" 143
is "and nothing is left behind" "$(ls -A "$TMPDIR")" ""
for worker in $workers; do
        ok "no worker lives on" dead "$worker"
done
done_testing
