#!/bin/sh
# run_test.sh - bench/run with rows that are made up: what it does with those that are missing, skip or fail, and its progress.
# It measures nothing.
. "$TAP_SH"
run=$(dirname "$0")/run
build=$scratch/build
mkdir -p "$build/bench"

# program NAME: its text is read from stdin.
program() {
        { echo '#!/bin/sh'; cat; } >"$build/bench/$1"
        chmod 755 "$build/bench/$1"
}
line() {
        printf "echo '%s\tmade up\t-\t-\t1\t-\t-\t-'\n" "$1"
}
echo 'echo 0.0' | program version
line 1 | program row_01_local_pair
{ line 2; echo 'echo "no such luck" >&2; exit 3'; } | program row_02_broken
echo 'echo "skipped: needs the server moon" >&2; exit 77' | program row_03_no_server
{ line 4; echo 'echo "skipped: needs 2 core(s)" >&2; exit 77'; } | program row_04_one_core
line 8 | program row_08_left_behind
line 17 | program row_17_start
printf '%s\n' 'row_08_left_behind libmoon-dev' 'row_09_other libmoon-dev' >"$build/bench/not_built"

rows() {
        cut -f 1 "$build/bench-quick.tsv" | paste -s -d ' '
}

status 1 "a run in which a row failed says so by its status" "$run" --quick "$build"
like "the row that failed is reported" "$errors" "*row 2: failed: exit status 3 (row_02_broken)*"
like "and what it wrote is shown" "$errors" "*no such luck*"
is "the rows after it ran; what was measured is in the table" "$(rows)" "row 1 2 4 17"
like "a row that is not built is skipped with its reason" "$errors" \
        "*row 8: skipped: needs libmoon-dev*row 9: skipped: needs libmoon-dev*"
like "a row without its server is skipped with its reason" "$errors" "*row 3: skipped: needs the server moon*"
like "a row can be skipped in part" "$errors" "*row 4: skipped in part: needs 2 core(s)*"
like "progress: which row of how many, and what it measures" "$errors" \
        "*row 1 (1 of 5), [0-9]*:[0-9][0-9] so far: one uncontended acquire and release on the local engine*row 17 (5 of 5)*"
unlike "nothing of that is on stdout" "$output" "*(1 of 5)*"
like "skipped and failed rows are in the report" "$(cat "$build/bench-quick.txt")" "*row 8: skipped*row 2: failed*"

ok "a skipped row does not spoil the others" "$run" --rows 8,17 --quick "$build"
like "time left is known from the last run" "$errors" "*row 17 (1 of 1), [0-9]*:[0-9][0-9] so far, about [0-9]*:[0-9][0-9] left: from nothing*"
is "only the other is in the table" "$(rows)" "row 17"
status 1 "if no row is built the status says so" "$run" --rows 8 --quick "$build"
like "with the reason" "$errors" "*row 8: skipped: needs libmoon-dev*no row can run*"
status 1 "if the only row skips the status says so" "$run" --rows 3 --quick "$build"
status 2 "a row that does not exist is a usage error" "$run" --rows 1,99 --quick "$build"
like "which lists the rows" "$errors" "*no row 99; rows: 1,2,3,4,8,9,17*"
status 2 "also before anything was built" "$run" --rows 1,99 --check "$scratch/nowhere"
like "with the rows that could be" "$errors" "*no row 99; rows: 1,2,3,*,17*"
ok "and one that could be is fine" "$run" --rows 1,17 --check "$scratch/nowhere"
status 2 "make bench asks that first" make -C "$SOURCE_DIR" bench ROWS=99 BUILD="$scratch/nowhere"
not_ok "and builds nothing" test -e "$scratch/nowhere"

if command -v script >/dev/null; then
        seen=$(script -qec "'$run' --rows 1,17 --quick '$build' >'$scratch/stdout'" /dev/null </dev/null)
        erase=$(printf '\r\033[K')
        like "on a terminal progress is drawn in place" "$seen" "*${erase}row 1 (1 of 2)*${erase}row 17 (2 of 2)*$erase"
        is "in a single line" "$(printf '%s' "$seen" | grep -c .)" 1
else
        skip "missing: script" "on a terminal progress is drawn in place"
fi
done_testing
