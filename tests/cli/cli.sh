# cli.sh - what the tests of the command share. Source it; it sources the harness.
. "$TAP_SH"
exec </dev/null # at a terminal the command would ask

unset PAWL_NAME PAWL_TOKEN PAWL_OWNER PAWL_VALID_UNTIL XDG_STATE_HOME
pawl=$PAWL
SHELL=/bin/sh
export SHELL
places=0

# A store of its own for what follows.
fresh() {
        places=$((places + 1))
        place=$scratch/place-$places
        mkdir "$place"
        PAWL_URL=local:$place/locks
        export PAWL_URL
}
fresh

# await_file FILE: until it is there and not empty.
await_file() {
        await test -s "$1"
}

alive() {
        kill -0 "$1" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

dead() {
        ! alive "$1"
}

# group_gone PGID: no live process is left in the group.
group_gone() {
        ! ps -e -o pgid= -o stat= | awk -v g="$1" '$1 == g && $2 !~ /^Z/ { found = 1 } END { exit !found }'
}

# wait_status PID: its exit status in $code.
wait_status() {
        code=0
        wait "$1" || code=$?
}

# held NAME: somebody holds it.
held() {
        ! "$pawl" run -n -E 77 "$1" true
}

one_sentence() {
        case $errors in
        "pawl: "*) [ "$(printf '%s\n' "$errors" | wc -l)" -eq 1 ] ;;
        *) false ;;
        esac
}
