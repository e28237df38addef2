#!/bin/sh
# once.sh - a step of a deployment that every host runs, and one of them does: the others have its status and its output.
# The key says what is done: a new release is a new key. $PAWL is the command (default: pawl); $PAWL_URL chooses the engine.
# Writes into the current directory.
set -eu
pawl=${PAWL:-pawl}
key=example/schema-of-release-$(date +%s)-$$ # a real one is called after the release alone

host() {
        "$pawl" once --keep 1h "$key" -- sh -c 'echo "$1" >>ran; echo "migrated by $1, with token $PAWL_TOKEN"' sh "$1" >"$1.out"
}

host alpha &
alpha=$!
host beta &
beta=$!
host gamma
wait $alpha
wait $beta
host delta # it comes when all is done

cmp alpha.out beta.out
cmp alpha.out gamma.out
cmp alpha.out delta.out
[ "$(wc -l <ran)" -eq 1 ] || { echo "it was done more than once" >&2; exit 1; }
"$pawl" once --forget "$key"
echo "four hosts asked for it: $(cat delta.out)"
