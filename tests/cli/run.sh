#!/bin/sh
# run.sh - `pawl run`: its exit status, what COMMAND finds, and how a lock is asked for.
. "${0%/*}/cli.sh"

# ---- exit status
status 0 "COMMAND's status is pawl's: 0" "$pawl" run x true
status 1 "COMMAND's status is pawl's: 1" "$pawl" run x false
status 42 "COMMAND's status is pawl's: 42" "$pawl" run x sh -c 'exit 42'
status 255 "COMMAND's status is pawl's: 255" "$pawl" run x sh -c 'exit 255'
status 143 "a command killed by TERM is 128+15" "$pawl" run x sh -c 'kill -TERM $$'
status 137 "a command killed by KILL is 128+9" "$pawl" run x sh -c 'kill -KILL $$'
status 127 "a command that is not there is 127" "$pawl" run x "$scratch/nothing"
ok "it is said in one sentence" one_sentence
status 127 "a command that is not in PATH is 127" "$pawl" run x no-such-command-here
echo data >"$scratch/data"
mkdir "$scratch/shut" && chmod 0 "$scratch/shut"
status 127 "also if a directory of PATH may not be read" env PATH="$scratch/shut:$PATH" "$pawl" run x no-such-command-here
status 126 "a file that is no program is 126" "$pawl" run x "$scratch/data"
ok "it is said in one sentence" one_sentence
status 126 "a directory is 126" "$pawl" run x "$scratch"
cp "$scratch/data" "$scratch/no-program"
status 126 "a file in PATH that is no program is 126" env PATH="$scratch:$PATH" "$pawl" run x no-program
ok "a failed start leaves the lock free" "$pawl" run -n x true
status 125 "bad usage is 125" "$pawl" run --nonsense x true

# ---- how options are read
is "options end at the first word" "$("$pawl" run x echo -n --help)" "$(echo -n --help)"
is "-- may stand before COMMAND" "$("$pawl" run x -- echo a -- b)" "a -- b"
is "-- may stand before NAME" "$("$pawl" run -n -- x echo a)" "a"
is "-c runs a string by the shell" "$("$pawl" run -c 'echo $((1+1))' x)" 2
is "-c may stand behind NAME, as flock has it" "$("$pawl" run x -c 'echo $((1+1))')" 2
status 5 "flags may be bundled, with a value at the end" "$pawl" run -nsE5 x sh -c 'exit 5'
status 6 "--name=value and --name value are the same" "$pawl" run --wait=1s --ttl 5s x sh -c 'exit 6'

# ---- what COMMAND finds
is "PAWL_NAME is the name" "$("$pawl" run 'a name/ü' sh -c 'echo "$PAWL_NAME"')" 'a name/ü'
first=$("$pawl" run x sh -c 'echo $PAWL_TOKEN')
second=$("$pawl" run x sh -c 'echo $PAWL_TOKEN')
ok "PAWL_TOKEN grows" test "$second" -gt "$first"
like "PAWL_OWNER says who" "$("$pawl" run x sh -c 'echo $PAWL_OWNER')" "*:*:pawl"
is "PAWL_URL is the store" "$("$pawl" run x sh -c 'echo $PAWL_URL')" "$PAWL_URL"
like "PAWL_VALID_UNTIL is in unix seconds with a fraction" "$("$pawl" run --ttl 60s x sh -c '
        now=$(date +%s)
        case $PAWL_VALID_UNTIL in *.*) ;; *) echo none; exit ;; esac
        whole=${PAWL_VALID_UNTIL%.*}
        [ "$whole" -gt "$now" ] && [ "$whole" -le $((now + 60)) ] && echo good')" good
is "an inner lock's values hide the outer's" \
        "$("$pawl" run outer "$pawl" run inner sh -c 'echo $PAWL_NAME')" inner
is "an inner lock has its own token" "$("$pawl" run outer sh -c '
        outer=$PAWL_TOKEN
        "$0" run inner sh -c "[ \$PAWL_TOKEN -gt $outer ] && echo greater"' "$pawl")" greater
is "each variable stands there once, behind all others" "$("$pawl" run a "$pawl" run b "$pawl" run c \
        env | tail -n 5 | sed 's/=.*//' | sort | tr '\n' ' ')" \
        "PAWL_NAME PAWL_OWNER PAWL_TOKEN PAWL_URL PAWL_VALID_UNTIL "
is "standard input passes through" "$(echo hello | "$pawl" run x cat)" hello
is "standard error passes through" "$("$pawl" run x sh -c 'echo hello >&2' 2>&1)" hello
is "no descriptor leaks into COMMAND" \
        "$("$pawl" run x sh -c 'ls /proc/self/fd' </dev/null 2>/dev/null | tr '\n' ' ')" \
        "$(sh -c 'ls /proc/self/fd' </dev/null 2>/dev/null | tr '\n' ' ')"
is "descriptors of the caller do" "$("$pawl" run x cat <&0 3<"$scratch/data" /proc/self/fd/3)" data
is "COMMAND leads a process group of its own" "$("$pawl" run x sh -c 'ps -o pgid= -p $$ | tr -d " "; echo $$' |
        uniq | wc -l)" 1
is "COMMAND has the signal mask we were started with" \
        "$("$pawl" run x grep SigBlk /proc/self/status)" "$(grep SigBlk /proc/self/status)"
is "COMMAND ignores what we were started to ignore" \
        "$(trap '' USR1 HUP; "$pawl" run x grep SigIgn /proc/self/status)" \
        "$(trap '' USR1 HUP; grep SigIgn /proc/self/status)"
is "a standard input that is closed stays closed" "$("$pawl" run x sh -c 'test -e /proc/self/fd/0 || echo closed' <&-)" \
        "closed"

# ---- while another has it
fresh
"$pawl" run x sh -c 'echo $$ >"$0/held"; exec sleep 600' "$place" &
holder=$!
later $holder
await_file "$place/held"
status 1 "-n fails at once" "$pawl" run -n x true
like "and says who holds it" "$errors" "pawl: 'x' is held by *:*:pawl (sh) for *s (lease ends within *s)"
ok "in one line" one_sentence
status 1 "-q is for cron, which mails what is written" "$pawl" run -q -n x true
is "and says nothing" "$errors" ""
status 1 "-w 0 is -n" "$pawl" run -w 0 x true
status 1 "-w gives up" "$pawl" run -w 100ms x true
like "and says that it waited" "$errors" "pawl: 'x' was not free within 100ms: held by *"
status 9 "-E chooses the status for -n" "$pawl" run -n -E 9 x true
status 9 "-E chooses the status for -w" "$pawl" run -w 0.1 -E 9 x true
status 0 "-E 0 is 0, and COMMAND does not run" "$pawl" run -n -E 0 x touch "$place/ran"
not_ok "it did not" test -e "$place/ran"
ok "another name is free" "$pawl" run -n y true
status 1 "a shared claim is held up too" "$pawl" run -n -s x true
"$pawl" run x touch "$place/next" &
next=$!
later $next
kill -TERM $holder
wait_status $holder
is "the holder's status is that of its command" "$code" 143
wait_status $next
is "the waiter got it then" "$code" 0
ok "and ran" test -e "$place/next"

# ---- shared, limited
fresh
"$pawl" run -s x sh -c 'echo $$ >"$0/one"; exec sleep 600' "$place" &
one=$!
later $one
await_file "$place/one"
ok "-s lets another shared holder in" "$pawl" run -n -s x true
status 1 "-s keeps an exclusive one out" "$pawl" run -n x true
kill $one
wait $one
"$pawl" run -N 2 x sh -c 'echo $$ >"$0/a"; exec sleep 600' "$place" &
one=$!
"$pawl" run -N 2 x sh -c 'echo $$ >"$0/b"; exec sleep 600' "$place" &
two=$!
later $one
later $two
await_file "$place/a" && await_file "$place/b"
status 1 "-N 2 keeps a third out" "$pawl" run -n -N 2 x true
kill $one
wait $one
ok "and lets it in when one has left" "$pawl" run -n -N 2 x true
kill $two
wait $two

# ---- how long it is held
fresh
"$pawl" run --hold-at-least 60s x sh -c 'echo done >"$0/done"; exit 3' "$place" &
holder=$!
later $holder
await_file "$place/done"
ok "--hold-at-least keeps the lock when COMMAND has ended" held x
kill -TERM $holder
wait_status $holder
is "a signal ends that, and the status is COMMAND's" "$code" 3
ok "the lock is free then" "$pawl" run -n x true
status 125 "--hold-at-least beyond a lease that is not renewed is refused" \
        "$pawl" run --no-renew --ttl 1s --hold-at-least 5s x true
ok "which is said in one sentence" one_sentence
status 3 "--hold-at-least ends by itself" "$pawl" run --hold-at-least 50ms x sh -c 'exit 3'
status 143 "--max-hold ends COMMAND by TERM" "$pawl" run --max-hold 100ms x sleep 60
like "and says so" "$errors" "pawl: *--max-hold*"
status 137 "one that does not listen is killed" \
        "$pawl" run --max-hold 100ms -k 100ms x sh -c 'trap "" TERM; while :; do sleep 0.05; done'
status 4 "--max-hold does not swallow COMMAND's status" \
        "$pawl" run --max-hold 200ms x sh -c 'trap "exit 4" TERM; while :; do sleep 0.05; done'
status 0 "--max-hold is nothing to a short one" "$pawl" run --max-hold 60s x true
status 0 "a lease shorter than COMMAND is renewed" "$pawl" run --ttl 1500ms x sleep 4

# ---- a run that was killed is in nobody's way
"$pawl" run --ttl 300ms night sh -c "echo \$\$ >'$scratch/child'; exec sleep 600" &
holder=$!
await_file "$scratch/child"
kill -KILL "$holder"
wait "$holder" 2>"$scratch/killed"
status 0 "-n right after the holder was killed waits for its lock-delay" "$pawl" run -n night true
rm "$scratch/child"
"$pawl" run --ttl 300ms night sh -c "echo \$\$ >'$scratch/child'; exec sleep 600" &
holder=$!
await_file "$scratch/child"
kill -KILL "$holder"
wait "$holder" 2>"$scratch/killed"
sleep 0.6
status 0 "-n when its lease is over finds the lock free" "$pawl" run -n night true
"$pawl" run --ttl 60s night sh -c "echo \$\$ >'$scratch/held'; exec sleep 600" &
holder=$!
await_file "$scratch/held"
status 1 "-n does not wait for a holder" "$pawl" run -n night true
kill "$holder"
wait "$holder"

# ---- descriptors
for few in 5 6 7 8 9 10 11 12 13 14 15 16 17 18 20 24; do
        (ulimit -n $few && "$pawl" run scarce true) >"$scratch/out" 2>"$scratch/err"
        echo $? >>"$scratch/scarce"
done
is "too few descriptors are pawl's failure, not COMMAND's" \
        "$(grep -vcx -e 0 -e 125 "$scratch/scarce")" 0

# ---- the place of the embedded engine
mkdir "$place/a b%?" "$place/elsewhere"
is "a directory that is relative is handed on as it is found from anywhere" \
        "$(cd "$place/a b%?" && "$pawl" run -e 'local:here?ttl=1m' x sh -c 'echo $PAWL_URL')" "local:$place/a%20b%25%3F/here?ttl=1m"
is "so that a child that goes elsewhere finds the same locks" \
        "$(cd "$place" && "$pawl" run -e local:here x sh -c 'cd elsewhere && "$0" run -n -E 77 x true; echo $?' "$pawl")" 77
like "trace+ hands it on, too" "$(cd "$place" && "$pawl" run -e trace+local:here x sh -c 'echo $PAWL_URL')" "trace+local:/*/here"
if [ "$(id -u)" -ne 0 ]; then
        home=$(getent passwd "$(id -u)" | cut -d: -f6)
        if [ -w "$home" ]; then
                is "local: is in the home directory that the user database has, whatever HOME says" \
                        "$(HOME=$place XDG_STATE_HOME=$place "$pawl" run -e local: x sh -c 'echo $PAWL_URL')" \
                        "local:$(realpath "$home")/.local/state/pawl"
        fi
fi
status 0 "ls of a store that is not there lists nothing" "$pawl" ls -e "local:$place/none/at/all"
status 1 "show knows nothing" "$pawl" show -e "local:$place/none/at/all" x
ok "and neither makes it" test ! -e "$place/none"
is "-e goes before PAWL_URL" "$("$pawl" run -e "local:$place/other" x sh -c 'echo $PAWL_URL')" "local:$place/other"
status 127 "behind -- a COMMAND may begin with a dash" "$pawl" run x -- -no-such-command
status 0 "-v may stand there more often than there is to say" "$pawl" run -vvvvv x true
done_testing
