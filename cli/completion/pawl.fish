# pawl.fish - completion for fish. `pawl completion -- WORD...` says what may come next, by the tables that read options.

function __pawl_complete
        set -l words (commandline -opc)
        set -l current (commandline -ct | string unescape)
        set -l lines ($words[1] completion -- $words[2..-1] "$current" 2>/dev/null)
        set -q lines[1]; or return
        set -l last (string split ' ' -- $lines[-1])
        set -e lines[-1]
        set -l kept (string sub -l $last[2] -- "$current")
        set -l rest (string sub -s (math $last[2] + 1) -- "$current")
        switch $last[1]
                case :command
                        set -l command $words[(math $last[2] + 2)..-1]
                        complete -C (string join ' ' -- (string escape -- $command) (commandline -ct))
                        return
                case :directories
                        set lines $lines (__fish_complete_directories $rest)
                case :files
                        set lines $lines (__fish_complete_path $rest)
        end
        for line in $lines
                echo -- $kept$line
        end
end

complete -c pawl -f -a '(__pawl_complete)'
