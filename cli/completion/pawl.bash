# pawl.bash - completion for bash. `pawl completion -- WORD...` says what may come next, by the tables that read options.

_pawl() {
        local rest=${COMP_LINE:0:COMP_POINT} words=() starts=() lines=() word kind skip i

        # Readline breaks words at ":", "=" and "@", pawl does not. The last word ends at the cursor.
        for ((i = 0; i <= COMP_CWORD; i++)); do
                word=${COMP_WORDS[i]}
                if [[ $i -eq 0 || -z $rest || $rest == [[:blank:]]* ]]; then
                        rest=${rest#"${rest%%[![:blank:]]*}"}
                        words+=("")
                        starts+=("$i")
                fi
                [[ $i -lt $COMP_CWORD ]] || word=$rest
                words[-1]+=${word//[\\\'\"]/}
                rest=${rest#"$word"}
        done

        mapfile -t lines < <("${words[0]/#~\//$HOME/}" completion -- "${words[@]:1}" 2>/dev/null)
        [[ ${#lines[@]} -gt 0 ]] || return
        read -r kind skip <<<"${lines[-1]}"
        unset 'lines[-1]'
        word=${words[-1]}
        case $kind in
        :command)
                _pawl_command "${starts[skip + 1]}"
                return
                ;;
        :files | :directories)
                # Behind "@" Readline sees no path, and would quote the "@".
                [[ ${word:0:skip} == *@ ]] || compopt -o filenames 2>/dev/null
                [[ $kind == :files ]] && kind=-f || kind=-d
                mapfile -t -O "${#lines[@]}" lines < <(compgen $kind -- "${word:skip}")
                ;;
        esac
        _pawl_reply "$word" "$skip" "${lines[@]}"
}

# The words from that index on are a command line of their own.
_pawl_command() {
        if declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset "$1"
        elif declare -F _command_offset >/dev/null; then
                _command_offset "$1"
        elif [[ $1 -eq $COMP_CWORD ]]; then
                mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
        else
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        fi
}

# WORD SKIP LINE...: the lines stand behind the first SKIP bytes of the word, and Readline wants what is behind its last break.
_pawl_reply() {
        local word=$1 kept=${1:0:$2} breaks= behind line
        shift 2
        [[ $COMP_WORDBREAKS != *:* ]] || breaks+=:
        [[ $COMP_WORDBREAKS != *=* ]] || breaks+==
        [[ $COMP_WORDBREAKS != *@* ]] || breaks+=@
        [[ -z $breaks ]] || behind=${word%"${word##*["$breaks"]}"}
        behind=${behind%@} # the last one is part of what Readline completes
        for line; do
                line=${line%%$'\t'*}
                [[ $kept != *@ || ! -d $line ]] || line+=/
                line=$kept$line
                line=${line#"$behind"}
                [[ $line != *[[:space:]\;\&\|\<\>\(\)\$\`\\\"\'\*\?]* ]] || printf -v line %q "$line"
                COMPREPLY+=("$line")
        done
        [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[:/=@] ]] || compopt -o nospace 2>/dev/null
}

complete -F _pawl pawl
