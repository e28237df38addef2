#!/bin/sh
# install_test.sh PROGRAM.c PROGRAM.cc CC... - installs into a scratch directory, and builds and runs programs with what is
# there. The compiler may be several words, such as ccache gcc.
. "$TAP_SH"
program=$1
plus=$2
shift 2
root=$scratch/root
export TMPDIR="$scratch"

ok "it installs" meson install -C "$BUILD_DIR" --no-rebuild --quiet --destdir "$root"
find "$root" -type f -o -type l >"$scratch/files"
has() { grep -q "/$1\$" "$scratch/files"; }
for file in bin/pawl include/pawl.h include/pawl/guard.h libpawl.so libpawl.so.0.1 libpawl.a pkgconfig/pawl.pc \
        pawl/pawl-trace.so man1/pawl.1 man3/pawl_acquire.3 man7/pawl.7; do
        ok "$file is there" has $file
done
if has pawl/pawl-sqlite.so; then
        ok "the extension of SQLite is beside its module" has pawl/sqlite-pawl.so
        ok "and its SQL in a place of its own" has share/pawl/sqlite.sql
fi

for name in $("$PAWL" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        ok "there is a page for pawl $name" has "man1/pawl-$name.1"
done
for shell in bash zsh fish; do
        case $shell in
        bash) file=share/bash-completion/completions/pawl ;;
        zsh) file=share/zsh/site-functions/_pawl ;;
        fish) file=share/fish/vendor_completions.d/pawl.fish ;;
        esac
        "$PAWL" completion $shell >"$scratch/completion"
        ok "the completion of $shell is the one that the command prints" \
                cmp "$(grep "/$file\$" "$scratch/files")" "$scratch/completion"
done

pc=$(dirname "$(grep '/pawl\.pc$' "$scratch/files")")
libraries=$(dirname "$pc")
export PKG_CONFIG_PATH="$pc" PKG_CONFIG_SYSROOT_DIR="$root"
if command -v pkg-config >"$scratch/which"; then
        # shellcheck disable=SC2046
        ok "a program builds with pkg-config" \
                "$@" -o "$scratch/shared" "$program" $(pkg-config --cflags --libs pawl)
        ok "and runs" env LD_LIBRARY_PATH="$libraries" "$scratch/shared" "local:$scratch/state"
        # shellcheck disable=SC2046
        ok "a program builds with the static library" \
                "$@" -o "$scratch/static" "$program" $(pkg-config --cflags pawl) "$libraries/libpawl.a" -pthread
        ok "and runs without the shared one" "$scratch/static" "local:$scratch/state"
        if command -v g++ >"$scratch/which"; then
                # shellcheck disable=SC2046
                ok "a C++ program builds without a warning" g++ -std=c++17 -Wall -Wextra -Werror -pedantic -o "$scratch/plus" \
                        "$plus" $(pkg-config --cflags --libs pawl)
                ok "and runs with options" env LD_LIBRARY_PATH="$libraries" "$scratch/plus" "local:$scratch/state"
        else
                skip "missing: g++" "a C++ program builds without a warning"
        fi
else
        skip "missing: pkg-config" "a program builds with pkg-config"
fi

command=$root/$(sed -n "s|^$root/||p" "$scratch/files" | grep 'bin/pawl$')
ok "the installed command runs" "$command" --version
ok "and finds the installed module" "$command" run -e "trace+local:$scratch/locks" x true
# As CONTRIBUTING says of packages.
options=$(sed -n 's/^    meson setup build-package //p' "$SOURCE_DIR/CONTRIBUTING.md")
# shellcheck disable=SC2086
ok "a package is set up" meson setup "$scratch/build-package" "$SOURCE_DIR" $options
is "without tests, benchmarks and examples" "$(ninja -C "$scratch/build-package" -t targets all | grep -E '^(tests|bench|examples)/.*_LINKER$')" ""
not_ok "the installed library has symbols for a debugger" sh -c '! readelf -S "$0"/libpawl.so | grep -q symtab' "$libraries"
ok "--strip takes them away" meson install -C "$BUILD_DIR" --no-rebuild --quiet --strip --destdir "$root"
ok "from libraries and programs" sh -c '! readelf -S "$0/libpawl.so" "$1" | grep -q symtab' "$libraries" "$command"
ok "and the command runs" "$command" --version
ok "it uninstalls" "$SOURCE_DIR/.ci/uninstall" "$BUILD_DIR"
is "and nothing of it is left" "$(find "$root" ! -type d)" ""
done_testing
