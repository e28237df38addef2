#!/bin/sh
# musl.sh DIRECTORY - makes DIRECTORY/musl.ini there, a file for `meson setup --native-file` with which everything is built with
# musl in place of glibc. No other library of Debian is built for musl: set PKG_CONFIG_LIBDIR to a directory that is not there.
set -eu
directory=$(cd "${1:?usage: packaging/musl.sh DIRECTORY}" && pwd -P)

# The headers of the kernel stand among those of glibc.
mkdir "$directory/kernel"
for part in linux asm-generic; do
        ln -s /usr/include/$part "$directory/kernel/$part"
done
for asm in /usr/include/asm "/usr/include/$(gcc -print-multiarch)/asm"; do
        [ ! -d "$asm" ] || ln -sfn "$asm" "$directory/kernel/asm"
done
cat >"$directory/musl.ini" <<END
[binaries]
c = 'musl-gcc'
cmake = '/bin/false'

[built-in options]
c_args = ['-idirafter', '$directory/kernel']
END
