#!/bin/sh
# Replaces itself by the program, which is in the npm package for this platform. So the program is
# the process that gets signals and the terminal, and node need not run beside a server.
set -eu

self=$0
while [ -L "$self" ]; do
  link=$(readlink "$self")
  case $link in
    /*) self=$link ;;
    *) self=$(dirname "$self")/$link ;;
  esac
done
here=$(cd "$(dirname "$self")" && pwd -P)

system="$(uname -s) $(uname -m)"
case $system in
  "Linux x86_64") platforms=linux-x64 ;;
  "Linux aarch64") platforms=linux-arm64 ;;
  # A node for Intel on an Apple processor installs the package for Intel, which Rosetta runs.
  "Darwin arm64") platforms="darwin-arm64 darwin-x64" ;;
  "Darwin x86_64") platforms=darwin-x64 ;;
  *)
    echo "respondent: there is no npm package of Respondent for $system, only for Linux (x86-64 and" >&2
    echo "arm64, with glibc) and macOS. On Windows, install it within WSL." >&2
    exit 1
    ;;
esac

# The program names itself in messages as it was called; what was found by PATH, by its bare name.
run() {
  program=$1 name=$0
  shift
  [ "$(command -v respondent)" != "$name" ] || name=respondent
  # Only bash can give a program another name than its path.
  ! command -v bash >/dev/null || exec bash -c 'exec -a "$0" "$@"' "$name" "$program" "$@"
  exec "$program" "$@"
}

# npm puts it beside this package, within it, or into a node_modules further up.
folder=$here
while :; do
  for platform in $platforms; do
    program=$folder/node_modules/@respondent/$platform/bin/respondent
    [ ! -x "$program" ] || run "$program" "$@"
  done
  [ "$folder" != / ] || break
  folder=$(dirname "$folder")
done

{
  echo "respondent: the npm package @respondent/${platforms%% *}, which has the program, is not installed."
  if ldd --version 2>&1 | grep -q musl; then
    echo "It needs a Linux with glibc, and this one has musl."
  else
    echo "npm leaves it out with --omit=optional (or --no-optional). Install again without that:"
    echo "    npm install --global --include=optional @respondent/cli"
  fi
} >&2
exit 1
