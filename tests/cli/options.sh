#!/bin/sh
# options.sh - the command line: options before and behind the words of every command, -e before and behind its name, "--",
# and COMMAND, whose options are its own.
. "${0%/*}/cli.sh"
other=local:$scratch/other
store=file:$scratch/guarded
mkdir "$scratch/guarded"

# ---- behind the name
is "run NAME -n COMMAND" "$("$pawl" run x -n echo ran)" ran
is "run NAME --ttl DUR -- COMMAND" "$("$pawl" run x --ttl 5s -- echo ran)" ran
is "run -n NAME -w DUR COMMAND: both sides" "$("$pawl" run -s x -w 1s echo ran)" ran
is "run NAME -c STRING" "$("$pawl" run x -c 'echo ran')" ran
is "options of COMMAND are its own" "$("$pawl" run x echo end -e --json -- end)" "end -e --json -- end"
is "behind -- too" "$("$pawl" run x -- echo -q)" "-q"
is "a COMMAND that looks like an option" "$("$pawl" run x -- sh -c 'echo "$0"' -q)" "-q"
is "a NAME that looks like an option" "$("$pawl" run -- -x sh -c 'echo "$PAWL_NAME"')" "-x"
is "and one that is --" "$("$pawl" run -- -- sh -c 'echo "$PAWL_NAME"')" "--"
is "-- before NAME and before COMMAND" "$("$pawl" run -- x -- echo -q)" "-q"
is "elect NAME -1 COMMAND" "$("$pawl" elect boss -1 echo ran)" ran
is "once KEY --keep DUR COMMAND" "$("$pawl" once key --keep 1m echo ran)" ran
is "limit NAME --rate N/DUR COMMAND" "$("$pawl" limit rate --rate 9/1s echo ran)" ran
lease=$("$pawl" acquire held --ttl 10m --note behind)
lease=${lease#* }
like "ls PREFIX --json" "$("$pawl" ls held --json)" '\[*behind*\]'
like "show NAME --json" "$("$pawl" show held --json)" '\[*behind*\]'
like "renew LEASE --json" "$("$pawl" renew "$lease" --json)" '{*held*}'
ok "release LEASE -v" "$pawl" release "$lease" -v
status 1 "break NAME -q" "$pawl" break held -q
is "with nothing said" "$errors" ""
ok "put RESOURCE --store STORE TOKEN -- COMMAND" "$pawl" put r --store "$store" 5 -- echo five
ok "put RESOURCE --if-version VERSION -- COMMAND" "$pawl" put counted --if-version 0 --store "$store" -- echo one
is "get RESOURCE -V --store STORE" "$("$pawl" get counted -V --store "$store")" '1
one'
is "get RESOURCE TOKEN --store STORE" "$("$pawl" get r 6 --store "$store")" five
is "fence RESOURCE TOKEN --store STORE COMMAND" "$("$pawl" fence r 7 --store "$store" echo -n ran)" ran
like "marks PREFIX --json --store STORE" "$("$pawl" marks r --json --store "$store")" '*"7"*'
is "forget RESOURCE --store STORE --yes" "$("$pawl" forget r --store "$store" --yes)" 7
like "prune TOKEN --store STORE" "$("$pawl" prune 1 --store "$store")" "[0-9]*"

# ---- -e, in every command
commands=$("$pawl" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
        is "-e before $command" "$("$pawl" -e "$other" "$command" --help)" "$("$pawl" "$command" --help)"
        is "--engine=URL before $command, -q with it" "$("$pawl" -q --engine="$other" "$command" -h)" "$("$pawl" "$command" --help)"
        is "-e behind $command" "$("$pawl" "$command" -e "$other" --help)" "$("$pawl" "$command" --help)"
        like "its help has -e" "$("$pawl" "$command" --help)" "*-e, --engine URL*"
done
is "-e URL ttl" "$("$pawl" -e "$other" ttl --work 1s)" 2s
is "ttl -e URL" "$("$pawl" ttl --work 1s -e "$other")" 2s
ok "-e URL engines" "$pawl" -e "$other" engines
is "run NAME -e URL COMMAND" "$("$pawl" run x -e "$other" sh -c 'echo "${PAWL_URL%\?*}"')" "$other"
is "letters together, the last with its value" "$("$pawl" -qe "$other" run x sh -c 'echo "${PAWL_URL%\?*}"')" "$other"
is "a letter with its value behind others" "$("$pawl" run -qnw1 x sh -c 'echo ran')" ran
is "and with = behind a name" "$("$pawl" run --wait=1s --engine="$other" x sh -c 'echo "${PAWL_URL%\?*}"')" "$other"
is "-- before the command" "$("$pawl" -- run x echo ran)" ran
is "--json before the command" "$("$pawl" --json ls nothing)" "[]"
like "--help behind -e" "$("$pawl" -e "$other" --help)" "usage: pawl *"
like "--version behind -q" "$("$pawl" -q --version)" "pawl *"

# Behind COMMAND's first word everything is its own, whatever it looks like.
for command in run elect once limit; do
        more=
        [ $command != elect ] || more=-1
        [ $command != limit ] || more="--rate 9/1s"
        # shellcheck disable=SC2086
        is "$command leaves COMMAND its options" "$("$pawl" $command $more "own-$command" echo x -e --help --json -h)" "x -e --help --json -h"
done

# ---- wrong
for words in "run x -Z true" "run x --nonsense true" "ls a b --json" "show --json" "ttl 5 --work 1s" "put r 5 6 --store $store" \
        "put --if-version 0 r 5 --store $store" "put r --store $store" "fence r 5 --store $store" "--nonblock ttl --work 1s" \
        "elect boss --who true" "limit x --rate 1/s --json true" "-e" "-q" "help run extra" "help --json" "version 1" \
        "run -qn5 x true" "run -w" "--quiet=yes ls" "completion" "completion tcsh" "completion bash -- run"; do
        # shellcheck disable=SC2086
        status 125 "$words" "$pawl" $words </dev/null
        ok "... in one sentence" one_sentence
done

# ---- what the help says is what the documents say
like "init is for ZooKeeper and etcd too" "$("$pawl" init --help)" "*zk://*etcd://*restored*"
unlike "and not for redlock alone" "$("$pawl" init --help)" "*Only redlock*"
like "ttl is about work that is not renewed" "$("$pawl" ttl --help)" "*without renewal*"

# ---- help, version, near misses
is "pawl help is pawl --help" "$("$pawl" help)" "$("$pawl" --help)"
for command in $("$pawl" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        is "pawl help $command is pawl $command --help" "$("$pawl" help "$command")" "$("$pawl" "$command" --help)"
done
is "pawl --help run" "$("$pawl" --help run)" "$("$pawl" run --help)"
is "pawl -h" "$("$pawl" -h)" "$("$pawl" --help)"
is "pawl -e URL help run" "$("$pawl" -e "$other" help run)" "$("$pawl" run --help)"
is "pawl help -q run" "$("$pawl" help -q run)" "$("$pawl" run --help)"
is "pawl help -- run" "$("$pawl" help -- run)" "$("$pawl" run --help)"
is "pawl version is pawl --version" "$("$pawl" version)" "$("$pawl" --version)"
status 125 "a command that is nearly one" "$pawl" aquire x
is "is asked about" "$errors" "pawl: there is no command 'aquire'; did you mean 'acquire'?"
status 125 "a URL where the command stands" "$pawl" redis://user:secret@127.0.0.1:1/ ls
unlike "is said without its password" "$errors" "*secret*"
like "and is no command" "$errors" "pawl: there is no command 'redis://*127.0.0.1:1/'*"
status 125 "help knows near misses" "$pawl" help rnu
is "too" "$errors" "pawl: there is no command 'rnu'; did you mean 'run'?"
status 125 "help and version are commands as well" "$pawl" verson
is "and near" "$errors" "pawl: there is no command 'verson'; did you mean 'version'?"
status 125 "one that is far from all" "$pawl" unlock x
is "is not" "$errors" "pawl: there is no command 'unlock'; 'pawl --help' lists them"
status 125 "an option that is nearly one" "$pawl" run --nonblok x true
is "is asked about" "$errors" "pawl: run has no option --nonblok (did you mean --nonblock?); see 'pawl run --help'"
status 125 "with a value" "$pawl" run --wiat=5s x true
like "too" "$errors" "*did you mean --wait?*"
status 125 "also one that all commands have" "$pawl" ls --quit
like "is near" "$errors" "*did you mean --quiet?*"
status 125 "one dash too few" "$pawl" run -ttl 5s x true
is "is seen" "$errors" "pawl: run has no option -t (did you mean --ttl?); see 'pawl run --help'"
status 125 "a letter that is none" "$pawl" run -qZ x true
is "is like no name" "$errors" "pawl: run has no option -Z; see 'pawl run --help'"
status 125 "--json, where there is none" "$pawl" run --json x true
unlike "is not suggested" "$errors" "*did you mean*"
done_testing
