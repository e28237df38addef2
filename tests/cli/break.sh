#!/bin/sh
# break.sh - `pawl break`: one holder by its token, and what is said and kept of it. What it asks at a terminal is in jobs.py.
. "${0%/*}/cli.sh"

# field PATH: the value at PATH ("a.b") of the JSON object on stdin.
field() {
        python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
        value = value[int(key)] if isinstance(value, list) else value.get(key, "nothing")
print(value)' "$1"
}

first=$("$pawl" acquire --ttl 1h job)
token=${first% *}
ok "a lease is given back" "$pawl" release "${first#* }"
second=$("$pawl" acquire --ttl 1h --note backup.sh job)
second=${second% *}
status 1 "the token of an earlier holder breaks nothing" "$pawl" break --if-token "$token" job
like "that names the holder, and its token" "$errors" \
        "pawl: the lock 'job' was not broken, token $token does not hold it: held by *:pawl (backup.sh) for *s (lease ends *), token $second"
ok "which is said in one sentence" one_sentence
is "the holder has it" "$("$pawl" show --json job | field 0.token)" "$second"
status 1 "-q says nothing" "$pawl" break -q --if-token "$token" job
is "not a word" "$output$errors" ""
status 1 "--json" "$pawl" break --json --if-token "$token" job
is "says that it was not broken" "$(printf '%s\n' "$output" | field broken)" False
is "why" "$(printf '%s\n' "$output" | field error)" PAWL_BUSY
is "and who has it" "$(printf '%s\n' "$output" | field holder.token)" "$second"
status 0 "its own token does" "$pawl" break --if-token "$second" --reason 'host db3 is gone' --owner 'night shift' job
is "without a word" "$output$errors" ""
like "show says who broke it, why and when" "$("$pawl" show job)" \
        "*past *$second*broken 20*backup.sh; broken by night shift (host db3 is gone) at 20??-??-?? ??:??:??*"
"$pawl" show --json job >"$scratch/shown"
is "in JSON" "$(field 0.how <"$scratch/shown") by $(field 0.broken_by <"$scratch/shown"): $(field 0.reason <"$scratch/shown")" \
        "broken by night shift: host db3 is gone"
is "of who released it nobody is said to have broken it" "$(field 1.broken_by <"$scratch/shown")" nothing
status 1 "a second time nobody has it" "$pawl" break --if-token "$second" job
is "and that is said" "$errors" "pawl: nobody holds 'job'"
status 1 "in JSON" "$pawl" break --json job
is "too" "$(printf '%s\n' "$output" | field error) $(printf '%s\n' "$output" | field holders)" "PAWL_NOT_FOUND 0"

"$pawl" acquire --ttl 1h job >"$scratch/third"
status 0 "break --json of whoever has it" "$pawl" break --json --reason 'say "why"' --owner me job
is "says that it was broken" "$(printf '%s\n' "$output" | field broken)" True
is "by whom, and why" "$(printf '%s\n' "$output" | field broken_by): $(printf '%s\n' "$output" | field reason)" 'me: say "why"'

"$pawl" acquire -s --ttl 1h shared >"$scratch/one"
"$pawl" acquire -s --ttl 1h shared >"$scratch/two"
one=$(cut -d' ' -f1 "$scratch/one")
two=$(cut -d' ' -f1 "$scratch/two")
status 0 "one of those who share" "$pawl" break --if-token "$one" shared
is "the other has it still" "$("$pawl" show --json shared | field 0.token) $("$pawl" show --json shared | field 1.how)" "$two broken"

esc=$(printf '\033')
"$pawl" acquire --ttl 1h evil >"$scratch/evil"
status 0 "a reason that would talk to the terminal" "$pawl" break --reason "${esc}[31mred" evil
unlike "does not" "$("$pawl" show evil)$("$pawl" show --json evil)" "*$esc*"

"$pawl" run broken -- sh -c 'echo >"$0"; exec sleep 600' "$scratch/began" 2>"$scratch/lost" &
holder=$!
later $holder
await_file "$scratch/began"
status 0 "a job's lock is broken" "$pawl" break --yes --reason 'it hangs' --owner 'night shift' broken
wait_status $holder
is "its pawl run ends with 123" "$code" 123
like "and says who broke it and why" "$(cat "$scratch/lost")" "*'broken' was lost: broken by an admin*'broken' was broken by night shift (it hangs)"

for bad in 0 -1 x 1x '' 9223372036854775808 99999999999999999999; do
        status 125 "'$bad' is no token" "$pawl" break --if-token="$bad" job
        ok "and that is said in one sentence: '$bad'" one_sentence
done
done_testing
