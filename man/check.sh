#!/bin/sh
# check.sh FILE... - every page is free of mandoc's warnings (if mandoc is here), and every public function of the
# headers among the files has a page that names it.
set -u
failed=0
pages=
headers=
for file; do
        case $file in
        *.h) headers="$headers $file" ;;
        *) pages="$pages $file" ;;
        esac
done

for function in $(cat $headers | sed -n '/^ \*\|^\/\*/d; s/.*[ *]\(pawl_[a-z_0-9]*\)(.*/\1/p' | grep -v '_fn$' | sort -u); do
        if ! grep -q -E "^\.(Nm|Fn) $function( |\$)" $pages; then
                echo "no man page names $function"
                failed=1
        fi
done

if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning $pages || failed=1
else
        echo "mandoc is not installed: the layout of the pages is not checked"
fi
exit $failed
