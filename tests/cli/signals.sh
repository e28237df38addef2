#!/bin/sh
# signals.sh - signals to `pawl run`: passed on to COMMAND's whole group, and what they do while it waits.
. "${0%/*}/cli.sh"

# A command that notes each signal in $1 and writes its pid to $2, until there is $1.end.
cat >"$scratch/listener" <<'EOF'
#!/usr/bin/env python3
import os, signal, sys, time
def note(number, frame):
    with open(sys.argv[1], "a") as notes:
        notes.write(signal.Signals(number).name[3:] + "\n")
for name in "INT TERM HUP QUIT USR1 USR2 TSTP CONT WINCH".split():
    signal.signal(getattr(signal, "SIG" + name), note)
with open(sys.argv[2], "w") as pid:
    pid.write(str(os.getpid()))
while not os.path.exists(sys.argv[1] + ".end"):
    time.sleep(0.02)
sys.exit(17)
EOF
# A background job of a shell ignores INT and QUIT, and so would everything below it.
cat >"$scratch/heedful" <<'EOF'
#!/usr/bin/env python3
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
EOF
chmod +x "$scratch/listener" "$scratch/heedful"

for signal in INT TERM HUP QUIT USR1 USR2 TSTP CONT WINCH; do
        fresh
        "$scratch/heedful" "$pawl" run x sh -c '"$0" "$1/child" "$1/child.pid" & exec "$0" "$1/leader" "$1/leader.pid"' \
                "$scratch/listener" "$place" &
        runner=$!
        later $runner
        await_file "$place/leader.pid"
        await_file "$place/child.pid"
        kill -$signal $runner
        await_file "$place/leader"
        is "$signal is passed on to COMMAND, once" "$(cat "$place/leader")" "$signal"
        await_file "$place/child"
        is "$signal is passed on to its whole group" "$(cat "$place/child")" "$signal"
        ok "and the lock is still held" held x
        touch "$place/leader.end" "$place/child.end"
        wait_status $runner
        is "and COMMAND's status comes back" "$code" 17
done

# ---- a stop without a terminal is COMMAND's own business
fresh
"$pawl" run --ttl 300ms x sh -c 'echo $$ >"$0/pid"; exec sleep 600' "$place" &
runner=$!
later $runner
await_file "$place/pid"
command=$(cat "$place/pid")
kill -STOP "$command"
sleep 1
ok "while COMMAND is stopped the lock is kept" held x
ok "and COMMAND is not killed" grep -q '^State:.*T' "/proc/$command/status"
kill -CONT $runner
eventually "CONT is passed on" grep -q '^State:.*S' "/proc/$command/status"
kill $runner
wait_status $runner
is "TERM ends it" "$code" 143

# ---- while waiting
fresh
"$pawl" run x sh -c 'echo $$ >"$0/held"; exec sleep 600' "$place" &
holder=$!
later $holder
await_file "$place/held"
for pair in TERM:143 HUP:129 USR1:138 USR2:140 INT:130 QUIT:131; do
        signal=${pair%:*}
        "$scratch/heedful" "$pawl" run x touch "$place/ran" &
        waiter=$!
        later $waiter
        await sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
        kill -$signal $waiter
        wait_status $waiter
        is "$signal ends the wait with ${pair#*:}" "$code" "${pair#*:}"
        not_ok "and leaves no waiter behind" sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
done
not_ok "COMMAND was never run" test -e "$place/ran"
(trap '' HUP; exec "$pawl" run -w 60 x true) &
waiter=$!
later $waiter
await sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
kill -HUP $waiter
kill -WINCH $waiter
sleep 0.2
ok "what is ignored (nohup), or harmless, ends no wait" alive $waiter
kill $holder
wait_status $waiter
is "it goes on to get the lock" "$code" 0

# ---- acquire waits in the same way
"$pawl" run x sh -c 'echo $$ >"$0/held.2"; exec sleep 600' "$place" &
holder=$!
later $holder
await_file "$place/held.2"
"$pawl" acquire x >"$place/lease" &
waiter=$!
later $waiter
await sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
kill -TERM $waiter
wait_status $waiter
is "TERM ends the wait of acquire with 143" "$code" 143
is "and no lease was printed" "$(cat "$place/lease")" ""
not_ok "and no waiter is left" sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
kill $holder
wait $holder
done_testing
