#!/bin/sh
# fencing.sh SERVER - the lines of docs/FENCING.md, as they stand there: only hosts, paths and the token are others. SERVER is the
# example server of HTTP. Redis and PostgreSQL are at REDIS_URL and POSTGRES_URL.
. "${0%/*}/cli.sh"

server=$(realpath "$1")
document=$SOURCE_DIR/docs/FENCING.md
mkdir "$scratch/bin" "$scratch/shop" "$scratch/reports"
ln -s "$pawl" "$scratch/bin/pawl"
PATH=$scratch/bin:$PATH
export PATH
cd "$scratch" || exit 99

# block HEADING LANGUAGE: the first one of the language below the heading.
block() {
        awk -v heading="$1" -v fence="\`\`\`$2" '
                /^#+ / && !inside { here = $0 ~ "^#+ " heading "$" }
                /^```$/ && inside { exit }
                inside
                here && $0 == fence { inside = 1 }' "$document" |
                sed "s|/srv/|$scratch/|; s|/usr/local/share/pawl/redis|$BUILD_DIR/src/guard/redis|; s|127.0.0.1:8087|${http:-}|"
}

# ---- the shell, and files
block "What pawl has for it" sh >count.sh
ok "a counter goes up" sh count.sh
ok "and again" sh count.sh
is "by two" "$(cat shop/stock)" 2
printf '#!/bin/sh\necho fine\n' >report
chmod +x report
block Files sh >files.sh
is "a report is written and read" "$(PAWL_TOKEN=5 sh files.sh)" fine
status 124 "by an older holder it is not" sh -c 'echo late | pawl put --store file:reports today.txt 4'

# ---- SQL: admitted, then an older token
# sql_block HEADING COMMAND...: the block with token 34, then with token 33.
sql_block() {
        heading=$1
        shift
        block "$heading" sql >block.sql
        like "$heading: there are lines" "$(cat block.sql)" "*admit*34*UPDATE*"
        ok "$heading: they work" "$@" <block.sql
        sed -i 's/34/33/; s/total = 12/total = 13/' block.sql
        not_ok "$heading: not with an older token" "$@" <block.sql
        like "$heading: which is told" "$errors" "*has been admitted*"
}
orders="CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER); INSERT INTO orders VALUES (42, 1);"
if command -v sqlite3 >/dev/null; then
        ok "SQLite: the guard makes its tables" pawl fence --store sqlite:shop/app.db orders/42 1 true
        sqlite3 shop/app.db "$orders"
        sql_block SQLite sqlite3 -bail shop/app.db
        is "SQLite: the newer holder's total stands" "$(sqlite3 shop/app.db 'SELECT total FROM orders')" 12
else
        skip "missing: sqlite3" "SQLite: the lines of the document work"
fi
ok "PostgreSQL: the guard makes its tables" pawl fence --store "$POSTGRES_URL" orders/42 1 true
psql -qc "$orders" "$POSTGRES_URL"
sql_block PostgreSQL psql -q -v ON_ERROR_STOP=1 "$POSTGRES_URL"
is "PostgreSQL: the newer holder's total stands" "$(psql -qAtc 'SELECT total FROM orders' "$POSTGRES_URL")" 12

# ---- Redis
redis_cli=$(command -v redis-cli)
printf '#!/bin/sh\nexec %s -u %s -e "$@"\n' "$redis_cli" "$REDIS_URL" >bin/redis-cli
chmod +x bin/redis-cli
block Redis sh >redis.sh
case $(redis-cli INFO server) in
*redis_version:[3-6].*) skip "this Redis has no functions" "Redis: the lines work" ;;
*)
        ok "Redis: the lines work" sh -e redis.sh
        is "Redis: the value is there" "$(pawl get --store "$REDIS_URL" orders 34)" VALUE
        is "Redis: and the command was run" "$(redis-cli HGET data:cart apples)" 2
        sed -i 's/34/33/' redis.sh
        not_ok "Redis: not with an older token" sh -e redis.sh
        like "Redis: which is told" "$output$errors" "*STALE*"
        ;;
esac

# ---- HTTP
mkdir web
"$server" --port 0 "file:$scratch/web" >served &
later $!
await_file served
http=$(sed 's|.*http://\([^/ ]*\).*|\1|' served)
echo '{"total": 12}' >order.json
block HTTP sh >http.sh
PAWL_TOKEN=34
export PAWL_TOKEN
is "HTTP: what curl has sent pawl reads" "$(sh -e http.sh)" '{"total": 12}'
PAWL_TOKEN=33
not_ok "HTTP: not with an older token" sh -e http.sh
like "HTTP: which is 412" "$errors" "*412*"

# ---- pruning, two nights
PAWL_STORE=file:$scratch/reports
export PAWL_STORE
block Pruning sh >night.sh
is "the first night forgets nothing" "$(sh night.sh)" ""
is "the second forgets what is older" "$(sh night.sh)" 1
ok "a new holder passes" pawl run x sh -c 'pawl fence today.txt "$PAWL_TOKEN" true'
status 124 "an old one does not" pawl fence another 5 true
done_testing
