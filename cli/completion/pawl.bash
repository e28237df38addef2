# pawl.bash - completion for bash. `pawl completion -- WORD...` says what may come next, by the tables that read options.

_pawl() {
        local rest=${COMP_LINE:0:COMP_POINT} words=() starts=() lines=() raw word kind skip i

        # Readline breaks words at ":", "=" and "@", pawl does not. The last word ends at the cursor.
        for ((i = 0; i <= COMP_CWORD; i++)); do
                word=${COMP_WORDS[i]}
                if [[ $i -eq 0 || -z $rest || $rest == [[:blank:]]* ]]; then
                        rest=${rest#"${rest%%[![:blank:]]*}"}
                        words+=("")
                        starts+=("$i")
                        raw=
                fi
                [[ $i -lt $COMP_CWORD ]] || word=$rest
                raw+=$word
                words[-1]+=${word//[\\\'\"]/}
                rest=${rest#"$word"}
        done

        mapfile -t lines < <("${words[0]/#~\//$HOME/}" completion -- "${words[@]:1}" 2>/dev/null)
        # Without such a last line pawl did not end. Whatever else stands there must not be taken for a number: bash would run
        # what is in an index.
        [[ ${#lines[@]} -gt 0 && ${lines[-1]} =~ ^(:[a-z]+)\ ([0-9]{1,5})$ ]] || return
        kind=${BASH_REMATCH[1]} skip=${BASH_REMATCH[2]}
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
        _pawl_reply "$word" "$skip" "$kind" "$raw" "${lines[@]}"
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

# WORD SKIP KIND RAW LINE...: the lines stand behind the first SKIP bytes of the word. Readline wants what is behind its last
# break, or in the quotes that are open at the end of RAW; for files it quotes that itself. Names come from others: what cannot
# stand there as one plain word is left out.
_pawl_reply() {
        local word=$1 kept=${1:0:$2} kind=$3 raw=$4 quote= behind= breaks= special= opened=0 line i
        shift 4
        for ((i = 0; i < ${#raw}; i++)); do
                case $quote${raw:i:1} in
                \\ | \"\\) ((++i)) ;;
                \'\' | \"\") quote= ;;
                \' | \") quote=${raw:i:1} opened=$i ;;
                esac
        done
        [[ $COMP_WORDBREAKS != *:* ]] || breaks+=:
        [[ $COMP_WORDBREAKS != *=* ]] || breaks+==
        [[ $COMP_WORDBREAKS != *@* ]] || breaks+=@
        case $quote in
        \') behind=${raw:0:opened} special=\' ;;
        \") behind=${raw:0:opened} special='"$`\!' ;;
        *)
                [[ -z $breaks ]] || behind=${word%"${word##*["$breaks"]}"}
                behind=${behind%@} # the last one is part of what Readline completes
                ;;
        esac
        behind=${behind//[\\\'\"]/}
        for line; do
                line=${line%%$'\t'*}
                [[ $kept != *@ || ! -d $line ]] || line+=/
                line=$kept$line
                line=${line#"$behind"}
                [[ -z $quote || $kind != :words || $line != *["$special"]* ]] || continue
                [[ -n $quote || $kind != :words || -z $line ]] || printf -v line %q "$line"
                COMPREPLY+=("$line")
        done
        [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[:/=@] ]] || compopt -o nospace 2>/dev/null
}

complete -F _pawl pawl
