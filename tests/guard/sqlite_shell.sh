#!/bin/sh
# sqlite_shell.sh EXTENSION SCHEMA DOCUMENT - the shell of SQLite as a stranger: the view, the functions, the table that fences
# itself as the document has it, and the same marks for the command.
. "$TAP_SH"
extension=${1%.so}
schema=$2
document=$3
pawl=$PAWL
db=$scratch/app.db

if ! command -v sqlite3 >/dev/null; then
        skip "missing: sqlite3" "the shell of SQLite shares marks with pawl"
        done_testing
        exit
fi

sql() {
        sqlite3 -bail "$db" "$@"
}
marks() {
        sql "SELECT resource || '=' || token FROM pawl_admit ORDER BY resource" | tr '\n' ' '
}
admit() {
        sql "INSERT INTO pawl_admit(resource, token) VALUES ($1, $2)"
}

# ---- the view ------------------------------------------------------------------------------------------------------------

ok "the tables are made by SQL alone" sql ".read $schema"
ok "and may be made again" sql ".read $schema"
ok "a token is admitted" admit "'r'" 5
ok "an equal one too" admit "'r'" 5
not_ok "a lower one is refused" admit "'r'" 4
like "with a sentence" "$errors" "*pawl: stale token*"
ok "a greater one passes" admit "'r'" 6
is "the view shows the marks" "$(marks)" "r=6 "
ok "the greatest token passes" admit "'max'" 9223372036854775807
not_ok "and refuses its neighbour" admit "'max'" 9223372036854775806

for token in 0 -1 NULL "'7'" "'x'" 7.0 7.5 "x'07'" 9223372036854775808 1e30 "''" "-9223372036854775808"; do
        not_ok "$token is no token" admit "'wrong'" "$token"
        like "and the sentence says so: $token" "$errors" "*pawl: a token is an integer > 0 and < 2^63*"
done
for resource in NULL "''" 7 "x'41'" "printf('%0256d', 1)" "'a' || char(0) || 'b'" "char(0)" "'a' || char(10)" "char(27) || '[2J'" \
        "char(127)" "char(155)"; do
        not_ok "$resource is no resource" admit "$resource" 7
done
for conflict in ABORT FAIL IGNORE REPLACE ROLLBACK; do
        not_ok "OR $conflict lets no lower token pass" sql "INSERT OR $conflict INTO pawl_admit VALUES ('r', 5)"
        not_ok "nor what is no token" sql "INSERT OR $conflict INTO pawl_admit VALUES ('r', '9')"
        not_ok "nor what is no resource" sql "INSERT OR $conflict INTO pawl_admit VALUES (NULL, 9)"
done
is "nothing of this has changed a mark" "$(marks)" "max=9223372036854775807 r=6 "
ok "OR IGNORE raises a mark all the same" sql "INSERT OR IGNORE INTO pawl_admit VALUES ('r', 7)"
ok "OR REPLACE too" sql "INSERT OR REPLACE INTO pawl_admit VALUES ('r', 8)"
is "so it is" "$(marks)" "max=9223372036854775807 r=8 "
not_ok "several at once pass all or not at all" sql "INSERT INTO pawl_admit VALUES ('a', 1), ('r', 7), ('b', 1)"
is "not at all here" "$(marks)" "max=9223372036854775807 r=8 "
name="'''; DROP TABLE pawl_mark; --'"
ok "quotes are part of a name" admit "$name" 3
not_ok "and keep their mark" admit "$name" 2

# ---- transactions --------------------------------------------------------------------------------------------------------

sql "CREATE TABLE plain(x); INSERT INTO plain VALUES ('old')"
not_ok "a stale token stops the transaction" sql \
        "BEGIN IMMEDIATE; UPDATE plain SET x = 'late'; INSERT INTO pawl_admit VALUES ('r', 7); COMMIT"
is "and its writes" "$(sql "SELECT x FROM plain")" old
ok "a fresh one commits" sql \
        "BEGIN IMMEDIATE; INSERT INTO pawl_admit VALUES ('r', 20); UPDATE plain SET x = 'new'; COMMIT"
is "its writes" "$(sql "SELECT x FROM plain")" new
ok "what is rolled back" sql \
        "BEGIN IMMEDIATE; INSERT INTO pawl_admit VALUES ('r', 90); UPDATE plain SET x = 'gone'; ROLLBACK"
is "takes its mark along with its writes" "$(sql "SELECT x, token FROM plain, pawl_admit WHERE resource = 'r'")" "new|20"
ok "so a lower one passes" admit "'r'" 80

# ---- versions ------------------------------------------------------------------------------------------------------------

swap() {
        sql "INSERT INTO pawl_swap(resource, version) VALUES ($1, $2)"
}
version() {
        sql "SELECT version FROM pawl_swap WHERE resource = $1"
}
ok "what was never there is at version 0" swap "'v'" 0
ok "and goes on by one" swap "'v'" 1
is "the view shows it" "$(version "'v'")" 2
for number in 0 1 3 9223372036854775806; do
        not_ok "another version is refused: $number" swap "'v'" $number
        like "with a sentence: $number" "$errors" "*pawl: stale version*"
done
for number in -1 NULL "'2'" 2.0 "x'02'" 9223372036854775807 9223372036854775808; do
        not_ok "$number is no version" swap "'v'" "$number"
done
for resource in NULL "''" 7 "'a' || char(10)"; do
        not_ok "$resource is no resource of a version" swap "$resource" 0
done
for conflict in ABORT FAIL IGNORE REPLACE ROLLBACK; do
        not_ok "OR $conflict lets no other version pass" sql "INSERT OR $conflict INTO pawl_swap VALUES ('v', 1)"
done
not_ok "a stale version stops the transaction" sql \
        "BEGIN IMMEDIATE; UPDATE plain SET x = 'late'; INSERT INTO pawl_swap VALUES ('v', 1); COMMIT"
is "and its writes" "$(sql "SELECT x FROM plain") $(version "'v'")" "new 2"
ok "pawl goes on from it" sh -c "printf three | '$pawl' put --store 'sqlite:$db' --if-version 2 v"
status 124 "and refuses what SQL has overtaken" sh -c "printf late | '$pawl' put --store 'sqlite:$db' --if-version 2 v"
is "one read has both" "$("$pawl" get -V --store "sqlite:$db" v)" "3
three"
sql "DELETE FROM pawl_mark WHERE resource = 'v'; DELETE FROM pawl_data WHERE resource = 'v'"

# ---- with the command ----------------------------------------------------------------------------------------------------

status 124 "pawl refuses what is older than a mark of SQL" "$pawl" fence --store "sqlite:$db" r 79 true
ok "and admits what is not" "$pawl" fence --store "sqlite:$db" r 81 true
not_ok "SQL refuses what is older than a mark of pawl" admit "'r'" 80
ok "data and their mark are one" sh -c "printf data | '$pawl' put --store 'sqlite:$db' r 82"
is "for SQL too" "$(sql "SELECT data, token FROM pawl_data JOIN pawl_admit USING (resource)")" "data|82"

# ---- a table that fences itself, from the document -------------------------------------------------------------------------

awk '/^CREATE TABLE orders/ { on = 1 } /^```/ { on = 0 } on' "$document" >"$scratch/fence.sql"
ok "the document has the triggers" grep -q "CREATE TRIGGER orders_update" "$scratch/fence.sql"
ok "and they are SQL" sql ".read $scratch/fence.sql"
ok "a row comes with its token" sql "INSERT INTO orders(id, total, token) VALUES (42, 1, 30)"
ok "and one with an id that SQLite chooses" sql "INSERT INTO orders(total, token) VALUES (1, 30)"
is "each has its mark" "$(sql "SELECT count(*) FROM pawl_admit WHERE resource IN ('orders/42', 'orders/43')")" 2
ok "a write with a greater token passes" sql "UPDATE orders SET total = 2, token = 34 WHERE id = 42"
ok "the same one may write again" sql "UPDATE orders SET total = 3, token = 34 WHERE id = 42"
not_ok "a late one is refused" sql "UPDATE orders SET total = 9, token = 33 WHERE id = 42"
not_ok "also with OR IGNORE" sql "UPDATE OR IGNORE orders SET total = 9, token = 33 WHERE id = 42"
not_ok "also by REPLACE" sql "REPLACE INTO orders(id, total, token) VALUES (42, 9, 33)"
not_ok "also by an upsert" sql \
        "INSERT INTO orders VALUES (42, 9, 33) ON CONFLICT (id) DO UPDATE SET total = 9, token = excluded.token"
not_ok "without a token nothing is written" sql "UPDATE orders SET total = 9, token = NULL WHERE id = 42"
not_ok "and nothing deleted" sql "DELETE FROM orders WHERE id = 42"
is "the row is the last holder's" "$(sql "SELECT total, token FROM orders WHERE id = 42")" "3|34"
ok "a new holder is a barrier" admit "'orders/42'" 35
not_ok "for writes that do not name their token too" sql "UPDATE orders SET total = 9 WHERE id = 42"

# Row 42 has mark 35, row 43 mark 30: a holder of 32 may write 43, and must not reach 42 through it.
for statement in "UPDATE OR REPLACE orders SET id = 42, token = 32 WHERE id = 43" \
        "UPDATE OR REPLACE orders SET id = 43, token = 32 WHERE id = 42" \
        "INSERT OR REPLACE INTO orders(id, total, token) VALUES (42, 9, 32)" \
        "INSERT OR REPLACE INTO orders(id, total, token) VALUES (43, 9, 31), (42, 9, 32)" \
        "REPLACE INTO orders(rowid, total, token) VALUES (42, 9, 32)" \
        "INSERT INTO orders(id, total, token) VALUES (43, 1, 32) ON CONFLICT (id) DO UPDATE SET id = 42, token = 32"; do
        not_ok "not by $statement" sql "$statement"
        is "and nothing has changed" "$(sql "SELECT id, total, token FROM orders ORDER BY id" | tr '\n' ' ')" "42|3|34 43|1|30 "
done
ok "a row may move with a token that is good for both" sql "UPDATE OR REPLACE orders SET id = 42, token = 36 WHERE id = 43"
is "and stands in the place of the other" "$(sql "SELECT id, total, token FROM orders ORDER BY id")" "42|1|36"
not_ok "its old place is fenced too" sql "INSERT INTO orders(id, total, token) VALUES (43, 9, 35)"

awk '/^CREATE TABLE seats/ { on = 1 } /^```/ { on = 0 } on' "$document" >"$scratch/seats.sql"
sed 's/orders/seats/g; /^CREATE TABLE/d; s/total = NULL/guest = NULL/' "$scratch/fence.sql" >>"$scratch/seats.sql"
ok "the document has a table with a second key" sql ".read $scratch/seats.sql"
ok "rows come with their tokens" sql "INSERT INTO seats VALUES (1, 'A', 'old', 35), (2, 'B', 'old', 30)"
for statement in "INSERT OR REPLACE INTO seats VALUES (3, 'A', 'late', 32)" \
        "INSERT OR REPLACE INTO seats(place, guest, token) VALUES ('A', 'late', 32)" \
        "INSERT OR REPLACE INTO seats VALUES (2, 'A', 'late', 32)" \
        "UPDATE OR REPLACE seats SET place = 'A', token = 32 WHERE id = 2" \
        "UPDATE OR REPLACE seats SET id = 3, place = 'A', token = 32 WHERE id = 2" \
        "INSERT INTO seats VALUES (2, 'C', 'late', 32) ON CONFLICT (id) DO UPDATE SET place = 'A', token = 32"; do
        not_ok "not by $statement" sql "$statement"
        is "and nothing has changed" "$(sql "SELECT id, place, token FROM seats ORDER BY id" | tr '\n' ' ')" "1|A|35 2|B|30 "
done
ok "a place that is free may be taken" sql "UPDATE seats SET place = 'C', token = 32 WHERE id = 2"

# ---- the functions -------------------------------------------------------------------------------------------------------

with() {
        sqlite3 -bail -cmd ".load $extension" "$db" "$@"
}
ok "the extension is loaded" sqlite3 :memory: ".load $extension"
is "pawl_admit admits" "$(with "SELECT pawl_admit('f', 34)")" 34
is "pawl_mark reads" "$(with "SELECT pawl_mark('f')")" 34
is "nothing is known of what never came" "$(with "SELECT pawl_mark('never') IS NULL")" 1
not_ok "a lower token is an error" with "SELECT pawl_admit('f', 33)"
like "that names both" "$errors" "*token 33 is too old for \"f\": 34 has been admitted*"
is "view and function share their name and the mark" \
        "$(with "SELECT pawl_admit('f', 35); SELECT token FROM pawl_admit WHERE resource = 'f'" | tr '\n' ' ')" "35 35 "
for token in 0 -1 NULL "'40'" 40.0 1e30 "x'28'" 9223372036854775808; do
        not_ok "$token is no token for it" with "SELECT pawl_admit('f', $token)"
done
not_ok "a text is not taken for a stale token" with "SELECT pawl_admit('f', '3')"
like "it is no token" "$errors" "*a token is an integer*"
not_ok "nor NULL a resource" with "SELECT pawl_admit(NULL, 40)"
not_ok "nor a number for pawl_mark" with "SELECT pawl_mark(7)"
not_ok "a stale token stops the transaction" with \
        "BEGIN IMMEDIATE; UPDATE plain SET x = 'late'; SELECT pawl_admit('f', 33); COMMIT"
is "and its writes" "$(sql "SELECT x FROM plain")" new
ok "a rollback takes the mark back" with "BEGIN IMMEDIATE; SELECT pawl_admit('f', 90); ROLLBACK"
is "as with the view" "$(with "SELECT pawl_mark('f')")" 35
is "pawl_version of what never came is 0" "$(with "SELECT pawl_version('w')")" 0
is "pawl_swap is the next one" "$(with "SELECT pawl_swap('w', 0), pawl_swap('w', 1)")" "1|2"
is "pawl_version reads it" "$(with "SELECT pawl_version('w')")" 2
not_ok "another version is an error" with "SELECT pawl_swap('w', 1)"
like "that says which it is" "$errors" "*\"w\" is not at version 1 but at 2*"
for number in -1 NULL "'2'" 2.0 9223372036854775807; do
        not_ok "$number is no version for it" with "SELECT pawl_swap('w', $number)"
done
not_ok "nor NULL a resource of a version" with "SELECT pawl_swap(NULL, 0)"
not_ok "nor a number one" with "SELECT pawl_version(7)"
with "CREATE TABLE t(x); CREATE TRIGGER fence AFTER INSERT ON t BEGIN SELECT pawl_admit('t', NEW.x); END"
not_ok "in a trigger it is not used" with "INSERT INTO t VALUES (1)"
sql "UPDATE pawl_floor SET token = 1000"
is "the floor is the version of what has none" "$(with "SELECT pawl_version('never'), pawl_swap('never', 1000)")" "1000|1001"
not_ok "so that it does not begin anew" with "SELECT pawl_swap('nothing', 0)"
not_ok "below the floor nothing unknown passes" with "SELECT pawl_admit('unknown', 999)"
like "and the sentence says why" "$errors" "*the guard was pruned up to 1000*"
not_ok "for the view neither" admit "'unknown'" 999
ok "at the floor it does" admit "'unknown'" 1000
sql "DELETE FROM pawl_floor"
not_ok "without a floor nothing passes" admit "'unknown'" 2000
not_ok "a database without marks is told" sqlite3 -bail -cmd ".load $extension" "$scratch/other.db" "SELECT pawl_admit('r', 1)"
like "by the table that is missing" "$errors" "*no such table*pawl_admit*"
done_testing
