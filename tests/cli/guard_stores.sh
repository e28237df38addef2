#!/bin/sh
# guard_stores.sh [SERVER] - fence, put, get, marks, prune and doctor on the store in PAWL_TEST_STORE, whatever it is; {dir} there is
# an empty directory, {n} a number. SERVER is one of HTTP, which keeps its data in such a directory.
. "${0%/*}/cli.sh"

mkdir "$scratch/store"
if [ $# -gt 0 ]; then
        "$1" --port 0 "file:$scratch/store" >"$scratch/served" &
        later $!
        await_file "$scratch/served"
        PAWL_TEST_STORE=$(sed 's/.*\(http:[^ ]*\).*/\1/' "$scratch/served")
fi
PAWL_STORE=$(printf %s "$PAWL_TEST_STORE" | sed "s|{dir}|$scratch/store|; s|{n}|1|")
export PAWL_STORE
put() {
        printf %s "$3" | "$pawl" put "$1" "$2"
}

status 0 "marks of an empty store" "$pawl" marks
is "is nothing" "$output" ""
is "and [] in JSON" "$("$pawl" marks --json)" "[]"
ok "put writes" put orders 5 first
ok "the same token may come again" put orders 5 second
ok "a greater one too" put orders 9 third
status 124 "a smaller one is refused with 124" put orders 8 late
ok "and said in one sentence" one_sentence
is "nothing has changed" "$("$pawl" get orders 9)" third
status 124 "get with a stale token is 124" "$pawl" get orders 5
is "and prints nothing" "$output" ""
is "get is a barrier" "$("$pawl" get orders 12)" third
status 124 "against all older ones" put orders 11 late
status 1 "get of what is not there is 1" "$pawl" get nothing 1
ok "put of nothing" put lines 2 ''
status 0 "is something, and empty" "$pawl" get lines 2
is "as it went in" "$output" ""
head -c 100000 /dev/urandom >"$scratch/large"
"$pawl" put large 1 <"$scratch/large"
"$pawl" get large 1 >"$scratch/copy"
ok "what goes in comes out, byte by byte" cmp "$scratch/large" "$scratch/copy"
name="it's %41/../\"42\" {ü} * ; drop"
ok "a name is a name" put "$name" 3 odd
is "and its data its own" "$("$pawl" get "$name" 3)" odd

is "fence runs COMMAND" "$("$pawl" fence door 7 echo in)" in
status 6 "its status is COMMAND's" "$pawl" fence door 7 -- sh -c 'exit 6'
status 124 "a stale token is 124" "$pawl" fence door 6 touch "$scratch/ran"
not_ok "and runs nothing" test -e "$scratch/ran"
is "no descriptor leaks" "$("$pawl" fence door 7 sh -c 'ls /proc/self/fd' </dev/null | tr '\n' ' ')" \
        "$(sh -c 'ls /proc/self/fd' </dev/null | tr '\n' ' ')"

# ---- as it is meant: a holder that lost its lock. (PAWL_STORE would come without its password.)
"$pawl" run --on-lost ignore job sh -c '
        "$1" break job
        "$1" run job sh -c "echo new | \"\$1\" put --store \"\$2\" job \$PAWL_TOKEN" sh "$1" "$2"
        echo old | "$1" put --store "$2" job $PAWL_TOKEN
        echo $? >"$3"' sh "$pawl" "$PAWL_STORE" "$scratch/status" 2>/dev/null
is "the late write of a holder that lost its lock is 124" "$(cat "$scratch/status")" 124
is "the new holder's stands" "$("$pawl" get job 4000000000000000000)" new

# ---- versions
swap() {
        printf %s "$3" | "$pawl" put --if-version "$2" "$1"
}
capture "$pawl" get -V versioned
case $code,$errors in
125,*) # a server of HTTP that knows tokens only
        ok "what has no versions says so in one sentence" one_sentence
        ;;
*)
        is "what was never there is at version 0" "$code $output" "1 0"
        ok "put --if-version writes" swap versioned 0 first
        ok "and again from the next" swap versioned 1 second
        status 124 "but not from another" swap versioned 1 late
        like "and says which it is" "$errors" "*not at version 1 but at 2*"
        is "get -V has the version, then the data" "$("$pawl" get -V versioned)" "2
second"
        is "get without a token only reads" "$("$pawl" get versioned)" second
        is "one pipe reads both" "$("$pawl" get -V versioned | { read -r version; tr a-z A-Z | "$pawl" put --if-version "$version" versioned; }
                "$pawl" get -V versioned)" "3
SECOND"
        ;;
esac

# ---- looking
# entries: "NAME TOKEN" in the order of their names, from the JSON.
entries() {
        "$pawl" marks --json "$@" | python3 -c '
import json, sys
for name, token in sorted((e["name"], e["token"]) for e in json.load(sys.stdin)):
        print(name, token)'
}
capture "$pawl" marks
case $code,$errors in
125,*) # the store behind a server of HTTP is its own business
        ok "what cannot be listed says so in one sentence" one_sentence
        ;;
*)
        is "marks lists every name with its token" "$(entries)" "door 7
$name 3
job 4000000000000000000
large 1
lines 2
nothing 1
orders 12
versioned 3"
        is "or those with a prefix" "$(entries l)" "large 1
lines 2"
        is "a prefix is no pattern" "$(entries '%')$(entries '*')$(entries '_')" ""
        like "for people, in the order of names" "$("$pawl" marks l | tr -s ' \n' ' ')" "NAME TOKEN large 1 lines 2 "
        ;;
esac

# ---- pruning
capture "$pawl" prune 10
case $code,$errors in
125,*)
        ok "what cannot be pruned says so in one sentence" one_sentence
        ;;
*)
        is "prune counts what it forgets" "$output" 6
        is "what is above stays" "$(entries)" "job 4000000000000000000
orders 12"
        status 124 "what was refused is refused" "$pawl" fence door 6 true
        status 124 "and whatever else is below" "$pawl" fence brand-new 9 true
        ok "the floor itself passes" "$pawl" fence brand-new 10 true
        is "data are not forgotten" "$("$pawl" get lines 10; "$pawl" get "$name" 10)" odd
        is "prune --json" "$("$pawl" prune --json 10)" '{"pruned":3}'
        ;;
esac

# ---- doctor
capture "$pawl" doctor --store "$PAWL_STORE"
case $code,$errors in
125,*)
        ok "what cannot be examined says so in one sentence" one_sentence
        ;;
*)
        like "doctor says how it is" "$output" "*fine *"
        is "in JSON with severity, where, what and mend" \
                "$("$pawl" doctor --json --store "$PAWL_STORE" | python3 -c 'import json, sys; print(sorted(set(k for f in json.load(sys.stdin) for k in f)))')" \
                "['mend', 'severity', 'what', 'where']"
        ;;
esac
done_testing
