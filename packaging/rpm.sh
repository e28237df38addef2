#!/bin/sh
# rpm.sh [RESULT [WORK [OPTION...]]] - builds the source package and the packages of RPM in WORK (build-rpm) and puts them into
# RESULT (dist). OPTIONs go to rpmbuild. On Debian, where no RPM is installed, what the build needs is not checked.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-dist}"
result=$(cd "${1:-dist}" && pwd -P)
work=${2:-build-rpm}
[ $# -lt 2 ] || shift 2
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd -P)
packaging/source.sh "$work" >"$work/archive"
[ ! -e /etc/debian_version ] || set -- --nodeps "$@"
rpmbuild -ba --define "_topdir $work" --define "_sourcedir $work" "$@" packaging/rpm/pawl.spec >"$work/log" 2>&1 </dev/null || {
        tail -n 40 "$work/log" >&2
        exit 1
}
find "$work/SRPMS" "$work/RPMS" -name '*.rpm' | LC_ALL=C sort | while read -r file; do
        mv "$file" "$result/"
        echo "$result/${file##*/}"
done
