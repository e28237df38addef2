#!/bin/sh
# readme.sh - the lines of README.md, as they are written: only paths and process ids are others.
. "${0%/*}/cli.sh"
. "${0%/*}/document.sh"

document README.md
mkdir srv srv/reports
replace="s|/srv/|$scratch/srv/|g"
for name in ./backup.sh ./verify.sh ./report ./scheduler ./send-invoice ./send-mail; do
        program $name
done

# ---- install, and remove: tests/install/deb_test.sh runs these lines where they may change the machine
for number in 1 2; do
        block Install $number >install.sh
        ok "Install: there are lines" test -s install.sh
done

# ---- first steps, in two terminals
run_block "First steps"
like "the first lock has a token" "$output" "held, with token [1-9]*"
block "First steps" 2 | sed 's/^pawl/exec pawl/' >job.sh
sh job.sh 2>said &
job=$!
later $job
ok "a job that takes long holds the lock" await sh -c 'pawl show nightly | grep -q "^holder.*:pawl .*sleep"'
block "First steps" 3 >conflict.sh
status 1 "the same job again is a conflict" sh conflict.sh
is "it is not run" "$output" ""
like "and it is said who holds the lock" "$errors" "pawl: 'nightly' is held by *:$job:pawl (sleep)*"
run_block "First steps" 4
like "the lists show the holder" "$output" "*nightly *exclusive *:$job:pawl*holder *:$job:pawl*sleep*"
block "First steps" 5 | sed "s/kill 4711/kill $job/" >free.sh
ok "the holder is ended, and the next one gets the lock" sh -e free.sh
is "which runs" "$output" "my turn"
wait_status $job
is "the command was ended by the signal" "$code" 143
like "and the former holder is listed" "$(pawl show nightly)" "*past *released*:$job:pawl *sleep*"

# ---- in the shell
run_block "In the shell"
is "what they run is run" "$output" "backup.sh
backup.sh
verify.sh"
is "and the report is written" "$(cat srv/reports/today.txt)" report
block "In the shell" 2 | sed 's/elect/elect -1/' >more.sh
id=7 && export id
ok "elections, keys and rates work" sh -e more.sh
is "and run what they are to run" "$output" "scheduler
send-invoice 7
send-mail"
block "In the shell" 2 | grep '^pawl once' >once.sh
is "a second caller gets the output of the first" "$(sh once.sh)" "send-invoice 7"
is "who did not run" "$(wc -l <send-invoice.ran)" 1

# ---- what other tests run
flags=$(block "In C" | sed -n 's/^cc program.c //p')
ok "In C: the flags are those with which tests/install compiles" grep -qF "\$program\" $flags" "$SOURCE_DIR/tests/install/install_test.sh"
for target in $(block "See it work" | sed -n 's/^make \([a-z]*\) .*/\1/p'); do
        ok "the Makefile has 'make $target'" grep -q "^$target:" "$SOURCE_DIR/Makefile"
done
rows=$(sed -n 's/.*`make bench ROWS=\([0-9,]*\)`.*/\1/p' "$SOURCE_DIR/docs/COMPARISON.md" | head -n 1)
ok "the rows that COMPARISON.md names can be measured" "$SOURCE_DIR/bench/run" --rows "$rows" --check "$BUILD_DIR"
every_block_is_used
done_testing
