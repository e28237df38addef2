#!/bin/sh
# two_hosts.sh - a nightly job in the crontabs of two hosts, so that it runs although one of them is down: and yet it runs once.
#
#     0 3 * * *  pawl run -n --hold-at-least 5m nightly -- /usr/local/bin/nightly
#
# -n: who does not get the lock goes home, with status 1. --hold-at-least: the job may be done in a second, and the clocks of
# the hosts may differ by more; the lock is kept so long that the other host's clock, too, has passed three. Here the hosts are
# two processes, and 5 seconds will do.
# $PAWL is the command (default: pawl); $PAWL_URL chooses the engine, which both hosts reach. Writes into the current directory.
set -eu
pawl=${PAWL:-pawl}
PAWL_STORE=file:$PWD
export pawl PAWL_STORE

# The job: what it writes is fenced, so that a host that hung in the middle of last night's job spoils nothing tonight.
cat >nightly <<'END'
#!/bin/sh
echo "$1" >>ran
echo "report by $1" | "$pawl" put report.txt "$PAWL_TOKEN"
END
chmod +x nightly

host() {
        "$pawl" run -n --hold-at-least 5s example/nightly -- ./nightly "$1"
}

host alpha &
alpha=$!
tries=0
until [ -s report.txt ]; do # alpha's job is done, and its lock is still held
        tries=$((tries + 1))
        [ $tries -lt 1000 ] || { echo "alpha's job does not run" >&2; exit 1; }
        sleep 0.01
done

# Three o'clock on the other host, whose clock is late.
status=0
host beta || status=$?
[ "$status" -eq 1 ] || { echo "beta ended with status $status" >&2; exit 1; }
wait $alpha || { echo "alpha failed" >&2; exit 1; }
[ "$(cat ran)" = alpha ] || { echo "the job ran more than once" >&2; exit 1; }
[ "$(cat report.txt)" = "report by alpha" ] || { echo "the report is not alpha's" >&2; exit 1; }
echo "the job ran once, on alpha; beta went home"
