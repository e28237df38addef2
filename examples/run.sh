#!/bin/sh
# run.sh PROGRAM [ARG...] - runs one example on an embedded store of its own, so that it meets nobody else's locks. Without an
# argument it is given the store's URL.
set -eu
directory=$(mktemp -d "${TMPDIR:-/tmp}/pawl-example.XXXXXX")
trap 'rm -rf "$directory"' EXIT
PAWL_URL=local:$directory/state
export PAWL_URL
program=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- "$PAWL_URL"
cd "$directory"
"$program" "$@"
