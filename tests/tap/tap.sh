# tap.sh - TAP for shell tests. Source it; every check is a sentence; end with done_testing.
#
#       . "$TAP_SH"
#       ok "a free lock is taken" "$PAWL" run x true
#       not_ok "a held one is not" "$PAWL" run --no-wait x true
#       status 125 "an unknown option is a usage error" "$PAWL" run --nonsense x true
#       is "the token is printed" "$("$PAWL" acquire x)" 7
#       like "the message names the lock" "$message" "*orders/42*"
#       skip "why" "sentence"
#       done_testing
#
# After ok, not_ok and status: $output and $errors hold what the command wrote, $code its status.
# $scratch is a fresh directory, removed at the end with every process that was given to `later PID`.

tap_count=0
tap_failed=0
tap_pids=
tap_at_end=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/pawl-test.XXXXXX") || exit 99
echo "TAP version 13"

tap_cleanup() {
        [ -z "$tap_at_end" ] || eval "$tap_at_end"
        for tap_pid in $tap_pids; do
                kill -KILL "$tap_pid" 2>/dev/null
        done
        rm -rf "$scratch"
}
trap tap_cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await COMMAND...: until it succeeds; false after 20 s.
await() {
        await_tries=0
        until "$@" >"$scratch/.await" 2>&1; do
                await_tries=$((await_tries + 1))
                [ $await_tries -lt 400 ] || return 1
                sleep 0.05
        done
}

# later PID: kill it when the test ends, however it ends.
later() {
        tap_pids="$tap_pids $1"
}

# at_end COMMAND WORD...: run it when the test ends, however it ends. Words without quotes in them.
at_end() {
        for tap_word in "$@"; do
                tap_at_end="$tap_at_end '$tap_word'"
        done
        tap_at_end="$tap_at_end >/dev/null 2>&1;"
}

note() {
        printf '%s\n' "$*" | sed 's/^/# /'
}

pass() {
        tap_count=$((tap_count + 1))
        echo "ok $tap_count - $1"
}

fail() {
        tap_count=$((tap_count + 1))
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $1"
        shift
        [ $# -eq 0 ] || note "$@"
}

# skip WHY SENTENCE. "missing: ..." for a server or an engine that should be there.
skip() {
        tap_count=$((tap_count + 1))
        echo "ok $tap_count - $2 # SKIP $1"
}

# Runs a command, keeping what it wrote and its status.
capture() {
        code=0
        "$@" >"$scratch/.output" 2>"$scratch/.errors" || code=$?
        output=$(cat "$scratch/.output")
        errors=$(cat "$scratch/.errors")
}

# tap_difference EXPECTED ACTUAL
tap_difference() {
        note "  expected: $1"
        note "  actual:   $2"
}

# tap_show EXPECTED COMMAND...: the status that was expected, and what the command did.
tap_show() {
        tap_difference "$1" "status $code"
        shift
        note "command: $*"
        [ -z "$output" ] || note "stdout: $output"
        [ -z "$errors" ] || note "stderr: $errors"
}

ok() {
        tap_sentence=$1
        shift
        capture "$@"
        if [ "$code" -eq 0 ]; then
                pass "$tap_sentence"
        else
                fail "$tap_sentence"
                tap_show "status 0" "$@"
        fi
}

not_ok() {
        tap_sentence=$1
        shift
        capture "$@"
        if [ "$code" -ne 0 ]; then
                pass "$tap_sentence"
        else
                fail "$tap_sentence"
                tap_show "a status other than 0" "$@"
        fi
}

# status EXPECTED SENTENCE COMMAND...
status() {
        tap_expected=$1
        tap_sentence=$2
        shift 2
        capture "$@"
        if [ "$code" -eq "$tap_expected" ]; then
                pass "$tap_sentence"
        else
                fail "$tap_sentence"
                tap_show "status $tap_expected" "$@"
        fi
}

# is SENTENCE ACTUAL EXPECTED
is() {
        if [ "$2" = "$3" ]; then
                pass "$1"
        else
                fail "$1"
                tap_difference "$3" "$2"
        fi
}

# like SENTENCE ACTUAL PATTERN (of case)
like() {
        case $2 in
        $3) pass "$1" ;;
        *)
                fail "$1"
                tap_difference "text that matches $3" "$2"
                ;;
        esac
}

unlike() {
        case $2 in
        $3)
                fail "$1"
                tap_difference "text that does not match $3" "$2"
                ;;
        *) pass "$1" ;;
        esac
}

# eventually SENTENCE COMMAND...: true within 10 s.
eventually() {
        tap_sentence=$1
        shift
        tap_tries=0
        while [ $tap_tries -lt 200 ]; do
                capture "$@"
                if [ "$code" -eq 0 ]; then
                        pass "$tap_sentence"
                        return
                fi
                sleep 0.05
                tap_tries=$((tap_tries + 1))
        done
        fail "$tap_sentence"
        tap_show "status 0 within 10 s" "$@"
}

done_testing() {
        echo "1..$tap_count"
        [ "$tap_failed" -eq 0 ]
        exit
}
