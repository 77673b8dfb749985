#!/bin/sh
set -eu
for file in "$@"; do
    if [ -f "$file" ]; then
        lines=$(wc -l < "$file")
        echo "$file has $lines lines"
    else
        echo "no file $file" >&2
        exit 1
    fi
done
