#!/bin/sh
# json.sh - tokens in JSON: a string in every command, so that no reader rounds one above 2^53.
. "${0%/*}/cli.sh"

# tokens: the kind of each value called token or epoch, at any depth, and the value.
tokens() {
        python3 -c '
import json, sys
def walk(value):
        if isinstance(value, dict):
                for key, inner in value.items():
                        if key in ("token", "epoch"):
                                print(type(inner).__name__, inner)
                        walk(inner)
        elif isinstance(value, list):
                for inner in value:
                        walk(inner)
for line in sys.stdin:
        walk(json.loads(line))'
}

lease=$("$pawl" acquire --json --ttl 60s a | tee "$scratch/acquire" | python3 -c 'import json, sys; print(json.load(sys.stdin)["lease"])')
token=$(tokens <"$scratch/acquire")
like "acquire" "$token" "str [1-9]*"
is "renew" "$("$pawl" renew --json "$lease" | tokens)" "$token"
is "ls" "$("$pawl" ls --json | tokens)" "$token"
is "show" "$("$pawl" show --json a | tokens)" "$token"
is "top" "$("$pawl" top --json | tokens)" "$token"
is "the holder in a refusal" "$("$pawl" acquire -qn --json a | tokens)" "$token"
is "and in a message" "$("$pawl" run -n --log-format json a true 2>&1 | tokens)" "$token"
like "a message of our own" "$("$pawl" run -v --log-format json b true 2>&1 | head -n 1 | tokens)" "str [1-9]*"
like "hold" "$("$pawl" hold h </dev/null | head -n 1 | tokens)" "str [1-9]*"
"$pawl" release "$lease"
is "a past owner" "$("$pawl" show --json a | tokens)" "$token"
"$pawl" elect -1 boss -- sh -c '"$0" elect --json --who boss >"$1"' "$pawl" "$scratch/who"
like "elect --who" "$(tokens <"$scratch/who")" "str [1-9]*"
"$pawl" once k -- true
like "once" "$("$pawl" once --look --json k | tokens)" "str [1-9]*"
mkdir "$scratch/guarded"
for token in 9007199254740993 9007199254740995; do
        echo x | "$pawl" put --store "file:$scratch/guarded" r $token
        is "marks, at $token" "$("$pawl" marks --json --store "file:$scratch/guarded" | tokens)" "str $token"
done
done_testing
