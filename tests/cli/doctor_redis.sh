#!/bin/sh
# doctor_redis.sh - `pawl doctor` and Redis servers that are set up wrongly on purpose: each finding is there, and gone when
# exactly the command was run that it prints. The argument is a library that makes a server's clock slow (late_clock.c).
. "${0%/*}/cli.sh"

servers=$SOURCE_DIR/tests/servers/servers
PAWL_URL=redis://nobody:16379
if ! "$servers" have redis >"$scratch/have" 2>&1; then
        skip "missing: redis-server" "Redis is here"
        done_testing
        exit
fi

# server NAME [KIND]: a fresh one; its URL in $url, its port in $port.
server() {
        mkdir "$scratch/$1"
        "$servers" up "$scratch/$1" "${2:-redis}" 2>"$scratch/$1.log" || {
                cat "$scratch/$1.log" >&2
                exit 99
        }
        at_end "$servers" down "$scratch/$1"
        REDIS_URL=
        . "$scratch/$1/env"
        url=$REDIS_URL
        port=${url##*:}
}

set_up() {
        redis-cli -p "$port" "$@" >"$scratch/cli" 2>&1
        case $(cat "$scratch/cli") in
        OK*) ;;
        *) fail "redis-cli $*" "$(cat "$scratch/cli")" ;;
        esac
}

# found PATTERN: "SEVERITY what" of each finding that has it; and its command in $scratch/mend.
found() {
        "$pawl" doctor -e "${at:-$url}" 2>"$scratch/errors" | awk -v pattern="$1" -v mend="$scratch/mend" '
                /^ *mend: / {
                        if (hit && sub(/^ *mend: /, ""))
                                printf "%s", $0 >mend
                        next
                }
                hit = index($0, pattern) {
                        severity = $1
                        printf "" >mend
                        sub(/^[a-z]+ +[^ ]+: /, "")
                        print severity, $0
                }'
}

# finds SEVERITY PATTERN SENTENCE: the finding is there; then its command is run, and it is gone.
finds() {
        like "$3" "$(found "$2")" "$1 *"
        mended=$(cat "$scratch/mend")
        ok "and '${mended%% *}' mends it" sh -c "$mended"
        unlike "so that it is not said again" "$(found "$2")" "$1 *"
}

server one
status 1 "a server without persistence is not safe" "$pawl" doctor -e "$url"
like "it was looked at all the same" "$output" "*fine *it answers*"
finds warning "appendonly no" "no persistence: a restart forgets locks"
finds advice "appendfsync everysec" "once a second is not always"
like "always is fine" "$(found 'appendfsync always')" "fine *"
set_up config set appendfsync no
finds warning "appendfsync no" "never is worse"
status 0 "what is left is advice" "$pawl" doctor -e "$url"

like "no memory limit is fine" "$(found maxmemory)" "fine *"
for policy in allkeys-lru volatile-ttl; do
        set_up config set maxmemory 100mb
        set_up config set maxmemory-policy $policy
        finds danger "$policy" "$policy is a danger"
        like "noeviction is fine" "$(found 'noeviction')" "fine *"
done
set_up config set maxmemory 1200kb
finds warning "nearly full" "a server that is nearly full"
set_up config set timeout 7
finds advice "(timeout)" "one that cuts silent clients off"
set_up config set tcp-keepalive 0
finds advice "tcp-keepalive 0" "one that never notices that a client vanished"
set_up config set lua-time-limit 0
finds advice "lua-time-limit" "one with scripts that may run for ever"
set_up config set client-output-buffer-limit 'pubsub 4096 0 0'
finds advice "client-output-buffer-limit" "one that cuts listeners off"
is "and nothing was left there" "$(redis-cli -p "$port" keys '*')" ""

set_up config set requirepass ''
like "one without a password" "$(found 'lets in')" "advice *"
mended=$(cat "$scratch/mend")
ok "its command sets one" sh -c "$mended"
like "then it refuses us" "$(found password)" "danger *"
at=redis://:SECRET@127.0.0.1:$port
unlike "with the password in the URL it is fine" "$(found 'lets in')" "advice *"

# ---- a user with too few rights
REDISCLI_AUTH=SECRET
export REDISCLI_AUTH
set_up acl setuser worker on '>pass' '~lock:*' +auth +select
at=redis://worker:pass@127.0.0.1:$port
like "a user who may do nothing" "$(found 'refuses what locks need')" "danger *"
# Commands that a script of ours uses and the user would not be given, or that are not tried.
missing=
for name in $(grep -ho "call('[A-Z]*'" "$SOURCE_DIR"/src/engine/redis/scripts/*.lua | sed "s/.*('//; s/'//" | sort -u); do
        grep -q "try('$name'" "$SOURCE_DIR/src/engine/redis/scripts/probe.lua" || missing="$missing $name(probe.lua)"
        grep -qi " +$name\\( \\|\$\\)" "$scratch/mend" || missing="$missing $name(redis_judge.c)"
done
is "every command of the scripts is tried by probe.lua, and stands in the ACL that is printed" "$missing" ""
mended=$(cat "$scratch/mend")
ok "its command, run by an administrator" sh -c "$mended"
unlike "lets the user in" "$(found 'refuses what')" "danger *"
like "who may now do what locks need" "$(found 'may do what locks need')" "fine *"
ok "and so can lock" "$pawl" run -e "$at" x true
ok "share" "$pawl" run -e "$at" -s x true
ok "look" "$pawl" show -e "$at" x
ok "list" "$pawl" ls -e "$at"
like "though not see all settings" "$(found 'some settings were not looked at')" "advice *"
mended=$(cat "$scratch/mend")
ok "which can be mended too" sh -c "$mended"
is "and then all are looked at" "$(found 'not looked at')" ""
set_up acl setuser worker -info
like "without INFO most is not seen" "$(found 'most was not looked at')" "advice *"
set_up acl setuser worker +info -zadd
like "one command too few" "$(found 'ZADD')" "danger user worker may not*"
mended=$(cat "$scratch/mend")
ok "is given by the command" sh -c "$mended"
is "and not missed any more" "$(found 'ZADD')" ""
set_up acl setuser worker resetchannels
like "a user who may not listen, or publish" "$(found 'may not')" "danger *"
unset REDISCLI_AUTH
at=

# ---- replicas
server two
set_up config set appendonly yes
primary=$port
primary_url=$url
server three
set_up replicaof 127.0.0.1 "$primary"
await sh -c "redis-cli -p $primary info replication | grep -q connected_slaves:1"
await sh -c "redis-cli -p $port info replication | grep -q master_link_status:up"
like "a replica keeps no locks" "$(found 'read-only replica')" "danger *"
is "and says where the primary is" "$(cat "$scratch/mend")" "export PAWL_URL=redis://127.0.0.1:$primary"
eval "$(cat "$scratch/mend")"
unlike "which is none" "$("$pawl" doctor)" "*read-only replica*"
url=$primary_url
finds warning "cut off goes on granting" "a primary with replicas goes on alone"
like "it may still lose what was just granted" "$(found 'follow it a moment later')" "advice *"

# ---- one that is not there, one that is silent, one whose clock is wrong
url=redis://127.0.0.1:1
like "nobody there is a finding" "$(found refused)" "danger *"
status 1 "and not a failure" "$pawl" doctor -e "$url"
read -r pid since <"$scratch/two/redis.pid"
kill -STOP "$pid"
url=$primary_url
at="$url?timeout=300ms"
like "one that does not answer is a finding" "$(found 'answer')" "danger *"
at=
kill -CONT "$pid"

if [ $# -gt 0 ]; then
        (
                LD_PRELOAD=$(realpath "$1")
                export LD_PRELOAD
                server late
                echo "$url" >"$scratch/late.url"
                trap - EXIT
        )
        at_end "$servers" down "$scratch/late"
        read -r url <"$scratch/late.url"
        like "a clock that is an hour slow" "$(found 'its clock is')" "warning its clock is 3*00.* s behind ours*"
fi

# ---- who is not alone on the network
address=$(hostname -I 2>/dev/null | awk '{ print $1 }')
if [ -n "$address" ]; then
        server far
        set_up config set protected-mode no
        set_up config set bind "$address 127.0.0.1"
        at=redis://$address:$port
        like "one on the network without TLS" "$(found 'in clear')" "warning *"
        like "and without a password" "$(found 'lets in')" "warning *"
        like "is named in the command" "$(cat "$scratch/mend")" "redis-cli -h $address -p $port *"
        at=
fi

# ---- through TLS, with a certificate of our own
if "$servers" have redis-tls >"$scratch/have" 2>&1; then
        server secure redis-tls
        url=$REDIS_TLS_URL
        finds warning "appendonly no" "through TLS the command has the same certificates"
        is "who has a certificate needs no password" "$(found 'lets in')" ""
fi

# ---- the other commands say the worst of it, once, without being asked
server last
set_up config set maxmemory 100mb
set_up config set maxmemory-policy allkeys-lru
status 0 "a command works where locks may be evicted" "$pawl" run -e "$url" x true
like "but warns" "$errors" "pawl: *maxmemory-policy allkeys-lru*"
is "once" "$(printf '%s\n' "$errors" | wc -l)" 1
is "and not with -q" "$("$pawl" run -q -e "$url" x true 2>&1)" ""
done_testing
