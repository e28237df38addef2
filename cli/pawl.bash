# pawl.bash - completion for bash: commands, and the options of each, as --help lists them.
_pawl() {
        local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words
        if [ "$COMP_CWORD" -eq 1 ]; then
                words=$(pawl --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')
        elif [[ $before == --sql ]]; then
                words=postgres
        elif [[ $word == -* ]]; then
                words=$(pawl "$command" --help 2>/dev/null | grep -o -e '--[a-z-]*')
        else
                case $command in
                show | break) words=$(pawl ls 2>/dev/null | awk 'NR > 1 { print $1 }') ;;
                fence | put | get | marks | forget) words=$(pawl marks 2>/dev/null | awk 'NR > 1 { print $1 }') ;; # of $PAWL_STORE
                *) return ;;
                esac
        fi
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _pawl pawl
