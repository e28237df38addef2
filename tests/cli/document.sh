# document.sh - what the tests share that run the lines of a document as they are written. Source it after cli.sh.
#
#       document docs/RUNBOOK.md
#       replace='s|redis://cache.example|redis://127.0.0.1:16379|g'
#       run_block "Who holds the lock?"         its first block of sh; each line must succeed
#       block "Who holds the lock?" 2 yaml      prints its second block of yaml
#       every_block_is_used                     each block of the document was asked for

mkdir "$scratch/bin"
ln -s "$pawl" "$scratch/bin/pawl"
PATH=$scratch/bin:$PATH
export PATH
cd "$scratch" || exit 99
replace=

document() {
        document=$SOURCE_DIR/$1
        : >"$scratch/.used"
}

# list_blocks: HEADING, number and language of each, tabs between.
list_blocks() {
        awk '/^ *```/ && inside { inside = 0; next }
                /^ *```/ { inside = 1; language = $0; sub(/^ *```/, "", language); print heading "\t" ++count[heading, language] "\t" language; next }
                /^#+ / && !inside { heading = $0; sub(/^#+ /, "", heading) }' "$document"
}

# block HEADING [NUMBER [LANGUAGE]]: its lines, with what $replace makes of them.
block() {
        printf '%s\t%s\t%s\n' "$1" "${2:-1}" "${3:-sh}" >>"$scratch/.used"
        awk -v wanted="$1" -v number="${2:-1}" -v fence="\`\`\`${3:-sh}" '
                /^```/ && inside { inside = 0; next }
                /^```/ { inside = 1; here = heading == wanted && $0 == fence && ++count == number; next }
                /^#+ / && !inside { heading = $0; sub(/^#+ /, "", heading) }
                inside && here' "$document" | sed -e "$replace"
}

# run_block HEADING [NUMBER]: what its lines print is in $output.
run_block() {
        block "$1" "${2:-1}" >.block
        ok "$1: there are lines" test -s .block
        ok "$1: each of them succeeds" sh -e .block
}

# every_block_is_used [LANGUAGE]: of sh, if none is named.
every_block_is_used() {
        list_blocks | awk -F '\t' -v language="${1:-sh}" '$3 == language' | sort >.blocks
        ok "there are blocks of ${1:-sh} in ${document##*/}" test -s .blocks
        is "every block of ${1:-sh} in ${document##*/} was run" "$(sort -u .used | comm -13 - .blocks)" ""
}

# program NAME: takes the place of one that a document calls: prints its name and arguments, also into the file NAME.ran.
program() {
        printf '#!/bin/sh\necho "%s" "$@" | tee -a "%s/%s.ran"\n' "${1##*/}" "$scratch" "${1##*/}" >"$1"
        chmod +x "$1"
}
