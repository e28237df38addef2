#!/bin/sh
# run.sh PROGRAM - runs one example on an embedded store of its own, so that it meets nobody else's locks.
set -eu
directory=$(mktemp -d "${TMPDIR:-/tmp}/pawl-example.XXXXXX")
trap 'rm -rf "$directory"' EXIT
PAWL_URL=local:$directory/state
export PAWL_URL
program=$(realpath "$1")
cd "$directory"
"$program" "$PAWL_URL"
