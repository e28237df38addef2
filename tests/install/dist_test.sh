#!/bin/sh
# dist_test.sh - the archive of the sources, and what `make`, `make install` and `make uninstall` do with it as a user does: without
# tests, with few libraries, without warnings as errors. The same bytes come out wherever and by whomever it is done.
. "$TAP_SH"
. "$SOURCE_DIR/tests/install/hardened.sh"
unset CI MAKEFLAGS
export TMPDIR="$scratch"
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" "$SOURCE_DIR/meson.build")
name=pawl-$version

ok "an archive is made" "$SOURCE_DIR/packaging/source.sh" "$scratch/dist"
archive=$scratch/dist/$name.tar.gz
is "it is named for the version" "$output" "$archive"
is "all of it is in one directory" "$(tar -tzf "$archive" | grep -v "^$name/")" ""
is "nothing that was built is in it" "$(tar -tzf "$archive" | grep -E "^$name/(build|dist|\.git/)|__pycache__|\.o$")" ""
is "nor modes of whoever made it" "$(tar -tvzf "$archive" | grep -vE '^-rw(-r--r--|xr-xr-x) 0/0 ')" ""
is "Debian's package has its version" \
        "$(sed -n "1s/^pawl (\(.*\)-[^-]*) .*/\1/p" "$SOURCE_DIR/packaging/debian/changelog")" "$version"
is "and RPM's" "$(sed -n 's/^Version: *//p' "$SOURCE_DIR/packaging/rpm/pawl.spec")" "$version"
mkdir -p "$scratch/one" "$scratch/another/deeper"
ok "it is unpacked" tar -xzf "$archive" -C "$scratch/one"
ok "anywhere" tar -xzf "$archive" -C "$scratch/another/deeper"
one=$scratch/one/$name
another=$scratch/another/deeper/$name

mkdir "$one/build-x" "$one/tests/__pycache__"
touch "$one/build-x/y" "$one/tests/__pycache__/z"
ok "it makes an archive of itself" env TZ=Asia/Tokyo sh -c 'umask 077; "$0" "$1"' "$one/packaging/source.sh" "$one/dist"
ok "with the same bytes" cmp "$archive" "$one/dist/$name.tar.gz"

# The engines' libraries are not there, but SQLite's is.
mkdir "$scratch/pc"
sqlite=$(pkg-config --variable=pcfiledir sqlite3 2>"$scratch/which")/sqlite3.pc
[ ! -f "$sqlite" ] || cp "$sqlite" "$scratch/pc/"
export PKG_CONFIG_LIBDIR="$scratch/pc"
make() {
        command make "$@" OPTIONS=-Doptimization=1 # it takes less time
}
ok "make builds" make -C "$one"
like "says which engines there are" "$output" "*local: one machine*"
like "and which are not, and why" "$output" "*not here: it needs the module pawl-redis.so*libhiredis-dev*"
is "tests are not built" "$(find "$one/build" -name '*_test' -o -name 'row_*' -type f)" ""
ok "make install installs" make -C "$one" install DESTDIR="$scratch/first"
ok "also elsewhere, later, by another" env TZ=Asia/Tokyo LC_ALL=C sh -c 'umask 077; exec make -C "$0" install DESTDIR="$1" OPTIONS=-Doptimization=1' \
        "$another" "$scratch/second"
ok "the bytes are the same" diff -r --no-dereference "$scratch/first" "$scratch/second"
is "and the modes" "$(cd "$scratch/first" && find . -printf '%P %m\n' | sort)" \
        "$(cd "$scratch/second" && find . -printf '%P %m\n' | sort)"
is "no file says where it was built" "$(grep -rlF "$scratch" "$scratch/first")" ""

(cd "$scratch/first" && find . -type f \( -path '*/bin/*' -o -name '*.so*' \)) | sed 's/^\.//' >"$scratch/binaries"
while read -r file; do
        hardened "$file" "$scratch/first$file"
done <"$scratch/binaries"
like "the command is among them" "$(cat "$scratch/binaries")" "*/usr/local/bin/pawl*"
for file in LICENSE README.md CHANGES.md docs/RUNBOOK.md docs/engines/redis.md examples/worker.c examples/once.sh; do
        ok "$file is installed" test -s "$scratch/first/usr/local/share/doc/pawl/$file"
done
ok "what is there is replaced" make -C "$one" install DESTDIR="$scratch/first"
ok "make uninstall uninstalls" make -C "$one" uninstall DESTDIR="$scratch/first"
is "no file is left" "$(find "$scratch/first" ! -type d)" ""
is "nor a directory of ours" "$(find "$scratch/first" -name '*pawl*')" ""
done_testing
