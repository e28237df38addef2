#!/bin/sh
# deb.sh [RESULT [WORK]] - builds the source package and the packages of Debian in WORK (build-deb) and puts them into RESULT
# (dist). DEB_BUILD_OPTIONS has options of the build, as always.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-dist}"
result=$(cd "${1:-dist}" && pwd -P)
work=${2:-build-deb}
rm -rf "$work"
archive=$(packaging/source.sh "$work")
cd "$work"
tar -xzf "$archive"
tree=$(basename "$archive" .tar.gz)
mv "$archive" "$(echo "$tree" | tr - _).orig.tar.gz"
cp -R "$tree/packaging/debian" "$tree/debian"
cd "$tree"
dpkg-buildpackage -us -uc >../log 2>&1 </dev/null || {
        tail -n 40 ../log >&2
        exit 1
}
cd ..
for file in ./*.deb ./*.dsc ./*.tar.* ./*.buildinfo ./*.changes; do
        mv "$file" "$result/"
        echo "$result/${file#./}"
done
