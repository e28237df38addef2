#!/bin/sh
# urlfile.sh - `-e @FILE`: the URL, secrets included, is read from a file, in every command, and COMMAND finds the file.
. "${0%/*}/cli.sh"

url=$PAWL_URL
file=$scratch/url
cd "$scratch" || exit 99

# put TEXT: the file has that, and nobody else can read it.
put() {
        rm -f "$file"
        printf '%b' "$1" >"$file"
        chmod 600 "$file"
}

unset PAWL_URL
put "$url\n"
ok "run -e @FILE" "$pawl" run -e "@$file" x true
ok "before the command, too" "$pawl" --engine="@$file" run x true
ok "it is the store in the file" "$pawl" -e "$url" show x
like "PAWL_URL=@FILE" "$(PAWL_URL=@$file "$pawl" show x)" "*released*"
put "  \t$url \r\nanother line, which is not read\n"
ok "the first line is read, without the blanks around it" "$pawl" show -e "@$file" x
put "$url"
ok "it may be the only one" "$pawl" show -e "@$file" x
ln -s "$file" "$scratch/link"
ok "a link, as mounted secrets are" "$pawl" show -e "@$scratch/link" x
ok "a path from here" "$pawl" show -e @url x
is "a URL without a secret is what COMMAND finds" "$("$pawl" run -e @url x sh -c 'echo "$PAWL_URL"')" "$url"

# What a command changes it has changed before its status is compared.
lease=$("$pawl" -e @url acquire --ttl 10m kept)
for words in "ls" "show kept" "acquire -n other" "renew ${lease#* }" "release ${lease#* }" "top" "doctor" "elect --who y" "elect -1 y true" \
        "once key true" "once --look key" "limit l --rate 9/1s true" "watch --count 1 x" "init" "ask x" "break x"; do
        # shellcheck disable=SC2086
        {
                "$pawl" $words -e @url </dev/null >"$scratch/first" 2>&1
                "$pawl" $words -e "$url" </dev/null >"$scratch/direct" 2>&1
                direct=$?
                "$pawl" $words -e @url </dev/null >"$scratch/through" 2>&1
        }
        is "$words -e @FILE comes to the same as with the URL" $? $direct
done

# ---- guards
mkdir "$scratch/guarded"
put "file:$scratch/guarded"
ok "--store @FILE" "$pawl" fence --store @url r 5 true
is "PAWL_STORE=@FILE, and COMMAND finds its whole path" \
        "$(PAWL_STORE=@url "$pawl" fence r 6 sh -c 'echo "$PAWL_STORE"')" "@$scratch/url"
put "nonsense-secret"
status 125 "a store that is none" "$pawl" marks --store @url
unlike "is not printed" "$errors" "*nonsense-secret*"
status 125 "one without a scheme" "$pawl" marks --store "host/database?password=hidden"
is "is printed without its password" "$errors" "pawl: 'host/database' is no STORE: write file:DIR; see 'pawl marks --help'"

# ---- refused
# bad WHAT PATTERN: -e @url is refused with that message.
bad() {
        status 125 "$1" "$pawl" ls -e @url
        like "... is said" "$errors" "pawl: cannot $2"
        ok "... in one sentence" one_sentence
}
rm "$file"
bad "a file that is not there" "open the URL file 'url': No such file or directory"
status 125 "no name at all" "$pawl" ls -e @
like "is said" "$errors" "pawl: cannot open the URL file '': *"
for text in '' '\n' ' \t \n' "\n$url\n"; do
        put "$text"
        bad "an empty first line" "take the URL from the file 'url': its first line is empty"
done
put "local:/a\0b"
bad "a NUL byte" "take the URL from the file 'url': there is a NUL byte in its first line"
put "local:/$(printf '%09000d' 0)"
bad "a line without end" "take the URL from the file 'url': its first line is too long for a URL"
put "local:/$(printf '%020000d' 0)"
bad "and a longer one" "take the URL from the file 'url': its first line is too long for a URL"
put "$url"
for mode in 620 602 622; do
        chmod $mode "$file"
        bad "a file of mode $mode" "take the URL from the file 'url': others can write it: chmod 600 it"
done
chmod 644 "$file"
bad "a file of mode 644" "take the URL from the file 'url': everybody can read it: chmod 600 it"
chmod 640 "$file"
ok "one that a group may read is accepted" "$pawl" show -e @url x
rm "$file" && mkdir "$file"
bad "a directory" "take the URL from the file 'url': it is not a regular file"
rmdir "$file" && mkfifo "$file" && chmod 600 "$file"
bad "a pipe" "take the URL from the file 'url': it is not a regular file"
put "@$scratch/other"
status 125 "a file that names a file" "$pawl" ls -e @url
ok "... in one sentence" one_sentence

# ---- with a secret
if [ -z "${REDIS_PASSWORD_URL:-}" ]; then
        skip "no Redis server in this run" "a password in the file"
        done_testing
        exit
fi
put "$REDIS_PASSWORD_URL\n"
is "the secret stands in no argument and no variable: COMMAND finds the file, with its whole path" \
        "$("$pawl" run -e @url x sh -c 'echo "$PAWL_URL"')" "@$scratch/url"
ok "which it may use, wherever it stands" "$pawl" run -e @url outer sh -c 'cd / && "$0" run inner true' "$pawl"
is "once" "$("$pawl" once -e @url key sh -c 'echo "$PAWL_URL"')" "@$scratch/url"
is "elect" "$("$pawl" elect -1 -e @url x sh -c 'echo "$PAWL_URL"')" "@$scratch/url"
is "limit" "$("$pawl" limit l --rate 9/1s -e @url sh -c 'echo "$PAWL_URL"')" "@$scratch/url"
unlike "top shows the URL without its secret" "$("$pawl" top -e @url)" "*100%*"
secret=${REDIS_PASSWORD_URL#redis://worker:}
put "redis://worker@${secret#*@}?passenv=STORE_PASSWORD"
STORE_PASSWORD='one:100%' && export STORE_PASSWORD
is "passenv= in the file" "$("$pawl" run -e @url x sh -c 'echo "$PAWL_URL"')" "@$scratch/url"
done_testing
