#!/bin/sh
# engines_sql.sh - what `pawl engines --sql postgres` prints, by psql in the database at POSTGRES_URL.
. "${0%/*}/cli.sh"

sql() {
        psql -X -q -A -t -v ON_ERROR_STOP=1 -d "$POSTGRES_URL" "$@"
}
run_script() {
        "$pawl" engines --sql postgres | sql "$@"
}
# What there is, and who may do what with it.
objects() {
        sql -c "SELECT proname, pg_get_function_identity_arguments(oid), proacl FROM pg_proc
                WHERE pronamespace = 'pawl'::regnamespace ORDER BY 1, 2" \
            -c "SELECT relname, relkind, relpersistence, relacl FROM pg_class
                WHERE relnamespace = 'pawl'::regnamespace ORDER BY 1"
}

ok "it is printed" "$pawl" engines --sql postgres
like "as SQL" "$output" "*CREATE*FUNCTION*"
like "with its end" "$output" "*COMMIT;*"
is "and nothing besides" "$errors" ""

ok "psql takes it" run_script
like "without a word of warning" "${errors:-none}" none
before=$(objects)
ok "psql takes it again" run_script
is "and nothing has changed" "$(objects)" "$before"
ok "marks are there" sql -c "SELECT pawl.admit('a', 34)"
not_ok "and refuse what is late" sql -c "SELECT pawl.admit('a', 33)"
ok "a third time" run_script
not_ok "it forgets nothing" sql -c "SELECT pawl.admit('a', 33)"

sql -c "CREATE ROLE anybody LOGIN"
not_ok "who was granted nothing may call nothing" sql -c "SET ROLE anybody" -c "SELECT pawl.admit('a', 35)"
is "PUBLIC has no right on any function" "$(sql -c "SELECT count(*) FROM pg_proc AS p, aclexplode(proacl) AS a
        WHERE p.pronamespace = 'pawl'::regnamespace AND a.grantee = 0")" 0

if [ -n "$(sql -c "SELECT to_regclass('pawl.lock')")" ]; then
        ok "a schema of another name, too" run_script -c "SET pawl.schema = 'elsewhere'" -f -
        is "has the locks" "$(sql -c "SELECT to_regclass('elsewhere.lock') IS NOT NULL")" t
        ok "with which pawl works, who may make none itself" "$pawl" -e "$POSTGRES_URL?create=no&schema=elsewhere" run a -- true
        like "and leaves its row there" "$(sql -c "SELECT name, uid IS NULL FROM elsewhere.lock")" "a|t"
else
        skip "this build has no locks in PostgreSQL" "a schema of another name, too"
fi

status 125 "other stores have nothing to be run" "$pawl" engines --sql local
like "and it says so" "$errors" "*only for postgres*"
status 125 "nor has a whole URL" "$pawl" engines --sql "redis://user:hidden@host?sslpassword=hidden"
like "which is named" "$errors" "pawl: redis://user@host: *"
unlike "without its secrets" "$errors" "*hidden*"
status 125 "nor do those that nobody knows" "$pawl" engines --sql nonsense

done_testing
