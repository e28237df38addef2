#!/bin/sh
# systemd.sh - the units of examples/systemd and the lines of examples/cron, as they stand there: only paths are others.
. "${0%/*}/cli.sh"

units=$SOURCE_DIR/examples/systemd
mkdir "$scratch/bin" "$scratch/units"
ln -s "$pawl" "$scratch/bin/pawl"
PATH=$scratch/bin:$PATH
export PATH
cd "$scratch" || exit 99

# program NAME: one that writes its name, and what it finds in its environment.
program() {
        printf '#!/bin/sh\nenv >>"%s/%s.env"\necho "%s $PAWL_NAME $PAWL_TOKEN" >>"%s/ran"\n%s\n' "$scratch" "$1" "$1" "$scratch" "$2" \
                >"$scratch/bin/$1"
        chmod +x "$scratch/bin/$1"
}
program scheduler 'exec sleep 60'
program mailer 'exec sleep 60'
program report ''
program sync-orders 'echo synced'
program cleanup ''
echo "PAWL_URL=$PAWL_URL" >default

for file in "$units"/*; do
        sed "s|/usr/bin/pawl|$scratch/bin/pawl|; s|/usr/local/bin/|$scratch/bin/|; s|/usr/local/lib/pawl/|$scratch/bin/|
                s|/etc/default/pawl|$scratch/default|" "$file" >"units/${file##*/}"
done

# ---- what systemd says of them
if command -v systemd-analyze >/dev/null; then
        for unit in scheduler.service report.service report.timer pawl@mailer.service; do
                file=$unit
                [ $unit != pawl@mailer.service ] || cp units/pawl@.service "units/$unit"
                ok "systemd-analyze verify: $unit" systemd-analyze --man=no verify "units/$file"
                is "it has nothing to say" "$output$errors" ""
        done
        sed 's/^KillMode=.*/KilMode=mixed/' units/report.service >units/wrong.service
        systemd-analyze --man=no verify units/wrong.service >said 2>&1
        like "which it has of a mistake" "$(cat said)" "*KilMode*"
else
        skip "missing: systemd-analyze" "systemd-analyze verifies the units"
fi
for unit in "$units"/*.service; do
        for page in $(sed -n 's/^Documentation=man:\(.*\)(\(.\))/\1.\2/p' "$unit"); do
                ok "${unit##*/}: the man page $page is there" test -s "$SOURCE_DIR/man/$page"
        done
done

for file in $(grep -o '`[a-z@/]*\.\(service\|timer\)`\|`cron/pawl`' "$SOURCE_DIR/docs/systemd.md" | tr -d '`' | sort -u); do
        ok "docs/systemd.md: $file is there" test -s "$units/$file" -o -s "$SOURCE_DIR/examples/$file"
done

# ---- the commands in them
# exec_start UNIT INSTANCE: its command, as words for sh.
exec_start() {
        sed -n "s/^ExecStart=//p" "units/$1" | sed "s/%H/this-host/g; s/%i/$2/g"
}

# service UNIT NAME: runs until TERM, which is a success.
service() {
        rm -f ran
        sh -c "exec $(exec_start "$1" "$2")" &
        service=$!
        later $service
        ok "$1: its program runs" await_file ran
        like "under the lock" "$(cat ran)" "$2 $2 [0-9]*"
        like "$1: others see on which host" "$(pawl elect --who "$2")" "*this-host"
        kill -TERM $service
        wait_status $service
        is "$1: SIGTERM ends it, with success" "$code" 0
}
service scheduler.service scheduler
service pawl@.service mailer

exec_start report.service "" | sed 's/ 5m / 0 /' >job.sh
rm -f ran
ok "report.service: the job runs" sh job.sh
is "once" "$(cat ran | wc -l)" 1
pawl acquire report >lease
success=$(sed -n 's/^SuccessExitStatus=//p' units/report.service)
status "$success" "report.service: while another host has the lock it ends with a status that the unit calls success" sh job.sh
is "and does nothing" "$(cat ran | wc -l)" 1
pawl release "$(sed 's/.* //' lease)"

# ---- cron
crontab=$SOURCE_DIR/examples/cron/pawl
# cron_line PROGRAM: the command of its line, as cron gives it to sh.
cron_line() {
        grep -E "^[^#].* $1( |\$)" "$crontab" | sed -E 's/^([^ ]+ +){6}//; s/\\%/%/g; s/ 5m / 0 /'"; s|local: |local:$scratch/here |"
}
is "each line of the crontab is tried here" "$(grep -c '^[0-9*]' "$crontab")" 3
for program in report sync-orders cleanup; do
        cron_line $program >line.sh
        rm -f ran
        ok "cron: $program runs" sh line.sh
        is "and says nothing, which cron would mail" "$output$errors" ""
        like "under its lock" "$(cat ran)" "$program *"
done
pawl acquire report >lease
pawl -e "local:$scratch/here" acquire cleanup >>lease
for program in report cleanup; do
        cron_line $program >line.sh
        rm -f ran
        ok "cron: while another has the lock of $program that is no failure" sh line.sh
        is "nor said" "$output$errors" ""
        not_ok "and it is not run" test -e ran
done
cron_line sync-orders | sed 's/\$(date [^)]*)/2026-11-20T03/' >line.sh
rm -f ran
ok "cron: with the same hour" sh line.sh
ok "in two runs" sh line.sh
is "it runs once" "$(grep -c sync-orders ran)" 1
done_testing
