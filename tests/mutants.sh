#!/usr/bin/env bash
# Changes a line of the program, replays the corpus of failing turns with it, and wants the
# difference to be named. Each change is a build of its own, so this is
# no part of CI: it takes some ten minutes.
#
#   tests/mutants.sh [FOLDER]    # clone and builds go there, and stay; temporary when left out
#
# What is replayed was made by the program of the last commit, in a clean clone.
set -euo pipefail

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
work=$(realpath "${1:-$(mktemp -d)}")
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT

[ -d "$work/clone" ] || git clone --quiet "$root" "$work/clone"
cd "$work/clone"
git fetch --quiet origin HEAD
git reset --quiet --hard FETCH_HEAD
export CARGO_TARGET_DIR="$work/target" CORPUS_DIR="$work/corpus"
rm -rf "$CORPUS_DIR"

cargo test --quiet --test it -- corpus
bundles=("$CORPUS_DIR"/*.bundle)
[ -f "${bundles[0]}" ] || { echo "the tests left no bundles"; exit 1; }

# replay BUNDLE: prints what differs; the exit code of the command
replay() {
  (cd "$work" && "$CARGO_TARGET_DIR/debug/respondent" replay "$1")
}

for bundle in "${bundles[@]}"; do
  replay "$bundle" > /dev/null || { echo "$bundle differs without a change"; exit 1; }
done
echo "${#bundles[@]} bundles are equal without a change"

failed=0
# mutant NAME FILE SCRIPT BUNDLE PLACE: with the change of sed's SCRIPT to FILE the bundle differs,
# and a line of what is told begins with PLACE
mutant() {
  local name=$1 file=$2 script=$3 bundle=$4 place=$5 code=0 told
  sed -i "$script" "$file"
  if git diff --quiet; then
    echo "FAILED $name: $file has no such line any more"
    failed=1
    return
  fi
  cargo build --quiet
  told=$(replay "$CORPUS_DIR/$bundle.bundle") || code=$?
  if [ "$code" = 1 ] && grep --quiet --extended-regexp "^  $place" <<< "$told"; then
    echo "ok     $name: $(grep --extended-regexp --max-count 1 "^  $place" <<< "$told")"
  else
    echo "FAILED $name: exit code $code"
    head -n 20 <<< "$told"
    failed=1
  fi
  git checkout --quiet "$file"
}

plan=adapters/src/plan
encode=adapters/src/chat/encode
assembler=adapters/src/responses/assembler
mutant "plan: an empty message is kept" "$plan/mod.rs" \
  's/Role::Text if empty::message(item) =>/Role::Text if false \&\& empty::message(item) =>/' strict-unknown \
  'plan: step [0-9]+: '
mutant "encoder: another name of a parameter" "$encode/parameters.rs" \
  's/field_if("temperature"/field_if("temperatur"/' lessons 'attempt [0-9]+ request: temperature: '
mutant "encoder: a parameter is lost" "$encode/tools.rs" \
  's/quirks.parallel_tool_calls,/false,/' lessons 'attempt [0-9]+ request: parallel_tool_calls: '
mutant "encoder: another limit" "$encode/limit.rs" \
  's/let limit = self.tokens.min(most).min(room);/let limit = self.tokens.min(most).min(room) - 1;/' \
  lessons 'attempt [0-9]+ request: max_tokens: '
mutant "assembler: another phase" "$assembler/mod.rs" \
  's/"final_answer"/"final"/' strict-unknown \
  'event [0-9]+ response\.output_item\.done: item\.phase: "final_answer" -> "final"'
mutant "assembler: another event" "$assembler/message.rs" \
  's/"response.output_text.delta"/"response.text.delta"/' broken \
  'event [0-9]+ response\.output_text\.delta: response\.output_text\.delta '
exit $failed
