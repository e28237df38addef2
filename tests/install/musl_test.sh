#!/bin/sh
# musl_test.sh PROGRAM.c - the library, the command and the embedded engine with musl in place of glibc. No other library is
# built for musl here, so that the engines with a server are left out.
. "$TAP_SH"
program=$1
export TMPDIR="$scratch"
if ! command -v musl-gcc >"$scratch/which"; then
        skip "missing: musl-gcc" "it builds with musl"
        done_testing
        exit 0
fi

export PKG_CONFIG_LIBDIR="$scratch/none"
build=$scratch/build
ok "musl is described" "$SOURCE_DIR/packaging/musl.sh" "$scratch"
ok "it is configured" meson setup --native-file "$scratch/musl.ini" -Doptimization=0 -Dwerror=true "$build" "$SOURCE_DIR"
ok "it builds without a warning" ninja -C "$build" pawl libpawl.so.0.1.0
like "against musl" "$(readelf -l "$build/pawl" | grep interpreter)" "*ld-musl*"

PAWL_URL=local:$scratch/locks
export PAWL_URL
pawl=$build/pawl
status 0 "a command runs under a lock" "$pawl" run x sh -c 'echo "token $PAWL_TOKEN"'
like "with a token" "$output" "token [1-9]*"
status 7 "its status is passed on" "$pawl" run x sh -c 'exit 7'
status 1 "a lock that is held is busy" "$pawl" run x "$pawl" run -n x true
status 0 "a signal has its name" "$pawl" run --on-lost signal:USR1 x true
status 0 "a result is kept" "$pawl" once key echo done
is "and found again" "$("$pawl" once --look key)" "done"
status 125 "an engine that is not there is an error" "$pawl" run -e redis://localhost x true
ok "a program builds with the shared library" musl-gcc -I"$SOURCE_DIR/include" -o "$scratch/program" "$program" \
        "$build/libpawl.so.0.1.0"
ok "and runs" env LD_LIBRARY_PATH="$build" "$scratch/program" "local:$scratch/state"

# glibc and musl on one directory: futexes, lifelines and layout are the kernel's and ours.
status 1 "what a program with glibc holds is held" "$BUILD_DIR/pawl" run x "$pawl" run -n x true
status 1 "and the other way round" "$pawl" run x "$BUILD_DIR/pawl" run -n x true
done_testing
