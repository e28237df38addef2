#!/bin/sh
# lease.sh - acquire, renew and release: leases that outlive the process, for scripts.
. "${0%/*}/cli.sh"

line=$("$pawl" acquire --ttl 60s x)
token=${line% *}
lease=${line#* }
like "acquire prints a token" "$token" "[1-9]*"
unlike "and a lease of one word" "$lease" "* *"
status 1 "the lock is held though no process is left" "$pawl" run -n x true
status 1 "by acquire, too" "$pawl" acquire -n x
status 8 "-E chooses the status" "$pawl" acquire -n -E 8 x
status 1 "-w gives up" "$pawl" acquire -w 50ms x
ok "renew extends it" "$pawl" renew "$lease"
ok "and again" "$pawl" renew "$lease"
ok "renew --json is JSON" sh -c '"$1" renew --json "$2" | python3 -m json.tool' sh "$pawl" "$lease"
ok "release ends it" "$pawl" release "$lease"
ok "it is free then" "$pawl" run -n x true
status 123 "releasing it again is 123" "$pawl" release "$lease"
status 123 "renewing it is 123" "$pawl" renew "$lease"

second=$("$pawl" acquire --ttl 60s x)
ok "the next token is greater" test "${second% *}" -gt "$token"
unlike "the next lease is another word" "${second#* }" "$lease"
status 123 "an old lease cannot release a new holder" "$pawl" release "$lease"
status 1 "who still has it" "$pawl" run -n x true
ok "break ends a lease" "$pawl" break x
status 123 "its owner is told" "$pawl" renew "${second#* }"

line=$("$pawl" acquire --ttl 200ms x)
ok "a lease nobody renews ends by itself" "$pawl" run -w 20s x true
status 123 "renewing it too late is 123" "$pawl" renew "${line#* }"
status 125 "a word that is no lease is 125" "$pawl" renew nonsense
ok "and said in one sentence" one_sentence
status 125 "for release too" "$pawl" release 'a b c'

one=$("$pawl" acquire -s x)
two=$("$pawl" acquire -s x)
status 1 "shared leases keep an exclusive one out" "$pawl" acquire -n x
ok "one goes" "$pawl" release "${one#* }"
status 1 "the other still does" "$pawl" acquire -n x
ok "both gone" "$pawl" release "${two#* }"
ok "it is free" "$pawl" run -n x true
"$pawl" acquire --json --note 'a "note"' y >"$scratch/json"
ok "acquire --json is JSON" python3 -m json.tool "$scratch/json"
is "with all that is needed" "$(python3 -c '
import json, sys
entry = json.load(open(sys.argv[1]))
print(entry["name"], int(entry["token"]) > 0, len(entry["lease"]) > 10, entry["remaining_ms"] > 0)' "$scratch/json")" \
        "y True True True"
status 125 "a lease that cannot be printed is given back" sh -c '"$0" acquire z >/dev/full' "$pawl"
ok "which is said in one sentence" one_sentence
ok "so that the lock is free" "$pawl" run -n z true
status 125 "also where standard output is closed" sh -c '"$0" acquire z >&-' "$pawl"
ok "the lock is free then, too" "$pawl" run -n z true
done_testing
