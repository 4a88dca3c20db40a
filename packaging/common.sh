# shellcheck shell=bash
# For build.sh and index.sh, which run on Linux and on macOS.

# The same program gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

# archive PARENT FOLDER FILE: packs a folder; on macOS, whose tar lacks the options, with the times of the files
archive() {
  local options=()
  case $(tar --version) in
    *GNU*) options=(--sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH") ;;
    *) options=(--uid 0 --gid 0 --no-mac-metadata) ;;
  esac
  tar "${options[@]}" -C "$1" -cf - "$2" | gzip -n >"$3"
}

# sha256 FILE...: the lines of SHA256SUMS
sha256() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$@"
  else
    shasum -a 256 "$@"
  fi
}
