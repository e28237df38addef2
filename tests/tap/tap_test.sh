#!/bin/sh
# tap_test.sh BROKEN - the harness reports what it should: BROKEN fails in every way a test can.
. "$TAP_SH"
unset TAP_PATIENCE TAP_CASE # of the run that this is part of
broken=$1

# says TEST PATTERN: running that test alone prints something like it.
says() {
        capture "$broken" "$1"
        like "$1: says $(printf '%s' "$2" | tr -d '#\n')" "$output" "*$2*"
}

says passes "ok 1 - passes"
is "passes: exits 0" "$code" 0
says fails_with_integers "not ok 1 - fails_with_integers"
is "fails_with_integers: exits 1" "$code" 1
says fails_with_integers "#   expected: 42
#   actual:   41"
says fails_with_integers "failed: 41 > 42
#   expected: > 42
#   actual:   41"
says fails_with_integers "tap_broken.c:"
says fails_with_strings '#   expected: "right"
#   actual:   "left"'
says fails_with_strings '#   expected: "right"
#   actual:   NULL'
says fails_with_memory "expected: 0x64 as byte 2 of 3, counted from 0
#   actual:   0x63"
says fails_with_memory 'expected: text that contains "needle"
#   actual:   "haystack"'
says fails_with_memory "expected: NULL
#   actual:   0x"
says fails_and_goes_on "reached"
says fails_and_goes_on "not ok 1"
says fails_and_ends "not ok 1"
like "fails_and_ends: shows the condition as it was written" "$output" "*failed: ANSWER == 2*"
unlike "fails_and_ends: does not go on" "$output" "*not reached*"
says crashes "killed by signal 11"
says crashes "not ok 1 - crashes"
says hangs "stopped at its time limit of 1 s, [0-9]*.[0-9] s after it began
#   it had not begun any check"
says hangs_in_a_check "it was still in the check it began [0-9]*.[0-9] s earlier: tests/tap/tap_broken.c:[0-9]*: pause()"
says hangs_after_a_check "its last check was complete [0-9]*.[0-9] s earlier: tests/tap/tap_broken.c:[0-9]*: tap_name()"
says exits "exited with status 3"
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

says shows_a_meeting_of_holders '# who held lock "0" around that time'
says shows_a_meeting_of_holders "
#    1299.000000    1300.000000    1302.000000    1302.001000              1300      0    130  exclusive
#    1300.000000    1301.000000    1305.000000    1305.001000              1301      2      1  exclusive  <- worker 0 still held it
#    1309.000000    1310."
says shows_a_meeting_of_holders "    7      2      1  exclusive  <- the token did not grow"
says shows_a_meeting_of_holders "ok 1"
says shows_one_holder_too_many "   12      2      1  shared  <- one holder more than 2"

capture "$broken" 'fails_*'
like "a prefix selects" "$output" "*1..7*"
status 1 "an unknown name is a failure" "$broken" no_such_test
status 2 "an unknown option is a usage error" "$broken" --nonsense
capture "$broken" --no-fork passes fails_and_ends skips
like "--no-fork runs all in one process" "$output" "*ok 1 - passes*not ok 2 - fails_and_ends*ok 3 - skips # SKIP*"
is "--list lists them" "$("$broken" --list | grep -c .)" 18

# shows WHAT PATTERN CHECK...: a shell test whose check fails prints something like it.
shows() {
        tap_what=$1
        tap_pattern=$2
        shift 2
        capture sh -c '. "$TAP_SH"; "$@"; done_testing' sh "$@"
        like "tap.sh: $tap_what" "$output" "*not ok 1 - a sentence
$tap_pattern*"
}

shows "ok shows the status, the command and what it wrote" "#   expected: status 0
#   actual:   status 2
# command: sh -c echo no >&2; exit 2
# stderr: no" ok "a sentence" sh -c "echo no >&2; exit 2"
shows "not_ok" "#   expected: a status other than 0
#   actual:   status 0" not_ok "a sentence" true
shows "status" "#   expected: status 7
#   actual:   status 0" status 7 "a sentence" true
shows "is" "#   expected: right
#   actual:   left" is "a sentence" left right
shows "like" "#   expected: text that matches [*]right[*]
#   actual:   left" like "a sentence" left "*right*"
shows "unlike" "#   expected: text that does not match [*]ef[*]
#   actual:   left" unlike "a sentence" left "*ef*"

capture env PYTHONPATH="${TAP_SH%/*}" python3 -c '
import tap
tap.equal("equal numbers", 1, 1)
tap.equal("other numbers", 1, 2)
tap.check("a condition", False, "seen")
tap.finish()'
like "tap.py shows what was expected and what there was" "$output" "ok 1 - equal numbers
not ok 2 - other numbers
#   expected: 2
#   actual:   1
not ok 3 - a condition
#   actual:   'seen'
1..3"
is "tap.py: exits 1" "$code" 1

TAP_PATIENCE=2 capture "$1" hangs
like "TAP_PATIENCE multiplies the limit of a test" "$output" "*stopped at its time limit of 2 s*"
TAP_CASE=passes capture "$1"
is "TAP_CASE names the only test that runs" "$output" "TAP version 13
1..1
ok 1 - passes"
done_testing
