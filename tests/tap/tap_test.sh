#!/bin/sh
# tap_test.sh BROKEN - the harness reports what it should: BROKEN fails in every way a test can.
. "$TAP_SH"
broken=$1

# says TEST PATTERN: running that test alone prints something like it.
says() {
        capture "$broken" "$1"
        like "$1: says ${2%%#*}" "$output" "*$2*"
}

says passes "ok 1 - passes"
is "passes: exits 0" "$code" 0
says fails_with_integers "not ok 1 - fails_with_integers"
is "fails_with_integers: exits 1" "$code" 1
says fails_with_integers "actual: 41, expected: 42"
says fails_with_integers "tap_broken.c:"
says fails_with_strings 'expected: "right"'
says fails_with_strings 'actual: NULL'
says fails_and_goes_on "reached"
says fails_and_goes_on "not ok 1"
says fails_and_ends "not ok 1"
unlike "fails_and_ends: does not go on" "$output" "*not reached*"
says crashes "killed by signal 11"
says crashes "not ok 1 - crashes"
says hangs "not done in 1 s"
says exits "exited with 3"
says skips "ok 1 - skips # SKIP there is no moon"
says fails_in_a_child "not ok 1"
says fails_on_a_thread "not ok 1"

says leaves_a_directory "not ok 1"
directory=$(printf '%s\n' "$output" | sed -n 's/^# directory //p')
not_ok "leaves_a_directory: which is removed" test -e "$directory"

says leaves_a_process "ok 1"
pid=$(printf '%s\n' "$output" | sed -n 's/^# process //p')
gone() { ! kill -0 "$pid" 2>/dev/null; }
eventually "leaves_a_process: which is ended" gone

capture "$broken" 'fails_*'
like "a prefix selects" "$output" "*1..6*"
status 1 "an unknown name is a failure" "$broken" no_such_test
status 2 "an unknown option is a usage error" "$broken" --nonsense
capture "$broken" --no-fork passes fails_and_ends skips
like "--no-fork runs all in one process" "$output" "*ok 1 - passes*not ok 2 - fails_and_ends*ok 3 - skips # SKIP*"
is "--list lists them" "$("$broken" --list | grep -c .)" 13
done_testing
