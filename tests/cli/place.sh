#!/bin/sh
# place.sh WHERE - where state is: which directory local: uses, that the command and the library mean the same one, that children
# find it from anywhere, and that what only reads makes nothing. WHERE is a program that says what the library takes for local:.
. "${0%/*}/cli.sh"

where=$(realpath "$1")
mkdir "$scratch/elsewhere"

# ---- the directory of local:
# The words differ if it is there or not; the path does not.
default=$("$pawl" doctor -e local: | grep -o '/[^ ,?]*pawl' | head -n 1)
like "doctor names the directory of local:" "$default" "/*/pawl"
is "without -e and PAWL_URL it is that one" "$(unset PAWL_URL && "$pawl" doctor | grep -o '/[^ ,?]*pawl' | head -n 1)" "$default"
is "and with an empty PAWL_URL" "$(PAWL_URL='' "$pawl" doctor | grep -o '/[^ ,?]*pawl' | head -n 1)" "$default"
is "whatever HOME and XDG_STATE_HOME say" \
        "$(HOME=$scratch/elsewhere XDG_STATE_HOME=$scratch/elsewhere "$pawl" doctor -e local: | grep -o '/[^ ,?]*pawl' | head -n 1)" \
        "$default"
like "the library means the same one" "$("$where")" "*$default*"
like "with another HOME, too" "$(HOME=$scratch/elsewhere XDG_STATE_HOME=$scratch/elsewhere "$where")" "*$default*"
case $(id -u) in
0) is "which is that of root" "$default" /var/lib/pawl ;;
*) is "which is in the home directory of the user database" "$default" \
        "$(getent passwd "$(id -u)" | cut -d: -f6)/.local/state/pawl" ;;
esac

# ---- what children are given
is "PAWL_URL of a child is absolute" \
        "$(cd "$scratch" && "$pawl" run -e local:here x sh -c 'cd elsewhere && "$0" run -n -E 77 x true; echo $?' "$pawl" 2>&1 | tail -n 1)" 77
for command in "run x" "elect -1 x" "once key" "limit --rate 9/1s x"; do
        # shellcheck disable=SC2086
        is "that of $command, too" "$(cd "$scratch" && "$pawl" -e local:here $command -- sh -c 'echo "$PAWL_URL"')" \
                "local:$(realpath "$scratch")/here"
done

# ---- what only reads makes nothing
none=$scratch/none
mkdir "$none"
# makes_nothing STATUS COMMAND...
makes_nothing() {
        expected=$1
        shift
        status "$expected" "without a store: pawl $*" "$pawl" "$@" -e "local:$none/locks"
        is "which makes nothing" "$(ls -A "$none")" ""
}
makes_nothing 0 ls
makes_nothing 1 show x
makes_nothing 0 top --count 1
makes_nothing 0 doctor
like "doctor says where it would be" "$output" "*there are no locks in $none/locks: *"
makes_nothing 1 elect --who x
makes_nothing 1 once --look key
makes_nothing 1 ask x
"$pawl" -e "local:$none/locks" elect --every 50ms --observe x >"$scratch/leaders" &
observer=$!
later $observer
ok "elect --observe shows that nobody leads" await_file "$scratch/leaders"
is "and makes nothing" "$(ls -A "$none")" ""
ok "a store is made" "$pawl" -e "local:$none/locks" elect -1 x sh -c 'await=0
        until grep -q pawl "$0"; do await=$((await + 1)); [ $await -lt 400 ] || exit 1; sleep 0.05; done' "$scratch/leaders"
like "whose leader it has seen" "$(tr '\n' ' ' <"$scratch/leaders")" "- [1-9]*:pawl *"
kill $observer
rm -r "$none"

if "$pawl" doctor --store "sqlite:$scratch/none.db" >"$scratch/doctor"; then
        mkdir "$none"
        # guard_makes_nothing STATUS COMMAND...
        guard_makes_nothing() {
                expected=$1
                shift
                status "$expected" "without a database: pawl $*" "$pawl" "$@" --store "sqlite:$none/app.db"
                is "which makes nothing" "$(ls -A "$none")" ""
        }
        guard_makes_nothing 0 marks
        guard_makes_nothing 0 marks --json
        is "the list is empty" "$output" "[]"
        guard_makes_nothing 1 get x
        guard_makes_nothing 1 get -V x
        is "its version is 0" "$output" 0
        guard_makes_nothing 0 doctor
        like "and says so" "$output" "advice *no database yet*"
        status 0 "a STORE with a password, which is not there yet" "$pawl" doctor --store "sqlite://user:hidden@$none/app.db"
        like "is named without it" "$output" "advice *sqlite://user@$none/app.db: *"
        unlike "everywhere" "$output$errors" "*hidden*"
        ok "a write makes it" sh -c 'echo new | "$0" put --store "sqlite:$1/app.db" --if-version 0 x' "$pawl" "$none"
        is "and it is read then" "$("$pawl" get --store "sqlite:$none/app.db" x)" new
else
        skip "missing: libsqlite3-dev" "a guard that is only read is not made"
fi
done_testing
