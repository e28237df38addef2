#!/bin/sh
# source.sh DIRECTORY - writes DIRECTORY/pawl-VERSION.tar.gz and prints its name: the files that git has, as they are now. Outside
# of git, as in a tree from such a file, all but what was built. Equal files give equal bytes.
set -eu
directory=${1:?usage: packaging/source.sh DIRECTORY}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd -P)
cd "$(dirname "$0")/.."
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" meson.build)
name=pawl-$version
export LC_ALL=C

files() {
        if [ -e .git ]; then
                git ls-files -z --deduplicate
        else
                find . -path './build*' -prune -o -path ./dist -prune -o -name __pycache__ -prune -o ! -type d -printf '%P\0'
        fi
}

# Of the last commit; every file in the archive has it.
date() {
        if [ -e .git ]; then
                git log -1 --format=%ct
        else
                stat -c %Y meson.build
        fi
}

files | sort -z |
        tar --create --format=gnu --no-recursion --transform="s,^,$name/,rSH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
                --mtime="@${SOURCE_DATE_EPOCH:-$(date)}" --file="$directory/.$name.tar" --null --files-from=-
gzip -9 -n <"$directory/.$name.tar" >"$directory/$name.tar.gz"
rm "$directory/.$name.tar"
echo "$directory/$name.tar.gz"
