#!/bin/sh
# static.sh OUTPUT SCRATCH ARCHIVE... - makes libpawl.a: one object, its hidden symbols made local, so that a program
# linked with it meets no name of ours but the public ones.
set -eu
output=$1
scratch=$2
shift 2
mkdir -p "$scratch"
rm -f "$output"
${LD:-ld} -r -o "$scratch/pawl.o" --whole-archive "$@"
${OBJCOPY:-objcopy} --localize-hidden "$scratch/pawl.o"
${AR:-ar} rcsD "$output" "$scratch/pawl.o"
