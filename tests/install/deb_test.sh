#!/bin/sh
# deb_test.sh - the packages of Debian, from the sources to a machine that has none: built, examined, installed, used, removed.
. "$TAP_SH"
. "$SOURCE_DIR/tests/install/root.sh"
. "$SOURCE_DIR/tests/install/hardened.sh"
pawl=/usr/bin/pawl # where the packages put it
. "$SOURCE_DIR/tests/cli/document.sh"
document README.md
replace='s|^make deb && ||; s|^sudo ||; s|\./dist/|/packages/|g'
for tool in dpkg-buildpackage dh lintian; do
        command -v $tool >"$scratch/which" || missing=$tool
done
if [ -n "${missing-}" ]; then
        skip "missing: $missing" "packages of Debian are built"
        done_testing
fi
export TMPDIR="$scratch"
packages=$scratch/packages

# That takes half the time, and is hardened like -O2.
ok "packages are built" env DEB_BUILD_OPTIONS="parallel=2 noautodbgsym" DEB_CFLAGS_APPEND="-O1 -g0" \
        "$SOURCE_DIR/packaging/deb.sh" "$packages" "$scratch/work"
rm -rf "$scratch/work"
# A package that goes into Debian's archive begins with a bug there; these do not.
ok "lintian finds nothing" lintian --allow-root --fail-on warning --suppress-tags initial-upload-closes-no-bugs \
        "$packages"/*.changes
is "nor has it anything to say" "$output" ""
for package in libpawl0.1 pawl; do
        is "$package needs libc, and no more than the other one of the two" \
                "$(dpkg-deb -f "$packages/${package}_"*.deb Depends | tr ',' '\n' | sed 's/^ //; s/ .*//' | grep -v '^libpawl0.1$')" \
                "libc6"
done

make_root "$packages"
install() {
        for name; do
                set -- "$@" "/packages/$(cd "$packages" && echo "${name}"_*.deb)"
                shift
        done
        in_root dpkg --install "$@"
}
not_ok "the command is not there at first" in_root pawl --version
block Install >install.sh
ok "README says how to install the command and the library" grep -q "^apt install /packages/libpawl" install.sh
ok "and so they are" in_root sh -e <install.sh
run_in_root() {
        block "First steps" "$1" | sed "s/kill 4711/kill ${2:-}/" >step.sh
        in_root sh -e <step.sh
}
is_held() { in_root pawl show nightly | grep -q "^holder.*sleep"; }
ok "first steps: a lock" run_in_root 1
like "has a token" "$output" "held, with token [1-9]*"
run_in_root 2 >job 2>&1 &
later $!
ok "a job that takes long holds one" await is_held
status 1 "the same job again is a conflict" run_in_root 3
like "and it is said who holds the lock" "$errors" "pawl: 'nightly' is held by *:pawl (sleep)*"
ok "who holds it" run_in_root 4
holder=$(printf '%s\n' "$output" | sed -n 's/^holder.*:\([0-9]*\):pawl .*/\1/p')
ok "is a process that can be ended" run_in_root 5 "$holder"
is "and the next one gets the lock" "$output" "my turn"
ok "a new user can do the first steps" in_root sh -s <"$SOURCE_DIR/packaging/debian/tests/smoke"
note "$output"
ok "root needs no URL" in_root pawl run x true
status 125 "an engine that is not installed is an error" in_root pawl run -e redis://localhost x true
like "that names the package" "$errors" "*install the package pawl-redis*"
status 125 "and a guard, too" in_root pawl get --store sqlite:/tmp/x x
like "names the package" "$errors" "*install the package pawl-sqlite*"
ok "the engines are installed" install pawl-etcd pawl-http pawl-postgres pawl-redis pawl-sqlite pawl-zookeeper
ok "the command lists them" in_root pawl engines
unlike "and misses none" "$output" "*not here*"
ok "what programs are built with is installed" install libpawl-dev
ok "programs are built with it" in_root sh -s <"$SOURCE_DIR/packaging/debian/tests/build"
for file in doc/pawl/README.md doc/pawl/docs/RUNBOOK.md doc/pawl/copyright doc/libpawl-dev/examples/worker.c \
        man/man1/pawl-run.1.gz man/man3/pawl_acquire.3.gz bash-completion/completions/pawl; do
        ok "$file is there" in_root test -s /usr/share/$file
done

in_root dpkg -L libpawl0.1 pawl pawl-etcd pawl-http pawl-postgres pawl-redis pawl-sqlite pawl-zookeeper |
        grep -E '/(bin|lib)/.*pawl' >"$scratch/installed"
while read -r file; do
        in_root test -f "$file" || continue
        in_root cat "$file" >"$scratch/binary"
        hardened "$file" "$scratch/binary"
done <"$scratch/installed"

ok "what was added is removed" in_root dpkg --purge libpawl-dev pawl-etcd pawl-http pawl-postgres pawl-redis pawl-sqlite \
        pawl-zookeeper
block Install 2 | sed 's/purge/purge --yes/' >remove.sh
ok "as README says" in_root sh -e <remove.sh
is "and nothing is left" "$(changes)" ""
not_ok "nor root's locks" in_root test -e /var/lib/pawl
done_testing
