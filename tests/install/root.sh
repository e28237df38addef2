# root.sh - a machine of its own for a test of packages: a view of this one in which everything may be changed, and where there
# are no sources. Source it after tap.sh.
#
#       make_root DIRECTORY          or skips the rest of the test; DIRECTORY is /packages there
#       ok "it installs" in_root dpkg -i /packages/x.deb
#       changes                      prints what was added or changed since, apart from what dpkg, apt, rpm and ldconfig keep; that
#                                    this machine's own /var/lib/pawl was removed there is no change
#
# Changes are kept in memory and end with the test.

make_root() {
        if [ "$(id -u)" -ne 0 ]; then
                skip "only root can change the root directory" "packages are installed"
                done_testing
        fi
        root=$scratch/machine/view
        mkdir "$scratch/machine"
        mkfifo "$scratch/made"
        if ! unshare --mount true 2>"$scratch/mount-errors"; then
                skip "no mounts are allowed here: $(cat "$scratch/mount-errors")" "packages are installed"
                done_testing
        fi
        unshare --mount --propagation private sh -c '
                set -eu
                trap "echo no >\"$4\"" EXIT
                mount -t tmpfs tmpfs "$1"
                mkdir "$1/changed" "$1/work" "$1/view"
                mount -t overlay -o "lowerdir=/,upperdir=$1/changed,workdir=$1/work" overlay "$1/view"
                mount -t tmpfs tmpfs "$1/view$2" # the sources
                mount -t tmpfs tmpfs "$1/view/tmp"
                mkdir "$1/view/packages"
                mount --bind "$3" "$1/view/packages"
                mount --rbind /dev "$1/view/dev"
                mount --rbind /proc "$1/view/proc"
                echo yes >"$4"
                exec sleep 7200' sh "$scratch/machine" "$SOURCE_DIR" "$1" "$scratch/made" 2>"$scratch/mount-errors" &
        root_pid=$!
        later $root_pid
        read -r made <"$scratch/made"
        if [ "$made" != yes ]; then
                skip "no view of this machine can be made: $(cat "$scratch/mount-errors")" "packages are installed"
                done_testing
        fi
}

in_root() {
        nsenter --target "$root_pid" --mount chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
                AUTOPKGTEST_TMP=/tmp DEBIAN_FRONTEND=noninteractive "$@"
}

changes() {
        nsenter --target "$root_pid" --mount find "$scratch/machine/changed" ! -type d ! -path '*/var/lib/dpkg/*' \
                ! -path '*/var/lib/apt/*' ! -path '*/.rpmdb/*' ! -path '*/var/lib/rpm/*' ! -path '*/var/cache/*' ! -path '*/var/log/*' \
                ! -path '*/etc/ld.so.cache' ! \( -path '*/var/lib/pawl' -type c \) \
                -printf '/%P\n'
}
