#!/bin/sh
# configure_test.sh - .ci/configure finds what was installed after a build directory was set up, and otherwise does nothing.
# In a small project of its own, with libraries that only exist there.
. "$TAP_SH"
project=$scratch/project
configure=$project/.ci/configure
mkdir -p "$project/.ci" "$scratch/pc" "$scratch/lib"
cp "$SOURCE_DIR/.ci/configure" "$configure"
export PKG_CONFIG_LIBDIR="$scratch/pc" LIBRARY_PATH="$scratch/lib"
unset CC CFLAGS

if ! command -v pkg-config >/dev/null; then
        skip "missing: pkg-config" "a library that was installed later is found"
        done_testing
fi
cat >"$project/meson.build" <<'END'
project('small', 'c')
executable('always', 'main.c')
if dependency('pawl-moon', version: '>=2', required: false).found()
        executable('with_moon', 'main.c')
endif
if meson.get_compiler('c').find_library('pawl_tide', required: false).found()
        executable('with_tide', 'main.c')
endif
END
echo 'int main(void) { return 0; }' >"$project/main.c"

install_moon() {
        printf 'Name: moon\nDescription: none\nVersion: %s\n' "$1" >"$scratch/pc/pawl-moon.pc"
}
build() {
        "$configure" build && ninja -C "$project/build"
}

# Slow enough that they meet.
cat >"$scratch/meson" <<END
#!/bin/sh
sleep 1
exec $(command -v meson) "\$@"
END
chmod 755 "$scratch/meson"
for one in 1 2 3; do
        (
                PATH=$scratch:$PATH "$configure" both >"$scratch/both-$one" 2>&1
                echo "status $?" >>"$scratch/both-$one"
        ) &
done
wait
is "three at once in a tree that is not configured all succeed" "$(cat "$scratch"/both-?)" "$(printf 'status 0\nstatus 0\nstatus 0')"

ok "a directory is set up" "$configure" build --prefix=/nowhere
ok "and builds" ninja -C "$project/build"
ok "a second time" build
is "nothing is configured" "$errors" ""
like "and nothing built" "$output" "*no work to do*"

install_moon 1
ok "a library that is too old is no error" build
install_moon 2
ok "a library was installed" build
is "it is named" "$errors" "configuring build again, these changed: pawl-moon"
ok "it is found" test -x "$project/build/with_moon"
unlike "nothing else is built" "$output" "*always*"
unlike "and it is configured once" "$output" "*Regenerating*"

echo "find_program('main.c')" >>"$project/meson.build"
chmod 755 "$project/main.c"
ok "the project's description changed" ninja -C "$project/build"
ok "which ninja sees by itself" build
is "it is not configured again" "$errors" ""

ar rc "$scratch/lib/libpawl_tide.a"
rm "$scratch/pc/pawl-moon.pc"
ok "one without a pkg-config file was installed, the other removed" build
ok "the new one is found" test -x "$project/build/with_tide"
unlike "the old one is not built any more" "$(cat "$project/build/build.ninja")" "*with_moon*"
ok "after that" build
is "it is quiet again" "$errors$(echo "$output" | grep -v 'no work\|Entering')" ""
ok "another option is set" "$configure" build -Dwarning_level=3
touch "$scratch/before"
ok "and the one of the set-up again" "$configure" build --prefix=/nowhere
is "which it was already" "$(find "$project/build" -newer "$scratch/before" -name coredata.dat)" ""
like "both are as they were set" "$(meson introspect --buildoptions "$project/build")" '*"warning_level", "value": "3"*"/nowhere"*'

echo 'error()' >>"$project/meson.build"
rm -rf "$project/build"
not_ok "a project that cannot be configured is an error" "$configure" build
like "with Meson's message" "$errors" "*ERROR*"

# Meson before 1.3 remembers a header that was missing, and no option makes it forget.
found=$(find "$SOURCE_DIR" -name meson.build -not -path "$SOURCE_DIR/build*" -exec grep -Hn 'has_header' {} + | grep -v '#')
is "no library of the project is searched for by a check that is never repeated" "$found" ""
done_testing
