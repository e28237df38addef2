#!/bin/sh
# static.sh [RESULT [WORK]] - builds the command as one file that needs no library, with musl, in WORK (build-static), and puts
# it into RESULT (dist) as pawl-VERSION-linux-MACHINE. `pawl engines` says what is in it.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-dist}"
result=$(cd "${1:-dist}" && pwd -P)
work=${2:-build-static}
rm -rf "$work"
mkdir -p "$work/kernel"
work=$(cd "$work" && pwd -P)

# The headers of the kernel stand among those of glibc.
for part in linux asm-generic; do
        ln -s /usr/include/$part "$work/kernel/$part"
done
for asm in /usr/include/asm "/usr/include/$(gcc -print-multiarch)/asm"; do
        [ ! -d "$asm" ] || ln -sfn "$asm" "$work/kernel/asm"
done
cat >"$work/musl.ini" <<END
[binaries]
c = 'musl-gcc'
cmake = '/bin/false'
END

# No library of Debian is built for musl.
quietly() {
        "$@" >"$work/log" 2>&1 </dev/null || {
                tail -n 40 "$work/log" >&2
                exit 1
        }
}
export PKG_CONFIG_LIBDIR="$work/none"
quietly meson setup --native-file "$work/musl.ini" -Db_pie=false -Dbuiltin_trace=true -Dmissing_modules=none \
        "-Dc_args=-idirafter $work/kernel" -Dc_link_args=-static "$work/build" .
quietly ninja -C "$work/build" pawl
name=pawl-$("$work/build/pawl" --version | sed 's/.* //')-linux-$(uname -m)
strip -o "$result/$name" "$work/build/pawl"
echo "$result/$name"
