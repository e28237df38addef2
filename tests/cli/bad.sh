#!/bin/sh
# bad.sh - bad input: one sentence on stderr that says what is wrong and what to do, 125, and nothing has changed.
. "${0%/*}/cli.sh"

# bad SENTENCE ARGUMENTS...
bad() {
        sentence=$1
        shift
        status 125 "$sentence" "$pawl" "$@"
        if one_sentence; then pass "... one sentence"; else fail "... one sentence" "$errors"; fi
        [ -z "$output" ] || fail "... and nothing on stdout" "$output"
}

"$pawl" acquire --ttl 10m untouched >"$scratch/lease"
before=$("$pawl" ls --json untouched | sed 's/"remaining_ms":[0-9]*//')
long=$(printf '%0300d' 0)
newline='a
b'
tab=$(printf 'a\tb')

bad "an empty name" run '' true
bad "a name of 300 bytes" run "$long" true
bad "a name with a newline" run "$newline" true
bad "a name with a tab" acquire "$tab"
bad "a name that is not UTF-8" run "$(printf 'a\377b')" true
bad "an empty name in show" show ''
like "it is said what a name is" "$errors" "*255 bytes*"
bad "a name of 300 bytes in break" break "$long"
like "there, too" "$errors" "*255 bytes*"

for duration in '' x 10x -5s 1e3 '5 s' s 10S 0x10 1..2 999999999999999999999s; do
        bad "the duration '$duration'" run --wait "$duration" x true
done
bad "a ttl of nothing" run --ttl 0 x true
bad "--max-hold 0" run --max-hold 0 x true
bad "top --interval 0" top --interval 0
bad "a ttl below the least" run --ttl 1ms x true
bad "a ttl of years" run --ttl 100000h x true
bad "-k not shorter than the ttl" run --ttl 1s -k 1s x true
bad "-k not shorter than a ttl that was not asked for" run -k 1m x true
bad "-k not shorter than the ttl of the URL" run -e "$PAWL_URL?ttl=1s" -k 2s x true

bad "a URL without a scheme" run -e nonsense x true
bad "a URL of no engine" run -e nonsense://host x true
bad "an empty URL" run -e '' x true
bad "an option of the URL that nobody knows" run -e "local:$scratch/p?nonsense=1" x true
bad "a ttl in the URL that is none" run -e "local:$scratch/p?ttl=soon" x true
for scheme in $("$pawl" engines --json | python3 -c '
import json, sys
print(" ".join(e["scheme"] for e in json.load(sys.stdin) if not e["available"]))'); do
        bad "the engine $scheme, which is not built" run -e "$scheme://localhost" x true
done
secret=$("$pawl" run -e 'nonsense://user:hunter2@host' x true 2>&1)
unlike "a password is not repeated in the message" "$secret" "*hunter2*"

bad "an option nobody knows" run --nonsense x true
bad "a letter nobody knows" run -Z x true
bad "a letter nobody knows, behind others" run -nZ x true
bad "an option without its value" run --wait
bad "a letter without its value" acquire -w
bad "a flag with a value" run --nonblock=1 x true
bad "half an option" run --non x true
bad "a NAME without COMMAND" run x
bad "no NAME" run
bad "an option behind NAME that there is not" run x -Z true
bad "-c behind NAME without its string" run x -c
bad "-c behind NAME and a COMMAND" run x -c true true
bad "-c and a COMMAND" run -c true x true
bad "-x and -s" run -x -s x true
bad "-x and -N" run -x -N 3 x true
for number in 0 -1 x '' 99999999999 1.5; do
        bad "-N '$number'" run -N "$number" x true
done
for number in -1 256 x ''; do
        bad "-E '$number'" run -E "$number" x true
done
for what in '' x signal: signal:NOSUCH signal:0 signal:99 TERM; do
        bad "--on-lost '$what'" run --on-lost "$what" x true
done
bad "too many arguments" ls a b
bad "too few arguments" show
bad "--json where nothing is printed" run --json x true
bad "ttl without --work" ttl

# ---- places that cannot be used
mkdir "$scratch/locked" && chmod 500 "$scratch/locked"
if [ "$(id -u)" -ne 0 ]; then
        bad "a directory that may not be written" run -e "local:$scratch/locked/in" x true
fi
bad "a directory below a file" run -e "local:$scratch/lease/in" x true
bad "a file in its place" run -e "local:$scratch/lease" x true
ln -s "$scratch" "$scratch/link"
mkdir "$scratch/open" && chmod 777 "$scratch/open"
bad "a directory that all may write" run -e "local:$scratch/open" x true
saved=$PAWL_URL
PAWL_URL=nonsense
bad "a PAWL_URL that is none" run x true
PAWL_URL=$saved

# ---- a file of another version, or of none
fresh
"$pawl" run x true
for file in "$place"/locks/*; do
        [ -s "$file" ] && printf 'not a pawl file at all, not even nearly' | dd of="$file" conv=notrunc 2>/dev/null
done
bad "a state file with another head" run x true

PAWL_URL=local:$scratch/place-1/locks
is "after all that the old lock is as it was" "$("$pawl" ls --json untouched | sed 's/"remaining_ms":[0-9]*//')" "$before"
done_testing
