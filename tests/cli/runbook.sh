#!/bin/sh
# runbook.sh - the lines of docs/RUNBOOK.md, as they stand there: only paths are others.
. "${0%/*}/cli.sh"

document=$SOURCE_DIR/docs/RUNBOOK.md
mkdir "$scratch/bin" "$scratch/reports"
ln -s "$pawl" "$scratch/bin/pawl"
PATH=$scratch/bin:$PATH
export PATH
cd "$scratch" || exit 99

# block HEADING: its first lines of shell.
block() {
        awk -v heading="$1" '
                /^## / && !inside { here = $0 == "## " heading }
                /^```$/ && inside { exit }
                inside
                here && $0 == "```sh" { inside = 1 }' "$document" | sed "s|/srv/|$scratch/|; s|TOKEN|${token:-}|"
}

# run_block HEADING: what its lines print, each of which must succeed.
run_block() {
        block "$1" >block.sh
        ok "$1: there are lines" test -s block.sh
        ok "$1: each of them succeeds" sh -e block.sh
}

"$pawl" run --ttl 1h nightly -- sh -c 'echo >began; exec sleep 600' 2>lost &
holder=$!
ok "a job holds the lock" await_file began
"$pawl" run -n nightly true
is "status 1: the lock was held" $? 1

run_block "Is the store well?"
run_block "Who holds the lock?"
like "the holder is shown with what it runs" "$output" "*holder*exclusive*:pawl*sh*"

token=$("$pawl" show nightly | awk '$1 == "holder" { print $3 }')
run_block "Free a lock by force"
like "the former holder is listed" "$output" "*past*$token*broken by *:pawl (host db3 is gone, ticket 4711) at *"
wait_status $holder
is "its pawl run ends with 123" "$code" 123
like "and says why" "$(cat lost)" "*'nightly' was lost: broken*was broken by *:pawl (host db3 is gone, ticket 4711)"
status 0 "the next one gets it" "$pawl" run -w 20s nightly true

ok "a guard has seen a token" sh -c 'echo new | pawl put --store file:reports today.txt 1000'
status 124 "a smaller one is refused" sh -c 'echo moved | pawl put --store file:reports today.txt 34'
block "A guard refuses everything" >block.sh
is "without --yes nothing is forgotten" "$(sed -n '1,2p' block.sh | sh >said 2>&1; echo $?)" 125
like "and it says what would be" "$(cat said)" "*1000*"
ok "with --yes it is" sh -c "$(sed -n 3p block.sh)"
ok "then a token of the other store passes" sh -c 'echo moved | pawl put --store file:reports today.txt 34'
is "and its bytes are there" "$(cat reports/today.txt)" moved

"$pawl" -e redis://127.0.0.1:1 run -w 1s nightly true 2>said
is "status 125: no store" $? 125
done_testing
