#!/usr/bin/env bash
# Installs the pinned Python packages of build.sh in the target folder, or with the argument `check` those of check.sh,
# and prints the folder of their programs. Does nothing else if they are already installed.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=packaging/requirements${1:+-$1}.txt
python=$(command -v python3.11 || command -v python3)
mkdir -p "${CARGO_TARGET_DIR:-target}"
tools=$(realpath "${CARGO_TARGET_DIR:-target}")/tools/packaging${1:+-$1}

if ! cmp -s "$wanted" "$tools/installed"; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps -r "$wanted"
  cp "$wanted" "$tools/installed"
fi
echo "$tools/bin"
