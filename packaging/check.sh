#!/usr/bin/env bash
# Judges the shell scripts of packages and the release workflow; without a network once `tools.sh check` has run.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$(packaging/tools.sh check):$PATH
shellcheck packaging/*.sh packaging/npm/*.sh
zizmor --offline --quiet --persona auditor .github/workflows
