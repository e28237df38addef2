#!/bin/sh
# kubernetes.sh - the objects of docs/kubernetes.md are what the API takes, and their commands do what it says, on the stores at
# ETCD_URL and REDIS_PASSWORD_URL: only hosts and paths are others.
. "${0%/*}/cli.sh"
. "${0%/*}/document.sh"

python3=python3
$python3 -c 'import yaml' 2>import || python3=/usr/bin/python3
if ! $python3 -c 'import yaml' 2>import; then
        skip "missing: python3-yaml" "objects of Kubernetes in YAML"
        done_testing
fi
document docs/kubernetes.md
mkdir app reports secrets
server=${REDIS_PASSWORD_URL#redis://}
server=${server#*@}
server=${server%%[/?]*}
replace="s|etcd://etcd-0.*:2379|$ETCD_URL|; s|/app/|$scratch/app/|g; s|/reports|$scratch/reports|g
s|/run/secrets/redis|$scratch/secrets|g; s|redis.example:6379|$server|g"
STATUS_PODIP=10.0.0.1 METADATA_NAME=report-28 SPEC_NODENAME=node-a SECRET_PASSWORD='for/@everybody' # of redis-password, for users without a name
export STATUS_PODIP METADATA_NAME SPEC_NODENAME SECRET_PASSWORD

# object HEADING: its containers' commands are in NAME.sh.
object() {
        block "$1" 1 yaml >.object
        ok "$1: there is an object" test -s .object
        ok "$1: it is what the API takes" $python3 "$SOURCE_DIR/tests/cli/kubernetes.py" .object "$scratch"
}

# ---- a leader
object "A leader"
cp scheduler.sh one.sh && cp scheduler.live.sh one.live.sh
STATUS_PODIP=10.0.0.2 $python3 "$SOURCE_DIR/tests/cli/kubernetes.py" .object "$scratch"
cat >app/scheduler <<'END'
#!/bin/sh
trap 'sleep 0.2; echo ended >>log; exit 0' TERM
echo "$POD_IP leads" >>log
while :; do sleep 0.05; done
END
printf '#!/bin/sh\nexec test ! -e hangs\n' >app/healthy
chmod +x app/*
sh one.sh 2>said &
one=$!
later $one
ok "one Pod leads" await grep -q "10.0.0.1 leads" log
sh scheduler.sh 2>said &
two=$!
later $two
ok "the other one waits" await sh -c "pawl -e '$ETCD_URL' show scheduler | grep -q '^waiter'"
is "and does not run the program" "$(cat log)" "10.0.0.1 leads"
export PAWL_URL="$ETCD_URL"
printf '#!/bin/sh\nshift 3\nexec "$@"\n' >bin/kubectl
chmod +x bin/kubectl
run_block "Who holds it"
like "who leads is shown, with its Pod's address" "$output" "*scheduler *exclusive *$one:pawl*:$one:pawl 10.0.0.1"

ok "the leader is alive" sh one.live.sh
ok "so is the candidate" sh scheduler.live.sh
: >hangs
not_ok "a leader whose program hangs is not" sh one.live.sh
ok "the candidate is" sh scheduler.live.sh
sed "s|^export PAWL_URL=.*|export PAWL_URL=etcd://127.0.0.1:1|" one.live.sh >away.sh
ok "without a store nobody is restarted" sh away.sh

kill -TERM $one
wait_status $one
ok "the end of a Pod: the other one leads" await grep -q "10.0.0.2 leads" log
is "after the program has ended" "$(cat log)" "10.0.0.1 leads
ended
10.0.0.2 leads"
kill -TERM $two
wait_status $two
is "whose end is the program's, too" "$(tail -n 1 log)" ended

# ---- as process 1
if unshare --pid --fork true 2>unshare; then
        rm log
        unshare --pid --fork --kill-child sh one.sh 2>said &
        space=$!
        later $space
        ok "as process 1 it leads as well" await grep -q "10.0.0.1 leads" log
        kill -TERM "$(ps -o pid= --ppid $space | tr -d ' ')"
        wait_status $space
        is "and passes TERM on" "$(tail -n 1 log)" ended
else
        skip "no PID namespaces for this user" "as process 1 it leads as well"
fi

# ---- a job, and secrets
object "A job"
program app/report
printf '%s\n' "$SECRET_PASSWORD" >secrets/password
chmod 440 secrets/password
unset PAWL_URL
status 0 "the job runs with the secret that is mounted" sh report.sh
is "and writes" "$(cat reports/today.txt)" report
block Secrets 1 yaml >.object
ok "Secrets: env is parsed" $python3 "$SOURCE_DIR/tests/cli/kubernetes.py" .object "$scratch"
. ./env.sh
ok "a secret of a variable opens the store, too" pawl ls
like "the former holder is its Pod and node" "$(pawl show report)" "*past *released*report-28@node-a *"
mkfifo open
pawl hold report <open >held &
holder=$!
later $holder
exec 8>open
await_file held
rm app/report.ran 2>ran || rm report.ran
status 0 "while another one runs there is nothing to do" sh report.sh
ok "and nothing is done" test ! -e report.ran
exec 8>&-
wait_status $holder
echo newer | pawl put --store "file:$scratch/reports" today.txt 4000000000000000000
status 124 "a late writer is refused" sh report.sh
is "and has changed nothing" "$(cat reports/today.txt)" newer

every_block_is_used
every_block_is_used yaml
done_testing
