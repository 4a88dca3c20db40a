#!/usr/bin/env bash
# Counts what there is to maintain: the lines of code of each room, the size of the binary and the
# number of crates. Blank lines, comments and tests do not count, nor do tests inside a file.
#
# Usage: tests/size.sh [FOLDER]   (the binary is that of the last release build, if there is one)
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

count() {
    awk '
        function indent(line) { match(line, /^ */); return RLENGTH }
        FNR == 1 { skipping = 0; pending = 0 }
        # An item that exists in tests alone: skipped to its end, which has the same indentation.
        skipping { if (indent($0) == depth && $0 ~ /^ *}/) skipping = 0; next }
        /^ *#\[cfg\((all\()?test/ { pending = 1; next }
        pending && /^ *#\[/ { next }
        pending { pending = 0; if ($0 !~ /;$/) { skipping = 1; depth = indent($0) } next }
        /^ *$/ || /^ *\/\// { next }
        {
            split(FILENAME, path, "/")
            room = path[1] == "src" || path[2] == "excerpts" ? path[1] "/" path[2] : path[1] "/" path[3]
            sub(/\.rs$/, "", room)
            lines[room]++
        }
        END { for (room in lines) print lines[room], room }
    ' "$@"
}

mapfile -t sources < <(
    find src adapters/src adapters/excerpts/src registry/src -name '*.rs' ! -name tests.rs ! -path '*/tests/*' | sort
)
rooms=$(count "${sources[@]}" | sort -rn)
echo "$rooms" | awk '{ printf "%6d  %s\n", $1, $2; all += $1 } END { printf "%6d  lines of code\n", all }'

binary="${CARGO_TARGET_DIR:-target}/release/respondent"
if [ -f "$binary" ]; then
    stat -c %s "$binary" | awk '{ printf "%6.2f  MB of the binary\n", $1 / 1e6 }'
fi
cargo tree --locked --edges normal --prefix none --package respondent |
    sed 's/ (.*//' | sort -u | wc -l | awk '{ printf "%6d  crates in the binary\n", $1 }'
