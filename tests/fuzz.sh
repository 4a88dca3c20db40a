#!/usr/bin/env bash
# Runs the fuzz targets of tests/hostile with libFuzzer, two at a time. It needs the Rust of the
# workspace, a C++ compiler, and for the first build the package registry.
#
#   tests/fuzz.sh [-t TARGET]... [SECONDS]
#
#   -t TARGET   only this target; may be repeated
#   SECONDS     the time for each target, 900 if left out
#
# A target starts from fixtures/fuzz/TARGET and from what earlier runs kept in the target folder. An
# input that fails is printed and kept; put it into fixtures/fuzz/TARGET with the change that mends
# it, and the tests run it from then on. Exits with 1 if an input failed.
set -euo pipefail
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
cd "$root"
targets=()
while getopts t: option; do
  case $option in
    t) targets+=("$OPTARG") ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
seconds=${1:-900}
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(ls fixtures/fuzz)
fi
export target_dir=${CARGO_TARGET_DIR:-$root/target}/fuzz seconds

# The versions of the workspace, and libFuzzer beside them.
cp Cargo.lock tests/hostile/fuzz/Cargo.lock
triple=$(rustc -vV | sed -n 's/^host: //p')
# Counts the branches and watches the comparisons in all crates; with the triple named, build
# scripts stay as they are.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage+=" -Cllvm-args=-sanitizer-coverage-pc-table"
coverage+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS=$coverage CARGO_TARGET_DIR=$target_dir \
  cargo build --quiet --release --target "$triple" --manifest-path tests/hostile/fuzz/Cargo.toml
export program=$target_dir/$triple/release/respondent-fuzz

fuzz() {
  local target=$1 corpus=$target_dir/corpora/$1 found=$target_dir/found/$1 log=$target_dir/$1.log
  mkdir -p "$corpus" "$found"
  if RESPONDENT_FUZZ_TARGET=$target nice -n 19 "$program" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 -artifact_prefix="$found/" "$corpus" \
    "fixtures/fuzz/$target" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf 'ok      %s: %s runs, %s inputs kept\n' "$target" "$runs" "$(ls "$corpus" | wc -l)"
  else
    printf 'FAILED  %s: %s\n' "$target" "$log"
    grep --text --max-count=20 -E 'panicked at|ERROR: |SUMMARY: |Test unit written' -A 3 "$log" || true
    return 1
  fi
}
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs --max-args=1 --max-procs=2 bash -euo pipefail -c 'fuzz "$0"'
