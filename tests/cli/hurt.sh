#!/bin/sh
# hurt.sh - many `pawl run` for one lock, while one after the other is killed, or stopped past its lease: no two of their
# commands ever live at the same time.
. "${0%/*}/cli.sh"

cat >"$scratch/critical" <<'EOF'
#!/bin/sh
# Whoever was here before us must be gone, unless he signed off.
read -r before <"$1/inside"
if [ -n "$before" ] && grep -q '^State:.*[RSDT] (' "/proc/$before/status" 2>/dev/null; then
        echo "$before still lives when $$ comes" >>"$1/overlaps"
fi
echo $$ >"$1/inside"
sleep 0.03
echo $$ >>"$1/entered"
: >"$1/inside"
EOF
chmod +x "$scratch/critical"
: >"$place/inside"
: >"$place/overlaps"
: >"$place/entered"

runner() {
        while [ ! -e "$place/stop" ]; do
                "$pawl" run -q --ttl 500ms x "$scratch/critical" "$place" &
                echo $! >"$place/runner.$1"
                wait $! || echo $? >>"$place/ends"
        done
}
for number in 1 2 3 4; do
        runner $number 2>/dev/null &
        later $!
done

round=0
while [ $round -lt 40 ]; do
        round=$((round + 1))
        sleep 0.15
        victim=$(cat "$place/runner.$((round % 4 + 1))")
        if [ $((round % 3)) -eq 0 ]; then
                kill -STOP "$victim" 2>/dev/null && (sleep 0.8; kill -CONT "$victim" 2>/dev/null) &
        else
                kill -KILL "$victim" 2>/dev/null
        fi
done
touch "$place/stop"
wait
is "no command lived when another one began" "$(cat "$place/overlaps")" ""
ok "some were killed" grep -q 137 "$place/ends"
ok "and many were not" test "$(wc -l <"$place/entered")" -gt 5
ok "the lock works as before" "$pawl" run -w 20s x true
eventually "nobody is left" sh -c '! "$0" ls | grep -q x' "$pawl"
done_testing
