#!/bin/sh
# quick_test.sh - the benchmark runs: a local row and one for each kind of server, in a moment and without a meaning.
. "$TAP_SH"
run=$(dirname "$0")/run
servers=$(dirname "$0")/../tests/servers/servers

if ! command -v redis-server >/dev/null; then
        skip "missing: redis-server" "the rows of Redis run"
        done_testing
fi

# column NUMBER PATTERN: of the first line whose row and words fit.
column() {
        awk -F '\t' -v n="$1" -v pattern="$2" '$1 "\t" $2 ~ pattern { print $n; exit }' "$BUILD_DIR/bench-quick.tsv"
}

ok "rows 2 and 3 run" "$run" --rows 2,3 --quick "$BUILD_DIR"
like "they say on which machine and when" "$output" "*date*machine*versions*peers*"
like "row 2 has a floor" "$(column 3 '^2')" "[1-9]*"
like "row 2 has a ratio" "$(column 6 '^2')" "[0-9]*"
like "row 3 has a floor" "$(column 3 '^3')" "[1-9]*"
is "row 3 has its target" "$(column 7 '^3')" "<= 1.08"
like "row 3 has a figure of pawl's, or says that it has none" "$(column 5 '^3')" "[-1-9]*"

# pair ROW SERVER FILE TARGET: the row of a store that may not be installed, or whose floor's library may not be.
pair() {
        if ! "$servers" have "$2" || [ ! -e "$BUILD_DIR/bench/$3" ]; then
                skip "missing: $2, or what row $1 is built with" "row $1 runs"
                return
        fi
        ok "row $1 runs" "$run" --rows "$1" --quick "$BUILD_DIR"
        like "row $1 has a floor" "$(column 3 "^$1")" "[1-9]*"
        is "row $1 has its target" "$(column 7 "^$1")" "$4"
        like "row $1 has a figure of pawl's, or says that it has none" "$(column 5 "^$1")" "[-1-9]*"
}
pair 8 zookeeper row_08_zk_pair '<= 1.05'
pair 10 etcd row_10_etcd_pair '<= 1.05'
pair 12 postgres row_12_pg_pair '<= 1.30'
done_testing
