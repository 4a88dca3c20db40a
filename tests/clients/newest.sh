#!/usr/bin/env bash
# Runs the cases of Codex with the newest Codex CLI of npm, in place of the pinned one: newest.sh [filter]
# Not part of CI, where an update of Codex must not break a change of ours.
set -euo pipefail
cd "$(dirname "$0")"

folder=${CARGO_TARGET_DIR:-$PWD/../../target}/newest-codex
mkdir -p "$folder"
npm install --prefix "$folder" --no-save --no-package-lock --no-audit --no-fund --loglevel=error @openai/codex@latest
export CODEX_BIN=$folder/node_modules/.bin/codex
"$CODEX_BIN" --version
exec ./run.py "${1:-codex/}"
