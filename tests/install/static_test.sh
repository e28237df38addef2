#!/bin/sh
# static_test.sh - the command in one file, where there is nothing else.
. "$TAP_SH"
if ! command -v musl-gcc >"$scratch/which"; then
        skip "missing: musl-gcc" "the command is built"
        done_testing
fi
export TMPDIR="$scratch"
ok "the command is built" "$SOURCE_DIR/packaging/static.sh" "$scratch/dist" "$scratch/work"
rm -rf "$scratch/work"
file=$output
like "its name says for what" "$file" "*/dist/pawl-*-linux-$(uname -m)"
unlike "it needs no loader" "$(readelf --wide --program-headers "$file")" "*INTERP*"
like "and no library" "$(readelf --dynamic "$file")" "*no dynamic section*"

empty=$scratch/empty
mkdir -p "$empty/proc"
cp "$file" "$empty/pawl"
if ! unshare --map-root-user --mount true 2>"$scratch/which"; then
        skip "no mounts are allowed here: $(cat "$scratch/which")" "it runs where there is nothing else"
        done_testing
fi
# in_empty COMMAND...: the kernel's files are there, and ours.
in_empty() {
        PAWL_URL=local:/locks unshare --map-root-user --mount sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' \
                "$empty" "$@"
}
ok "it runs where there is nothing else" in_empty /pawl --version
ok "and says what it has" in_empty /pawl engines
like "this machine" "$output" "local: one machine*"
like "and what it has not" "$output" "*redis: *not here: *single file*"

status 0 "first lock" in_empty /pawl run nightly /pawl --version
mkfifo "$scratch/open" "$scratch/said"
in_empty /pawl hold nightly <"$scratch/open" >"$scratch/said" 2>"$scratch/lost" &
later $!
exec 4>"$scratch/open" 5<"$scratch/said"
read -r line <&5
like "held" "$line" '*"held"*'
status 1 "conflict" in_empty /pawl run -n nightly /pawl --version
like "with whom" "$errors" "*'nightly' is held by *"
ok "who holds it" in_empty /pawl show nightly
like "is shown" "$output" "*holder*exclusive*"
ok "free it" in_empty /pawl break nightly
read -r line <&5
like "which its holder hears" "$line" '*"lost"*'
status 0 "it is free again" in_empty /pawl run -w 60 nightly /pawl --version
exec 4>&-
mkdir "$empty/reports"
ok "a file is guarded" in_empty /pawl fence --store file:/reports today 7 /pawl --version
status 124 "against an old token" in_empty /pawl fence --store file:/reports today 6 /pawl --version
status 125 "an engine that is not in it is an error" in_empty /pawl run -e redis://localhost x /pawl --version
done_testing
