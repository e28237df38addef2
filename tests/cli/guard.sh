#!/bin/sh
# guard.sh - fence, put, get and marks: a token is admitted at a store, or refused with 124. guard_stores.sh has what holds
# for every kind of store.
. "${0%/*}/cli.sh"

mkdir "$scratch/store"
store=file:$scratch/store
put() {
        printf %s "$3" | "$pawl" put --store "$store" "$1" "$2"
}
get() {
        "$pawl" get --store "$store" "$1" "$2"
}

ok "put writes" put orders 5 first
is "the resource is a plain file" "$(cat "$scratch/store/orders")" first
ok "the same token may come again" put orders 5 second
ok "a greater one too" put orders 9 third
status 124 "a smaller one is refused with 124" put orders 8 late
ok "and said in one sentence" one_sentence
is "nothing has changed" "$(cat "$scratch/store/orders")" third
is "get reads" "$(get orders 9)" third
status 124 "get with a stale token is 124" get orders 5
is "and prints nothing" "$output" ""
is "get is a barrier" "$(get orders 12)" third
status 124 "against all older ones" put orders 11 late
status 1 "get of what is not there is 1" get nothing 1
is "other resources have their own tokens" "$(put lines 1 'a
b' && get lines 1)" 'a
b'
ok "put of nothing empties" put lines 2 ''
is "it is empty" "$(get lines 2)" ""
status 125 "a standard input that is closed is not an empty one" sh -c '"$0" put --store "$1" orders 12 <&-' "$pawl" "$store"
ok "which is said in one sentence" one_sentence
is "and changes nothing" "$(cat "$scratch/store/orders")" third
head -c 300000 /dev/urandom >"$scratch/large"
"$pawl" put --store "$store" large 1 <"$scratch/large"
"$pawl" get --store "$store" large 1 >"$scratch/copy"
ok "what goes in comes out, byte by byte" cmp "$scratch/large" "$scratch/copy"

# ---- what a command prints
mkdir "$scratch/other"
store=file:$scratch/other
status 0 "put writes what COMMAND prints" "$pawl" put --store "$store" report 5 -- sh -c 'echo whole; echo report'
is "all of it" "$(cat "$scratch/other/report")" 'whole
report'
for how in 'exit 3' 'echo half; exit 3' 'exit 124'; do
        status "${how##* }" "a COMMAND that fails has its status: $how" "$pawl" put --store "$store" report 6 -- sh -c "$how"
        is "and replaces nothing: $how" "$(cat "$scratch/other/report")" 'whole
report'
done
ok "which is said in one sentence" one_sentence
status 143 "so has one that is killed" "$pawl" put --store "$store" report 6 -- sh -c 'echo half; kill -TERM $$'
status 127 "a COMMAND that is not there is 127" "$pawl" put --store "$store" report 6 -- no-such-command-here
status 126 "one that is no program is 126" "$pawl" put --store "$store" report 6 -- "$scratch/large"
status 125 "-- without a COMMAND is wrong" "$pawl" put --store "$store" report 6 --
status 125 "and so is a COMMAND without --" "$pawl" put --store "$store" report 6 echo in
is "nothing of this has replaced anything" "$(cat "$scratch/other/report")" 'whole
report'
ok "nor admitted anything" sh -c 'echo again | "$0" put --store "$1" report 5' "$pawl" "$store"
status 124 "a stale token is 124 after COMMAND" "$pawl" put --store "$store" report 4 -- echo late
is "its input is ours" "$(echo hello | "$pawl" put --store "$store" report 7 -- cat && cat "$scratch/other/report")" hello
status 0 "an empty output empties" "$pawl" put --store "$store" report 8 -- true
is "it is empty" "$(cat "$scratch/other/report")" ""
ok "much is no problem" "$pawl" put --store "$store" report 9 -- cat "$scratch/large"
ok "and comes whole" cmp "$scratch/large" "$scratch/other/report"
ok "with a version too" "$pawl" put --store "$store" --if-version 0 counted -- echo one
status 124 "which must be right" "$pawl" put --store "$store" --if-version 0 counted -- echo late
is "and is" "$("$pawl" get --store "$store" -V counted)" '1
one'
# shellcheck disable=SC2016
is "COMMAND sees no passwords" "$(env PAWL_STORE=redis://u:secret@127.0.0.1 "$pawl" put --store "$store" seen 1 -- \
        sh -c 'echo "$PAWL_STORE"' && cat "$scratch/other/seen")" "$(env PAWL_STORE=redis://u:secret@127.0.0.1 "$pawl" fence \
        --store "$store" door 7 sh -c 'echo "$PAWL_STORE"')"

# ---- tokens that no engine makes, and forgetting
for command in "put --store $store shut" "get --store $store shut" "fence --store $store shut" "prune --store $store"; do
        # shellcheck disable=SC2086
        status 125 "$command refuses a token that no engine makes" "$pawl" $command 4611686018427387904 </dev/null
done
is "and admits nothing" "$("$pawl" marks --store "$store" shut)" ""
ok "the greatest that one makes passes" "$pawl" put --store "$store" great 4611686018427387903 -- echo x
ok "with --force all do" "$pawl" put --store "$store" --force shut 9223372036854775807 -- echo x
status 124 "and then none below" put shut 1794966346892925 late
like "which is explained" "$errors" "*come from different stores of locks*pawl forget*"
status 125 "forget asks first" "$pawl" forget --store "$store" shut
like "and says what it would do" "$errors" "*'shut' refuses tokens below 9223372036854775807*--yes*"
status 124 "nothing was forgotten" put shut 1281 late
is "with --yes it forgets the mark and prints it" "$("$pawl" forget --store "$store" --yes shut)" 9223372036854775807
is "the data stay" "$(cat "$scratch/other/shut")" x
ok "and smaller tokens pass" put shut 1281 moved
status 124 "but only from there on" put shut 1280 late
like "as a late one's" "$errors" "*1281 has been admitted; another one has had the lock since*"
status 1 "what has no mark cannot be forgotten" "$pawl" forget --store "$store" --yes nothing-here
status 1 "not even if another's name begins so" "$pawl" forget --store "$store" --yes shu
status 125 "forget takes one name" "$pawl" forget --store "$store" --yes a b
store=file:$scratch/store

is "fence runs COMMAND" "$("$pawl" fence --store "$store" door 7 echo in)" in
is "behind -- too" "$("$pawl" fence --store "$store" door 7 -- echo in)" in
status 6 "its status is COMMAND's" "$pawl" fence --store "$store" door 7 sh -c 'exit 6'
status 124 "a stale token is 124" "$pawl" fence --store "$store" door 6 touch "$scratch/ran"
not_ok "and runs nothing" test -e "$scratch/ran"
status 127 "a command that is not there is 127" "$pawl" fence --store "$store" door 7 no-such-command-here
status 126 "one that is no program is 126" "$pawl" fence --store "$store" door 7 "$scratch/large"
is "standard input passes through" "$(echo hello | "$pawl" fence --store "$store" door 7 cat)" hello
is "no descriptor leaks" "$("$pawl" fence --store "$store" door 7 sh -c 'ls /proc/self/fd' </dev/null | tr '\n' ' ')" \
        "$(sh -c 'ls /proc/self/fd' </dev/null | tr '\n' ' ')"

# ---- the store from the environment, and no secrets for children
PAWL_STORE=$store
export PAWL_STORE
is "the store may come from PAWL_STORE" "$("$pawl" get orders 12)" third
status 125 "an empty one is none" env PAWL_STORE= "$pawl" get orders 12
ok "and that is said in one sentence" one_sentence
status 125 "--store goes before it" "$pawl" get --store "file:$scratch/none" orders 12
# seen VARIABLE URL: what the command of a fence finds in it.
seen() {
        env "$1=$2" "$pawl" fence --store "$store" door 7 printenv "$1"
}
is "a URL without a secret passes" "$(seen PAWL_STORE 'redis://user@host:1/2?prefix=a&ttl=1s')" 'redis://user@host:1/2?prefix=a&ttl=1s'
is "a password does not" "$(seen PAWL_STORE redis://user:hunter2@host/2)" redis://user@host/2
is "nor one without a user" "$(seen PAWL_URL 'redis://:hunter2@host?prefix=a@b:c')" 'redis://host?prefix=a@b:c'
is "nor with an @ in it" "$(seen PAWL_URL redis://user:hunter@2@host)" redis://user@host
is "nor as an option" "$(seen PAWL_STORE 'postgres://host/db?password=hunter2&sslmode=require')" 'postgres://host/db?sslmode=require'
is "the last one" "$(seen PAWL_STORE 'postgres://host/db?a=b&sslpassword=hunter2')" 'postgres://host/db?a=b'
is "the only one" "$(seen PAWL_STORE 'postgres://host/db?PassWord=hunter2')" postgres://host/db
is "or one whose key is encoded" "$(seen PAWL_STORE 'postgres://host/db?passw%6Frd=hunter2&a=b')" 'postgres://host/db?a=b'
is "passfile= passes" "$(seen PAWL_STORE 'redis://host?passfile=/etc/secret')" 'redis://host?passfile=/etc/secret'
is "a path is left alone" "$(seen PAWL_STORE 'file:/a:b@c')" 'file:/a:b@c'
is "run hides the password of a guard too" \
        "$(PAWL_STORE=redis://user:hunter2@host "$pawl" run x printenv PAWL_STORE)" redis://user@host
is "and sets no PAWL_STORE where there was none" "$(unset PAWL_STORE; "$pawl" run x printenv PAWL_STORE)" ""

# ---- looking at the marks
is "marks lists names and tokens" "$("$pawl" marks | tr -s ' ')" "NAME TOKEN
door 7
large 1
lines 2
nothing 1
orders 12"
is "those with a prefix" "$("$pawl" marks li | tail -n +2 | tr -s ' ')" "lines 2"
is "none is nothing" "$("$pawl" marks none)" ""
is "marks --json" "$("$pawl" marks --json li)" '[{"name":"lines","token":"2","error":null}]'
echo nonsense >"$scratch/store/.lines.pawl"
status 1 "a mark that cannot be read is 1" "$pawl" marks li
like "it is listed without a token" "$output" "*lines *-"
ok "and said in one sentence" one_sentence
is "and in JSON" "$("$pawl" marks -q --json li)" '[{"name":"lines","token":null,"error":"PAWL_CORRUPT"}]'
status 125 "nothing is written there" put lines 9 x
status 125 "marks of a store that is not there" "$pawl" marks --store "file:$scratch/none"
status 125 "two prefixes are too many" "$pawl" marks a b
status 125 "prune wants a token" "$pawl" prune
status 125 "a real one" "$pawl" prune 0
ok "and that is said in one sentence" one_sentence
unset PAWL_STORE

# ---- as it is meant: a holder that lost its lock
"$pawl" run --on-lost ignore job2 sh -c '
        "$1" break job2
        "$1" run job2 sh -c "echo new | \"\$1\" put --store \"\$2\" job2 \$PAWL_TOKEN" sh "$1" "$2"
        echo old | "$1" put --store "$2" job2 $PAWL_TOKEN
        echo $? >"$3"' sh "$pawl" "$store" "$scratch/status" 2>/dev/null
is "the late write of a holder that lost its lock is 124" "$(cat "$scratch/status")" 124
is "the new holder's stands" "$(cat "$scratch/store/job2")" new

# ---- versions
for version in '' x -1 1.5 9223372036854775807 9223372036854775808 '1 2'; do
        status 125 "'$version' is no version" "$pawl" put --store "$store" --if-version "$version" versioned </dev/null
done
status 125 "a version stands in place of a token" "$pawl" put --store "$store" --if-version 0 versioned 5 </dev/null
status 125 "and needs a resource" "$pawl" put --store "$store" --if-version 0 </dev/null
status 125 "a token has no version" "$pawl" get --store "$store" -V orders 12
status 1 "nothing of this has written" "$pawl" get --store "$store" versioned

# ---- bad input
for token in 0 -1 x '' 1x 9223372036854775808 99999999999999999999 ' 1' +1; do
        status 125 "'$token' is no token" put orders "$token" bad
        ok "and that is said in one sentence" one_sentence
done
status 125 "a store must be named" "$pawl" put orders 5
status 125 "mem: guards nothing here" "$pawl" put --store mem: orders 5
status 125 "in any letters" "$pawl" put --store MEM: orders 5
status 125 "doctor looks at one store" "$pawl" doctor -e local: --store "$store"
ok "and that is said in one sentence" one_sentence
status 125 "a store that is not there" "$pawl" put --store "file:$scratch/none" orders 99
ok "and that is said in one sentence" one_sentence
status 125 "a directory alone is no store" "$pawl" put --store "$scratch/store" orders 99
like "and it is said how to write it" "$errors" "pawl: *file:DIR*"
status 125 "a store nobody knows" "$pawl" put --store what:ever orders 99
status 125 "a resource without a name" put '' 99 bad
is "nothing has changed" "$(cat "$scratch/store/orders")" third
done_testing
