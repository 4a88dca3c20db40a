#!/usr/bin/env bash
# Looks for code of a change that no test notices. cargo-mutants breaks each function that the change
# touches, one way at a time, and runs tests; what is still green is printed as MISSED. Each mutant
# needs a build and a run of the tests, some seconds to a minute, so this is for changes, not for CI.
#
#   tests/mutants-of-change.sh [BASE] [TEST_ARGUMENT...]
#
#   BASE           the commit with which the working tree is compared; origin/main if left out. A new
#                  file counts once `git add` knows it.
#   TEST_ARGUMENT  arguments of `cargo test` for the mutants of `src`, in place of `--lib`: the
#                  integration tests take minutes, but those of one subject do not, as with
#                  `tests/mutants-of-change.sh HEAD --test it websocket`
#
# The mutants of `adapters` and `registry` are tried with all tests of their package. The tree is
# copied, and built in target/mutants of the checkout; what was found is in target/mutants-*/mutants.out.
#
# Exits with 0 if every mutant was caught, with 2 if some were missed, and with 3 if a test hung.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo mutants --version >/dev/null 2>&1; then
  echo "cargo-mutants is not installed. Install it, once, with: cargo install --locked cargo-mutants" >&2
  exit 1
fi

base=${1:-origin/main}
shift || true
[ $# -gt 0 ] || set -- --lib
if ! git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
  echo "$base is no commit of this clone. Name the commit that your change is based on." >&2
  exit 1
fi
# What was added to the base since then is no part of the change.
base=$(git merge-base "$base" HEAD)

target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target/mutants
diff=$(mktemp)
trap 'rm -f "$diff"' EXIT
code=0

# try_mutants NAME "FOLDER..." [TEST_ARGUMENT...]: the mutants of the change in these folders
try_mutants() {
  local name=$1 folders=$2 result=0
  shift 2
  # shellcheck disable=SC2086
  git diff "$base" -- $folders >"$diff"
  [ -s "$diff" ] || return 0
  echo "=== $folders"
  mkdir -p "$target/mutants-$name"
  # A test that hangs is stopped after five minutes; those of a package take less than one.
  cargo mutants --workspace --in-diff "$diff" --timeout 300 --output "$target/mutants-$name" -- "$@" || result=$?
  [ "$result" -le "$code" ] || code=$result
}

try_mutants pure "adapters registry"
try_mutants program src "$@"
exit $code
