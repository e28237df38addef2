# hardened.sh - source it after tap.sh. `hardened NAME FILE` checks the program, library or module FILE: it may be loaded
# anywhere, what the loader writes is read-only afterwards, the stack and calls of libc are guarded, no path to other libraries and
# no symbols are in it.
hardened() {
        elf=$(readelf --wide --file-header --program-headers --dynamic --section-headers "$2")
        symbols=$(readelf --wide --dyn-syms "$2")
        like "$1: at any address" "$elf" "*DYN (*"
        like "$1: relocations are read-only" "$elf" "*GNU_RELRO*"
        like "$1: and made at once" "$elf" "*BIND_NOW*"
        unlike "$1: the stack is not executed" "$elf" "*GNU_STACK * RWE *"
        like "$1: the stack is guarded" "$symbols" "*__stack_chk_fail*"
        case $1 in
        */sqlite-pawl.so) ;; # calls SQLite only
        *) like "$1: calls of libc are guarded" "$symbols" "*_chk@*" ;;
        esac
        unlike "$1: no path" "$elf" "*(R*PATH)*"
        unlike "$1: no symbols" "$elf" "* .symtab *"
}
