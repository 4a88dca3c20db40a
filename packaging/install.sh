#!/bin/sh
# Installs Respondent for one user, without root: downloads the archive for this platform, compares
# its checksum, and puts the program into a folder. `sh install.sh --help` lists the options.
#
# build.sh fills in what stands between at signs.
set -eu

usage() {
  cat <<'USAGE'
Usage: sh install.sh [--version VERSION] [--dir DIR]

  --version VERSION  the version to install (default: @VERSION@)
  --dir DIR          where the program goes (default: ~/.local/bin)

RESPONDENT_RELEASE_URL is another place to download from: a folder with the archives and SHA256SUMS,
where {version} stands for the version.
USAGE
}

fail() {
  printf 'install.sh: %s\n' "$@" >&2
  exit 1
}

# Everything is in functions, so that of a script that was cut off nothing runs.
main() {
  version=@VERSION@ dir=
  while [ $# -gt 0 ]; do
    case $1 in
      --version | --dir)
        [ -n "${2:-}" ] || fail "$1 needs a value"
        case $1 in
          --version) version=${2#v} ;;
          --dir) dir=$2 ;;
        esac
        shift
        ;;
      -h | --help) usage && exit ;;
      *) fail "there is no option $1; --help lists them" ;;
    esac
    shift
  done
  [ -n "$dir" ] || dir=${HOME:?"is not set, so name a folder with --dir"}/.local/bin
  url=$(printf %s "${RESPONDENT_RELEASE_URL:-@RELEASE_URL@}" | sed "s|{version}|$version|g; s|/*\$||")

  case $url in @*) fail "This is a template. packaging/build.sh makes an install.sh of it." ;; esac

  find_platform
  find_tools
  check_folder
  work=$(mktemp -d)
  trap 'rm -rf "$work" "$dir/.respondent.new.$$"' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM

  name=respondent-$version-$platform
  echo "Downloading Respondent $version for $platform from $url"
  download SHA256SUMS
  download "$name.tar.gz"
  check_sum "$name.tar.gz"
  tar -xzf "$work/$name.tar.gz" -C "$work" "$name/bin/respondent"
  check_program "$work/$name/bin/respondent"

  # Renaming replaces a program that runs, and is never seen half done.
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  cp "$work/$name/bin/respondent" "$dir/.respondent.new.$$"
  mv -f "$dir/.respondent.new.$$" "$dir/respondent"
  say_what_is_next
}

find_platform() {
  system="$(uname -s) $(uname -m)"
  case $system in
    "Linux x86_64" | "Linux amd64") platform=linux-x64 ;;
    "Linux aarch64" | "Linux arm64") platform=linux-arm64 ;;
    "Darwin arm64") platform=darwin-arm64 ;;
    "Darwin x86_64") platform=darwin-x64 ;;
    MINGW* | MSYS* | CYGWIN*) fail "Respondent does not run on Windows. Install it within WSL." ;;
    *) fail "There is no archive for $system, only for Linux and macOS on x86-64 and arm64." \
      "Build it from source: cargo install --locked --path . in a clone of the repository." ;;
  esac
  if [ "${system%% *}" = Linux ] && ldd --version 2>&1 | grep -q musl; then
    fail "The program needs a Linux with glibc (@GLIBC@ or later), and this one has musl." \
      "Build it from source: cargo install --locked --path . in a clone of the repository."
  fi
}

find_tools() {
  if has curl; then
    get=with_curl
  elif has wget; then
    get=with_wget
  else
    fail "This needs curl or wget. Install one of them, and run it again."
  fi
  if has sha256sum; then
    sum=sha256sum
  elif has shasum; then
    sum="shasum -a 256"
  else
    fail "This needs sha256sum or shasum to check what it downloads."
  fi
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# Fails before anything is downloaded if the program cannot be put there.
check_folder() {
  existing=$dir
  while [ ! -e "$existing" ]; do existing=$(dirname "$existing"); done
  [ -d "$existing" ] || fail "$existing is no folder. Name another one with --dir."
  [ -w "$existing" ] || fail "You may not write to $existing. Name another folder with --dir."
  [ ! -d "$dir/respondent" ] || fail "$dir/respondent is a folder. Name another one with --dir."
}

download() {
  $get "$url/$1" "$work/$1" || fail "$url/$1 could not be downloaded, so nothing was installed."
}

# An answer that stalls for half a minute counts as broken off.
with_curl() {
  case $url in https:*) set -- "$@" --proto '=https' --tlsv1.2 ;; esac
  from=$1 to=$2
  shift 2
  curl -fsSL --connect-timeout 30 --speed-limit 1 --speed-time 30 "$@" -o "$to" "$from"
}

with_wget() {
  wget -q -T 30 -O "$2" "$1"
}

check_sum() {
  wanted=$(awk -v name="$1" '$2 == name || $2 == "*" name { print $1; exit }' "$work/SHA256SUMS")
  [ -n "$wanted" ] || fail "$url/SHA256SUMS does not name $1, so nothing was installed."
  found=$($sum "$work/$1" | cut -d' ' -f1)
  [ "$found" = "$wanted" ] || fail "The checksum of $1 is wrong, so nothing was installed:" \
    "it is $found," "and SHA256SUMS says $wanted."
}

check_program() {
  said=$("$1" --version 2>&1) || fail "The program does not run here, so nothing was installed: $said" \
    "On Linux it needs glibc @GLIBC@ or later, and a TMPDIR in which programs may run."
  [ "$said" = "respondent $version" ] || fail "The archive has another program: $said"
}

say_what_is_next() {
  echo "Installed $dir/respondent"
  case ":$PATH:" in
    *":$dir:"*)
      first=$(command -v respondent || true)
      [ "$first" = "$dir/respondent" ] || echo "But your shell runs $first. Remove that one."
      ;;
    *)
      echo "Your shell does not look there. Add this line to ~/.profile (on macOS to"
      echo "the file ~/.zprofile), and open a new terminal:"
      echo "    export PATH=\"$dir:\$PATH\""
      ;;
  esac
  echo "Set the key of a provider, such as MOONSHOT_API_KEY, and start Codex with"
  echo "    respondent run codex"
  echo "To remove it: respondent codex remove; respondent stop; rm \"$dir/respondent\""
}

main "$@"
