#!/bin/sh
# signals.sh - signals to `pawl run`: passed on to COMMAND's whole group, and what they do while it waits.
. "${0%/*}/cli.sh"

# A command that notes each signal in $1 and ends when told by a file, with a child in its group that does so as well.
cat >"$scratch/listener" <<'EOF'
#!/bin/sh
for name in INT TERM HUP QUIT USR1 USR2 TSTP CONT WINCH; do
        trap "echo $name >>'$1'" $name
done
echo $$ >"$2"
while [ ! -e "$1.end" ]; do sleep 0.05; done
exit 17
EOF
chmod +x "$scratch/listener"

for signal in INT TERM HUP QUIT USR1 USR2 TSTP CONT WINCH; do
        fresh
        # env: a background job of this shell ignores INT and QUIT, and so would everything below it.
        python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$pawl" run x sh -c '"$0" "$1/child" "$1/child.pid" & exec "$0" "$1/leader" "$1/leader.pid"' \
                "$scratch/listener" "$place" &
        runner=$!
        later $runner
        await_file "$place/leader.pid"
        await_file "$place/child.pid"
        kill -$signal $runner
        await_file "$place/leader"
        is "$signal is passed on to COMMAND, once" "$(cat "$place/leader")" "$signal"
        if [ $signal != INT ] && [ $signal != QUIT ]; then # a shell's background jobs ignore these two
                await_file "$place/child"
                is "$signal is passed on to its whole group" "$(cat "$place/child")" "$signal"
        fi
        ok "and the lock is still held" held x
        touch "$place/leader.end" "$place/child.end"
        wait_status $runner
        is "and COMMAND's status comes back" "$code" 17
done

# ---- while waiting
fresh
"$pawl" run x sh -c 'echo $$ >"$0/held"; exec sleep 60' "$place" &
holder=$!
later $holder
await_file "$place/held"
for pair in TERM:143 HUP:129 USR1:138 USR2:140 INT:130 QUIT:131; do
        signal=${pair%:*}
        python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$pawl" run x touch "$place/ran" &
        waiter=$!
        later $waiter
        await sh -c '"$0" show --json x | grep -q waiter' "$pawl"
        kill -$signal $waiter
        wait_status $waiter
        is "$signal ends the wait with ${pair#*:}" "$code" "${pair#*:}"
        not_ok "and leaves no waiter behind" sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
done
not_ok "COMMAND was never run" test -e "$place/ran"
(trap '' HUP; exec "$pawl" run -w 60 x true) &
waiter=$!
later $waiter
await sh -c '"$0" show --json x | grep -q waiter' "$pawl"
kill -HUP $waiter
kill -WINCH $waiter
sleep 0.2
ok "what is ignored (nohup), or harmless, ends no wait" alive $waiter
kill $holder
wait_status $waiter
is "it goes on to get the lock" "$code" 0

# ---- acquire waits in the same way
"$pawl" run x sh -c 'echo $$ >"$0/held.2"; exec sleep 60' "$place" &
holder=$!
later $holder
await_file "$place/held.2"
"$pawl" acquire x >"$place/lease" &
waiter=$!
later $waiter
await sh -c '"$0" show --json x | grep -q waiter' "$pawl"
kill -TERM $waiter
wait_status $waiter
is "TERM ends the wait of acquire with 143" "$code" 143
is "and no lease was printed" "$(cat "$place/lease")" ""
not_ok "and no waiter is left" sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
kill $holder
wait $holder
done_testing
