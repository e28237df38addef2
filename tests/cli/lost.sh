#!/bin/sh
# lost.sh - a lock that is lost while COMMAND runs: 123, never 0, and COMMAND does not live on.
. "${0%/*}/cli.sh"

# hold ARGUMENTS...: pawl run with them in the background; $runner, and $command once COMMAND runs.
# COMMAND writes its pid to $place/pid.
hold() {
        "$pawl" run "$@" 2>"$place/errors" &
        runner=$!
        later $runner
        await_file "$place/pid"
        command=$(cat "$place/pid")
}

# ---- broken by an administrator
fresh
hold x sh -c 'echo $$ >"$0/pid"; exec sleep 600' "$place"
ok "break succeeds" "$pawl" break x
wait_status $runner
is "a broken lock is 123" "$code" 123
ok "COMMAND is dead" dead "$command"
like "it is said" "$(cat "$place/errors")" "pawl: *x*lost*"
is "once" "$(grep -c 'was lost' "$place/errors")" 1
like "and then by whom" "$(tail -n +2 "$place/errors")" "pawl: the lock 'x' was broken by *:pawl"

fresh
hold -q x sh -c 'trap "exit 0" TERM; echo $$ >"$0/pid"; while :; do sleep 0.05; done' "$place"
"$pawl" break x
wait_status $runner
is "123 also if COMMAND makes a 0 of the TERM" "$code" 123
unlike "-q: nothing is said" "$(cat "$place/errors")" "*pawl:*"

fresh
hold -k 300ms x sh -c 'trap "echo term >\"$0/term\"" TERM; echo $$ >"$0/pid"; while :; do sleep 0.05; done' "$place"
"$pawl" break x
wait_status $runner
is "a command that does not listen to TERM: 123" "$code" 123
ok "it had its TERM" test -e "$place/term"
ok "and is dead all the same" dead "$command"

fresh
hold --ttl 5m -k 60s x sh -c '
        sh -c "trap \"\" TERM; echo \$\$ >\"$0/child\"; sleep 0.5; echo clean >\"$0/clean\"" &
        echo $$ >"$0/pid"; wait' "$place"
await_file "$place/child"
"$pawl" break x
wait_status $runner
is "when COMMAND has ended its group is waited for as well" "$code:$(cat "$place/clean")" "123:clean"
ok "nobody is left of it" group_gone "$command"

fresh
hold -k 200ms x sh -c '
        sh -c "trap \"\" TERM; echo \$\$ >\"$0/child\"; while :; do sleep 0.05; done" &
        echo $$ >"$0/pid"; wait' "$place"
await_file "$place/child"
"$pawl" break x
wait_status $runner
is "but not longer than -k" "$code" 123
ok "then it is killed" group_gone "$command"

# ---- at the very end
fresh
status 123 "a lock that was lost when COMMAND had just ended with 0 is 123" "$pawl" run x "$pawl" break x
hold --hold-at-least 60s x sh -c 'echo $$ >"$0/pid"' "$place"
await dead "$command"
"$pawl" break x
wait_status $runner
is "a lock lost during --hold-at-least is 123" "$code" 123

# ---- --on-lost
fresh
hold --on-lost kill -k 60s --ttl 120s x sh -c 'trap "touch \"$0/term\"" TERM; echo $$ >"$0/pid"; while :; do sleep 0.05; done' "$place"
"$pawl" break x
wait_status $runner
is "--on-lost kill: 123" "$code" 123
not_ok "without a TERM" test -e "$place/term"
ok "dead" dead "$command"

fresh
hold --on-lost signal:USR1 x sh -c 'trap "echo usr1 >\"$0/usr1\"; exit 0" USR1; echo $$ >"$0/pid"; while :; do sleep 0.05; done' "$place"
"$pawl" break x
wait_status $runner
is "--on-lost signal:USR1: 123" "$code" 123
ok "COMMAND had its USR1" test -e "$place/usr1"

fresh
hold --on-lost ignore x sh -c 'echo $$ >"$0/pid"; while [ ! -e "$0/end" ]; do sleep 0.05; done; echo finished >"$0/finished"' "$place"
"$pawl" break x
await grep -q lost "$place/errors"
ok "--on-lost ignore lets COMMAND live" alive "$command"
touch "$place/end"
wait_status $runner
is "until its own end, and then it is 123, not 0" "$code:$(cat "$place/finished")" "123:finished"

# ---- a lease that is not renewed
fresh
status 0 "--no-renew: a command that ends in time is as any other" "$pawl" run --no-renew --ttl 30s x true
status 123 "one that does not is 123" "$pawl" run --no-renew --ttl 500ms -k 200ms x sleep 60
fresh
"$pawl" run --no-renew --ttl 6s -k 4s x sh -c '
        trap "echo term >>\"$0/order\"" TERM; echo $$ >"$0/pid"; while :; do sleep 0.05; done' "$place" 2>/dev/null &
runner=$!
later $runner
await_file "$place/pid"
command=$(cat "$place/pid")
await_file "$place/order"
ok "TERM comes before the lease ends" held x
"$pawl" run x sh -c 'i=0; while kill -0 "$1" 2>/dev/null && [ $i -lt 10 ]; do i=$((i+1)); sleep 0.05; done
        kill -0 "$1" 2>/dev/null || echo next >>"$0/order"' "$place" "$command"
wait_status $runner
is "it is killed when another may hold the lock" "$(tr '\n' ' ' <"$place/order")" "term next "
is "and that is 123" "$code" 123

# ---- pawl is stopped past its lease
fresh
hold --ttl 1s x sh -c 'sleep 600 & echo $$ >"$0/pid"; wait' "$place"
kill -STOP $runner
ok "another one gets the lock when the lease has ended" "$pawl" run -w 30s x true
eventually "COMMAND and its children are dead, though pawl is still stopped" group_gone "$command"
kill -CONT $runner
wait_status $runner
is "when pawl goes on it is 123" "$code" 123

fresh
hold --ttl 60s x sh -c 'echo $$ >"$0/pid"; while [ ! -e "$0/end" ]; do sleep 0.05; done; exit 5' "$place"
kill -STOP $runner
sleep 0.3
kill -CONT $runner
touch "$place/end"
wait_status $runner
is "stopped for less than its lease it goes on as if nothing had been" "$code" 5

# ---- COMMAND is stopped while its lock is lost
fresh
hold -k 300ms x sh -c 'echo $$ >"$0/pid"; while :; do echo tick >>"$0/ticks"; sleep 0.02; done' "$place"
kill -STOP -"$command"
ticks=$(wc -l <"$place/ticks")
"$pawl" break x
wait_status $runner
is "a stopped command is killed" "$code" 123
is "and never continued" "$(wc -l <"$place/ticks")" "$ticks"

# ---- pawl is killed
fresh
hold --ttl 60s x sh -c 'sleep 600 & echo $! >"$0/child"; echo $$ >"$0/pid"; wait' "$place"
await_file "$place/child"
"$pawl" run x sh -c 'kill -0 "$1" 2>/dev/null && grep -q "^State:.*[^Z] (" "/proc/$1/status" && echo overlap; true' \
        sh "$command" >"$place/next" &
next=$!
later $next
await sh -c '"$0" show --json x | grep -q "\"waiter\""' "$pawl"
kill -KILL $runner
eventually "kill -9 of pawl kills COMMAND and its children" group_gone "$command"
wait_status $next
is "the next one gets the lock, long before the lease ends" "$code" 0
is "and COMMAND is dead by then" "$(cat "$place/next")" ""

fresh
hold --ttl 60s x sh -c 'echo $$ >"$0/pid"; trap "" TERM INT HUP; while :; do sleep 0.05; done' "$place"
kill -KILL $runner
eventually "also one that listens to no signal" dead "$command"

# ---- the watchdog is killed
watchdog_of() {
        ps -e -o ppid= -o pid= -o comm= | awk -v p="$1" '$1 == p && $3 == "lease-watchdog" { print $2 }'
}
fresh
hold --ttl 60s x sh -c 'sleep 600 & echo $$ >"$0/pid"; wait' "$place"
dog=$(watchdog_of $runner)
is "it is there while COMMAND runs" "$(echo "$dog" | wc -w)" 1
is "the watchdog is not found by pawl's command line" "$(tr -d '\0' <"/proc/$dog/cmdline")" lease-watchdog
not_ok "nor by its name" grep -q pawl "/proc/$dog/comm"
kill -KILL "$dog"
another() {
        new=$(watchdog_of $runner)
        [ -n "$new" ] && [ "$new" != "$dog" ]
}
eventually "a watchdog that is killed is replaced" another
kill -KILL $runner
eventually "and the new one does its work" group_gone "$command"

fresh
"$pawl" run x sh -c 'ps -e -o ppid= -o pid= -o comm= | awk -v p=$PPID "\$1 == p && \$3 == \"lease-watchdog\" { print \$2 }" >"$0/dog"' "$place"
await_file "$place/dog"
not_ok "nothing is left of it afterwards, not even a zombie" test -e "/proc/$(cat "$place/dog")"
done_testing
