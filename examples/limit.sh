#!/bin/sh
# limit.sh - a common rate for scripts wherever they run: here three mails an hour, whoever sends them.
# $PAWL is the command (default: pawl); $PAWL_URL chooses the engine. Writes into the current directory.
set -eu
pawl=${PAWL:-pawl}
name=example/alarms-$(date +%s)-$$ # a real one is called after what is sent: its rate goes on from run to run

sent=0 refused=0
for mail in 1 2 3 4 5; do
        # -n: an alarm is worth nothing in an hour. Status 1: there is no permit, and nothing was run.
        status=0
        "$pawl" limit --rate 3/1h -n "$name" -- sh -c 'echo "mail $1" >>sent' sh "$mail" 2>/dev/null || status=$?
        case $status in
        0) sent=$((sent + 1)) ;;
        1) refused=$((refused + 1)) ;;
        *) echo "mail $mail ended with status $status" >&2; exit 1 ;;
        esac
done
[ $sent -eq 3 ] && [ $refused -eq 2 ] && [ "$(wc -l <sent)" -eq 3 ]
echo "$sent mails were sent, $refused were too many"
