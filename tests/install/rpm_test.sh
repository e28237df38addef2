#!/bin/sh
# rpm_test.sh - the packages of RPM: built, installed beside Debian's, used, removed.
. "$TAP_SH"
. "$SOURCE_DIR/tests/install/root.sh"
if ! command -v rpmbuild >"$scratch/which"; then
        skip "missing: rpmbuild" "packages of RPM are built"
        done_testing
fi
export TMPDIR="$scratch"
packages=$scratch/packages

# Unoptimised, which is a third of the time: here the packages matter, not what is in them.
ok "packages are built" "$SOURCE_DIR/packaging/rpm.sh" "$packages" "$scratch/work" --define "optflags -O0 -g0"
rm -rf "$scratch/work"
is "one for each module, and three" "$(cd "$packages" && printf '%s\n' *."$(uname -m).rpm" | sed 's/-[0-9].*//' | tr '\n' ' ')" \
        "pawl pawl-devel pawl-etcd pawl-http pawl-libs pawl-postgres pawl-redis pawl-sqlite pawl-zookeeper "
like "the command needs the library of its version" "$(rpm -qp --requires "$packages"/pawl-[0-9]*."$(uname -m).rpm")" \
        "*pawl-libs* = $(sed -n 's/^Version: *//p' "$SOURCE_DIR/packaging/rpm/pawl.spec")-1*"

make_root "$packages"
rm -f "$packages"/*.src.rpm
not_ok "the command is not there at first" in_root pawl --version
ok "the packages are installed" in_root sh -c 'rpm --install --nodeps /packages/*.rpm'
ok "a new user can do the first steps" in_root sh -s <"$SOURCE_DIR/packaging/debian/tests/smoke"
ok "the engines are found" in_root pawl engines
unlike "all of them" "$output" "*not here*"
ok "the licence is there" in_root sh -c 'test -s "$(rpm -q --licensefiles pawl)"'
ok "all is removed" in_root sh -c 'rpm --erase $(rpm -qa | grep "^pawl")'
is "and nothing is left" "$(changes)" ""
done_testing
