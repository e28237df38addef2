#!/bin/sh
# static.sh [RESULT [WORK]] - builds the command as one file that needs no library, with musl, in WORK (build-static), and puts
# it into RESULT (dist) as pawl-VERSION-linux-MACHINE. `pawl engines` says what is in it.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-dist}"
result=$(cd "${1:-dist}" && pwd -P)
work=${2:-build-static}
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd -P)

packaging/musl.sh "$work"

quietly() {
        "$@" >"$work/log" 2>&1 </dev/null || {
                tail -n 40 "$work/log" >&2
                exit 1
        }
}
export PKG_CONFIG_LIBDIR="$work/none"
quietly meson setup --native-file "$work/musl.ini" -Db_pie=false -Dbuiltin_trace=true -Dmissing_modules=none \
        -Dc_link_args=-static "$work/build" .
quietly ninja -C "$work/build" pawl
name=pawl-$("$work/build/pawl" --version | sed 's/.* //')-linux-$(uname -m)
strip -o "$result/$name" "$work/build/pawl"
echo "$result/$name"
