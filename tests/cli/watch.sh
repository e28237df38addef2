#!/bin/sh
# watch.sh - `pawl watch`: what it prints of one name and of many, when it ends, and with which status.
. "${0%/*}/cli.sh"

# events FILE: "event name" of each line, without the times.
events() {
        sed 's/^[-0-9]* [.:0-9]* //; s/ *$//' "$1" | awk '{ print $1, $2 }' | tr '\n' ' '
}

# field NAME: of each JSON object on stdin that has it.
field() {
        python3 -c '
import json, sys
for line in sys.stdin:
        value = json.loads(line).get(sys.argv[1])
        if value is not None:
                print(value)' "$1"
}

# watch FILE OPTION...: in the background, until its first poll has been printed or, of many names, answered.
watch() {
        watch_file=$1
        shift
        "$pawl" watch -i 50ms "$@" >"$watch_file" 2>"$watch_file.errors" &
        watcher=$!
        later $watcher
}

has_line() {
        grep -q "$2" "$1"
}

# hold NAME: until `let_go NAME`; its owner is owner-of-NAME.
hold() {
        mkfifo "$scratch/gate.$1"
        "$pawl" run --owner "owner-of-$1" "$1" sh -c 'echo >"$0.held"; read -r line <"$0"' "$scratch/gate.$1" 2>"$scratch/said" &
        holder=$!
        later $holder
        await_file "$scratch/gate.$1.held"
}

let_go() {
        echo go >"$scratch/gate.$1"
        rm -f "$scratch/gate.$1" "$scratch/gate.$1.held"
        wait_status $holder
}

# ---- one name
watch "$scratch/one" --count 8 x
ok "the first line says that it is free" await has_line "$scratch/one" "free"
not_ok "which makes no store" test -e "$place/locks"
hold x
ok "the store is made meanwhile: acquired" await has_line "$scratch/one" "acquired 'x' token [0-9]* owner-of-x (sh)"
"$pawl" run --owner second x true 2>"$scratch/said" &
second=$!
later $second
ok "waiting" await has_line "$scratch/one" "waiting  'x' second (true); 1 in the queue"
"$pawl" run --owner third x true 2>"$scratch/said" &
third=$!
later $third
await has_line "$scratch/one" "waiting  'x' third (true); 2 in the queue"
kill $third
ok "left, by a waiter that gave up" await has_line "$scratch/one" "left     'x' third (true); 1 in the queue: it gave up, or died"
let_go x
wait_status $second
wait_status $watcher
is "--count ends it" "$code" 0
is "in order" "$(events "$scratch/one")" \
        "free 'x' acquired 'x' waiting 'x' waiting 'x' left 'x' released 'x' acquired 'x' released 'x' "
like "a release says for how long it was held" "$(grep -m 1 released "$scratch/one")" "*owner-of-x (sh) after *s"
is "nothing else is said" "$(cat "$scratch/one.errors")" ""

# ---- between two polls
timeout 60 "$pawl" watch -i 2s --count 7 x >"$scratch/between" &
watcher=$!
later $watcher
ok "a watch with long pauses" await_file "$scratch/between"
for n in 1 2 3; do
        "$pawl" run --owner "short-$n" x true
done
wait_status $watcher
is "finds in the history what came and went" "$(events "$scratch/between")" \
        "free 'x' acquired 'x' released 'x' acquired 'x' released 'x' acquired 'x' released 'x' "
is "of each owner" "$(grep -o 'acquired.*short-.' "$scratch/between" | sed 's/.*-//' | tr '\n' ' ')" "1 2 3 "
"$pawl" watch -i 5s x >"$scratch/missed" &
watcher=$!
later $watcher
await_file "$scratch/missed"
for n in 1 2 3 4 5 6 7 8 9; do
        "$pawl" run --owner "short-$n" x true
done
ok "and says so if the history is too short" await has_line "$scratch/missed" "missed   'x': the history is too short"
ok "with what there is" await has_line "$scratch/missed" "released 'x' token [0-9]* short-9"
kill $watcher
wait_status $watcher
status 0 "--for ends it" timeout 60 "$pawl" watch --for 50ms x

# ---- how it ended
watch "$scratch/ends" x
await_file "$scratch/ends"
hold x
await has_line "$scratch/ends" acquired
"$pawl" break --owner "night shift" --reason "it hangs" x
ok "broken, by whom and why" await has_line "$scratch/ends" "broken   'x' token [0-9]* owner-of-x (sh) after .*s: by night shift (it hangs)"
wait_status $holder
rm -f "$scratch/gate.x" "$scratch/gate.x.held"
"$pawl" acquire --owner brief --ttl 100ms x >"$scratch/lease"
ok "expired" await has_line "$scratch/ends" "expired  'x' token [0-9]* brief"
hold x
await has_line "$scratch/ends" "acquired.*owner-of-x.*"
kill -KILL $holder
ok "died" await has_line "$scratch/ends" "died     'x' token [0-9]* owner-of-x"
wait_status $holder
rm -f "$scratch/gate.x" "$scratch/gate.x.held"
kill $watcher
wait_status $watcher
is "SIGTERM ends it with 143" "$code" 143

# ---- many names
hold app-a
watch "$scratch/many" --json --prefix app-
ok "the first lines are who holds what" await has_line "$scratch/many" '"event":"held","name":"app-a"'
is "with the time since when" "$(field at <"$scratch/many")" \
        "$("$pawl" show --json app-a | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["since"])')"
"$pawl" acquire --owner new --ttl 10m app-b >"$scratch/lease"
ok "a name that is new" await has_line "$scratch/many" '"event":"acquired","name":"app-b".*"owner":"new"'
"$pawl" acquire --ttl 10m other >"$scratch/other"
"$pawl" run --owner waits app-a true 2>"$scratch/said" &
waiter=$!
later $waiter
ok "its queue" await has_line "$scratch/many" '"event":"waiting","name":"app-a".*"waiters":1}'
let_go app-a
wait_status $waiter
"$pawl" release "$(cut -d' ' -f2 "$scratch/lease")"
ok "a release" await has_line "$scratch/many" '"event":"released","name":"app-b".*"held_ms":[0-9]*'
ok "and of a waiter its turn" await has_line "$scratch/many" '"event":"released","name":"app-a".*"owner":"waits"'
"$pawl" run --owner unseen app-a true
ok "what was free in every poll is found in the history" await has_line "$scratch/many" '"event":"acquired","name":"app-a".*"owner":"unseen"'
unlike "names without the prefix are not there" "$(cat "$scratch/many")" "*other*"
is "every line is an object with a token, or about the queue" "$(python3 -c '
import json, sys
print([e for e in map(json.loads, sys.stdin) if not isinstance(e.get("token"), str) and e["event"] not in ("waiting", "left")])' <"$scratch/many")" "[]"
kill -INT $watcher
kill $watcher 2>"$scratch/said"
wait_status $watcher
like "--prefix '' is all names" "$(timeout 60 "$pawl" watch --prefix '' --count 1)" "* held     'other' *"

# ---- until
status 0 "--until held ends at once where it is held" timeout 60 "$pawl" watch --until held other
like "after saying who holds it" "$output" "*held     'other' token *"
status 1 "--until free with --for" timeout 60 "$pawl" watch -i 20ms --until free --for 100ms other
is "says that it was not" "$errors" "pawl: 'other' was not free within 100ms"
status 1 "and with --count" timeout 60 "$pawl" watch --until free --count 1 other
is "too" "$errors" "pawl: 'other' was not free within --count 1"
status 0 "--until free" timeout 60 sh -c '"$0" watch -i 20ms --until free other >"$1" & "$0" release "$2"; wait $!' \
        "$pawl" "$scratch/until" "$(cut -d' ' -f2 "$scratch/other")"
status 0 "of many names: all of them" timeout 60 "$pawl" watch --until free --prefix ''
status 0 "where there is no store" timeout 60 "$pawl" -e "local:$scratch/none" watch --until free x
not_ok "none is made" test -e "$scratch/none"

# ---- readers that leave
status 0 "a reader that leaves ends it, though nothing happens" timeout 20 sh -c '{ "$0" watch x; echo $? >"$1"; } 2>"$1.errors" | head -n 1' "$pawl" "$scratch/left"
is "as by SIGPIPE" "$(cat "$scratch/left")" 141
is "without a word" "$(grep pawl: "$scratch/left.errors")" ""
status 125 "a full disk is not silent" sh -c 'exec "$0" watch --for 10s x >/dev/full' "$pawl"
like "but said" "$errors" "pawl: cannot write to standard output: *"

# ---- the examples of the manual
mkdir "$scratch/bin" && ln -s "$pawl" "$scratch/bin/pawl" && printf '#!/bin/sh\necho ran >next.ran\n' >"$scratch/next" && chmod +x "$scratch/next"
sed -n '/^\.Sh EXAMPLES/,/^\.Ed/s/^pawl /pawl /p' "$SOURCE_DIR/man/pawl-watch.1" >"$scratch/examples"
is "there are three" "$(wc -l <"$scratch/examples")" 3
while read -r example; do
        (cd "$scratch" && PATH=$scratch/bin:$PATH exec timeout -s INT 3 sh -c "$example") >"$scratch/example" 2>"$scratch/example.errors"
        ended=$?
        like "$example: goes on until it is interrupted (124), or ends well" $ended "$([ $ended -eq 0 ] && echo 0 || echo 124)"
        is "... without a complaint" "$(cat "$scratch/example.errors")" ""
done <"$scratch/examples"
ok "the second one runs what follows" test -s "$scratch/next.ran"

# ---- wrong
for words in "" "a b" "--prefix p x" "--until never x" "--count 0 x" "--interval 0 x" "--for 0 x" "-e nonsense://x x" "-e redis://127.0.0.1:1 x"; do
        # shellcheck disable=SC2086
        status 125 "watch $words" "$pawl" watch $words
        ok "... in one sentence" one_sentence
done
status 125 "a name that is none" "$pawl" watch "$(printf '%0300d' 0)"
done_testing
