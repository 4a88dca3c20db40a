#!/usr/bin/env bash
# Installs the pinned Python packages with which build.sh makes the wheel, in the target folder, and prints the
# folder of their programs. Does nothing else if they are already installed.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(command -v python3.11 || command -v python3)
tools=$(realpath "${CARGO_TARGET_DIR:-target}")/tools/packaging
wanted=$(sha256sum <packaging/requirements.txt)

if [ "$(cat "$tools/installed" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
    -r packaging/requirements.txt
  echo "$wanted" >"$tools/installed"
fi
echo "$tools/bin"
