#!/bin/sh
# doctor.sh - what `pawl doctor` finds in a directory of the embedded engine, and that its commands mend it.
. "${0%/*}/cli.sh"

# mend SEVERITY: the command printed for the first finding of that severity.
mend() {
        "$pawl" doctor --json | python3 -c '
import json, sys
print(next(f["mend"] for f in json.load(sys.stdin) if f["severity"] == sys.argv[1]))' "$1"
}

# On a disk, if there is one below the build or here.
for disk in "${BUILD_DIR:-.}" "$scratch"; do
        case $(stat -f -c %T "$disk") in
        tmpfs | ramfs) ;;
        *) break ;;
        esac
done
store=$(mktemp -d "$disk/doctor.XXXXXX")
at_end rm -rf "$store"
PAWL_URL=local:$store/locks
export PAWL_URL

status 0 "where nothing was locked yet there is nothing to warn of" "$pawl" doctor
like "and it says so" "$output" "advice *: there are no locks in $store/locks: *The first lock makes the store*"
not_ok "nor is a store made by that" test -e "$store/locks"
ok "the first lock makes one" "$pawl" run x true

case $(stat -f -c %T "$store") in
tmpfs | ramfs)
        skip "there is no disk here" "a directory on a disk is fine"
        ;;
*)
        status 0 "a directory on a disk is fine" "$pawl" doctor
        like "and says what it looked at" "$output" "*fine *$store/locks: *disk*"
        unlike "with nothing to mend" "$output" "*mend:*"
        like "and who shares it" "$output" "*only user $(id -un) ($(id -u)) may write to it: other users do not share its locks*"
        ;;
esac

for name in one other; do
        "$pawl" run $name sh -c "echo began >'$scratch/$name'; exec sleep 60" &
        later $!
        await_file "$scratch/$name"
        holders="${holders:-} $!"
done
like "clients are counted, doctor itself as well" "$("$pawl" doctor)" "* 3 of * clients are in use*"
# shellcheck disable=SC2086
kill -KILL $holders
# shellcheck disable=SC2086
wait $holders 2>"$scratch/killed"
like "those that were killed are not" "$("$pawl" doctor)" "* 1 of * clients are in use*"

memory=$(mktemp -d /dev/shm/doctor.XXXXXX 2>/dev/null) || memory=
case ${memory:+$(stat -f -c %T "$memory")} in
tmpfs)
        "$pawl" run -e "local:$memory/locks" x true
        status 1 "one in memory is a warning" "$pawl" doctor -e "local:$memory/locks"
        like "because of its tokens" "$output" "*warning *tmpfs*token*"
        ;;
*)
        skip "/dev/shm is not in memory" "one in memory is a warning"
        ;;
esac
[ -z "$memory" ] || rm -rf "$memory"

mkdir -m 1770 "$store/shared it's"
PAWL_URL="local:$store/shared%20it%27s"
"$pawl" run x true
"$pawl" doctor >"$scratch/shared"
like "a directory of a group is an advice" "$(cat "$scratch/shared")" "*advice *group $(id -gn) ($(id -g)) *share its locks*"
mended=$(mend advice)
like "with the command that takes it back" "$mended" "chmod 700 *"
sh -c "$mended"
is "which does so, whatever the name" "$(stat -c %a "$store/shared it's")" 700
unlike "and then it is not said any more" "$("$pawl" doctor)" "*advice*"

is "JSON has severity, where, what and mend" \
        "$("$pawl" doctor --json | python3 -c 'import json, sys; print(sorted(set(k for f in json.load(sys.stdin) for k in f)))')" \
        "['mend', 'severity', 'what', 'where']"
status 125 "an argument is too much" "$pawl" doctor now
mkdir "$store/open" && chmod 777 "$store/open"
status 125 "a store that cannot be opened is a failure" "$pawl" doctor -e "local:$store/open"
like "and says why" "$errors" "pawl: *everybody*"
done_testing
