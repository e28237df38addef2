#!/bin/sh
# look.sh - ls, show, break, top, engines, ttl: what they print, for people and as JSON.
. "${0%/*}/cli.sh"

json() {
        python3 -c '
import json, sys
entries = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"
}

is "ls of nothing is nothing" "$("$pawl" ls)" ""
is "and in JSON an empty array" "$("$pawl" ls --json | json 'entries')" "[]"
like "so is top" "$(PAWL_URL=local:$scratch/none "$pawl" top)" "*no store yet*0 held, 0 waiting*"
is "and in JSON" "$(PAWL_URL=local:$scratch/none "$pawl" top --json | json 'entries')" "[]"
status 1 "and nobody leads" env PAWL_URL="local:$scratch/none" "$pawl" elect --who x
not_ok "none of them makes a store" test -e "$scratch/none"
is "top of nothing says so" "$("$pawl" top | head -n 1 | sed 's/.*  //')" "0 held, 0 waiting"
a=$("$pawl" acquire --ttl 60s --note 'first "note"' app/a)
"$pawl" acquire --ttl 60s app/b >"$scratch/b"
"$pawl" acquire -s --ttl 60s 'zoo "ü" \' >"$scratch/c"
is "ls has a line for each holder, and one above" "$("$pawl" ls | wc -l)" 4
like "with name, token and owner" "$("$pawl" ls | grep app/a)" "app/a *exclusive *${a% *} *s *0 *:*:pawl"
is "columns are aligned" "$("$pawl" ls app | awk '{ print index($0, $3) }' | sort -u | wc -l)" 1
is "ls PREFIX" "$("$pawl" ls app | tail -n +2 | awk '{ print $1 }' | tr '\n' ' ')" "app/a app/b "
is "ls --json" "$("$pawl" ls --json | json 'sorted(e["name"] for e in entries)')" "['app/a', 'app/b', 'zoo \"ü\" \\\\']"
is "with tokens" "$("$pawl" ls --json app/a | json 'entries[0]["token"]')" "${a% *}"
is "and roles" "$("$pawl" ls --json | json 'set(e["role"] for e in entries)')" "{'holder'}"

"$pawl" run app/a true &
waiter=$!
later $waiter
await sh -c '"$0" show app/a | grep -q "^waiter"' "$pawl"
is "show: the holder, then the queue" "$("$pawl" show app/a | awk '{ print $1 }' | tr '\n' ' ')" "ROLE holder waiter "
is "show --json" "$("$pawl" show --json app/a | json '[(e["role"], e["waiters"]) for e in entries]')" \
        "[('holder', 1), ('waiter', 1)]"
is "the note is there" "$("$pawl" show --json app/a | json 'entries[0]["note"]')" 'first "note"'
like "top shows the most wanted first" "$("$pawl" top | sed -n 4p)" "app/a *1 *"
is "top --json" "$("$pawl" top --json | json 'entries[0]["name"]')" "app/a"
is "with notes" "$("$pawl" top --json | json '[e["note"] for e in entries if e["name"] == "app/a"]')" "['first \"note\"']"
is "top --count" "$("$pawl" top --count 2 --interval 10ms | grep -c '^pawl top')" 2
ok "break lets the waiter in" "$pawl" break app/a
wait_status $waiter
is "who runs" "$code" 0
is "show: past owners, and how each ended, the latest first" \
        "$("$pawl" show --json app/a | json '[(e["role"], e["how"]) for e in entries]')" \
        "[('past', 'released'), ('past', 'broken')]"
status 1 "break of a free name is 1" "$pawl" break app/a
status 1 "show of an unknown name is 1" "$pawl" show nobody/knows
is "and an empty array" "$("$pawl" show --json nobody/knows 2>/dev/null)" "[]"

for name in sorted/m sorted/c sorted/x sorted/a sorted/k sorted/e; do
        "$pawl" acquire "$name" >"$scratch/sorted"
done
is "ls is in the order of the names" "$("$pawl" ls sorted | tail -n +2 | sed 's/ .*//; s/.*.\///' | tr '\n' ' ')" "a c e k m x "

"$pawl" acquire 'wide/🔒🔒' >"$scratch/wide"
"$pawl" acquire 'wide/錠' >"$scratch/wide"
"$pawl" acquire 'wide/กี่é' >"$scratch/wide"
is "what takes two columns is counted as two, a mark above a letter as none" "$("$pawl" ls wide | sed 1d | PYTHONUTF8=1 python3 -c '
import sys, unicodedata
def columns(c):
    return 0 if unicodedata.category(c) == "Mn" else 2 if unicodedata.east_asian_width(c) == "W" else 1
heads = (line.split("exclusive")[0] for line in sys.stdin)
print({sum(map(columns, head)) for head in heads})')" "{11}"

# ---- names and notes that would talk to the terminal
esc=$(printf '\033')
"$pawl" acquire --note "${esc}[31mred" evil >"$scratch/evil"
unlike "an escape sequence in a note is shown, not obeyed" "$("$pawl" show evil)" "*$esc*"
like "as text" "$("$pawl" show evil)" '*\\x1b*red*'
is "JSON keeps it" "$("$pawl" show --json evil | json 'repr(entries[0]["note"])')" "'\\x1b[31mred'"
status 125 "a control character in a name is refused" "$pawl" show "a${esc}b"
status 125 "in a message it is escaped" "$pawl" "a${esc}b"
unlike "so that the terminal does not obey" "$errors" "*$esc*"

# ---- engines, ttl
like "engines has the embedded one" "$("$pawl" engines)" "*local*"
is "engines --json" "$("$pawl" engines --json | json '[e["available"] for e in entries if e["scheme"] == "local"]')" "[True]"
ok "each has a promise" sh -c '"$0" engines --json | python3 -c "
import json, sys
sys.exit(not all(e[\"promise\"] and e[\"summary\"] and (e[\"available\"] or e[\"missing\"]) for e in json.load(sys.stdin)))"' "$pawl"
is "ttl is twice the sum" "$("$pawl" ttl --work 5s --latency 100ms --drift 50ms)" "10.3s"
is "ttl of whole seconds" "$("$pawl" ttl --work 5s)" "10s"
is "ttl to the millisecond" "$("$pawl" ttl --work 1ms --drift 1ms)" "0.004s"
is "ttl --json" "$("$pawl" ttl --json --work 5s | json 'entries["ttl_ms"]')" 10000

# ---- help, version
is "--version" "$("$pawl" --version | awk '{ print $1 }')" pawl
for command in run acquire renew release ls show break top fence put get engines doctor ttl demo; do
        like "$command --help says how it is used" "$("$pawl" $command --help)" "usage: pawl $command *"
        like "--help lists $command" "$("$pawl" --help)" "*  $command *"
done
is "-e may come before the command" "$("$pawl" -e "local:$scratch/other" run x echo ran)" ran
is "and so may --engine=" "$("$pawl" --engine="local:$scratch/other" -q run x echo ran)" ran
status 125 "an option the command does not have is refused there too" "$pawl" --nonblock ttl --work 1s
status 125 "options alone are no command" "$pawl" -e "local:$scratch/other"
ok "which is said in one sentence" one_sentence
status 0 "--help is a success" "$pawl" run --help
status 125 "without a command it is 125" "$pawl"
for command in elect once limit bench stats nonsense ''; do
        status 125 "'$command' is no command" "$pawl" "$command"
        ok "and that is said in one sentence" one_sentence
done
status 125 "a full disk is not silent" sh -c '"$0" engines >/dev/full' "$pawl"
done_testing
