#!/bin/sh
# readme_test.sh README EXAMPLE - the first C block of the README is the marked part of the example, to the letter.
set -eu
in_readme=$(sed -n '/^```c$/,/^```$/p' "$1" | sed '1d;/^```$/,$d')
in_example=$(sed -n '/^\/\* begin \*\/$/,/^\/\* end \*\/$/p' "$2" | sed '1d;$d')

[ -n "$in_readme" ] && [ "$in_readme" = "$in_example" ] && exit 0
echo "README.md and ten_lines.c differ:" >&2
printf '%s\n' "$in_readme" "----" "$in_example" >&2
exit 1
