#!/usr/bin/env bash
# Packs a program that is built already as a Python wheel and, where there is dpkg-dev, as a Debian package.
#
#   packaging/build.sh [PROGRAM [FOLDER]]
#
#   PROGRAM   the program to pack, by default that of the profile `dist`
#   FOLDER    where the packages go, by default `packages` in the target folder; older ones in it are deleted
#
# Nothing is compiled: the tools that do so for a Rust program (maturin, cargo-deb) must be compiled themselves, or
# call cargo. The wheel is made by hatchling and tagged by auditwheel, and the other package by dpkg-deb, all of which
# take files as they are. It needs cargo, whose crates have the licences that the packages carry.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
program=$(realpath "${1:-$target/dist/respondent}")
packages=${2:-$target/packages}
version=$("$program" --version | cut -d' ' -f2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The same program gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct || date +%s)
export SOURCE_DATE_EPOCH

mkdir -p "$packages"
rm -f "$packages"/respondent[-_]*.{whl,deb}
packaging/licences.py >"$work/third-party-licences"

# quietly COMMAND...: shows what a command prints only if it fails
quietly() {
  "$@" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    return 1
  }
}

wheel() {
  local stage=$work/wheel
  mkdir "$stage"
  cp packaging/python/* README.md LICENSE-* Cargo.toml "$work/third-party-licences" "$stage"
  install -m 755 "$program" "$stage/respondent"
  PATH=$(packaging/tools.sh):$PATH
  (cd "$stage" && quietly hatchling build -t wheel)
  case $(uname) in
    # Only now it is known which versions of glibc will do.
    Linux) quietly auditwheel repair --only-plat --wheel-dir "$packages" "$stage"/dist/*.whl ;;
    *) cp "$stage"/dist/*.whl "$packages" ;;
  esac
}

deb() {
  local stage=$work/debian/respondent architecture libraries doc
  architecture=$(dpkg --print-architecture)
  doc=$stage/usr/share/doc/respondent
  mkdir -p "$stage/DEBIAN" "$doc/examples"
  install -D -m 755 "$program" "$stage/usr/bin/respondent"
  install -D -m 644 packaging/systemd/respondent.service "$stage/usr/lib/systemd/user/respondent.service"
  install -m 644 packaging/debian/copyright "$work/third-party-licences" "$doc"
  install -m 644 proxy-config.example.toml "$doc/examples"
  gzip -9 -n <CHANGELOG.md >"$doc/changelog.gz"

  # The manual pages and the completions as the program itself makes them, in an empty home.
  (
    export HOME=$work/home
    "$program" man "$stage/usr/share/man/man1" >/dev/null
    gzip -9 -n "$stage"/usr/share/man/man1/*
    shell bash bash-completion/completions/respondent
    shell zsh zsh/vendor-completions/_respondent
    shell fish fish/vendor_completions.d/respondent.fish
  )

  # It looks for this file, and only for names in it.
  printf 'Source: respondent\n\nPackage: respondent\nArchitecture: any\n' >"$work/debian/control"
  libraries=$(cd "$work" && dpkg-shlibdeps -O -edebian/respondent/usr/bin/respondent | sed 's/^shlibs:Depends=//')
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBRARIES@/$libraries/" \
    -e "s/@SIZE@/$(du -ks "$stage" | cut -f1)/" packaging/debian/control >"$stage/DEBIAN/control"
  chmod -R u=rwX,go=rX "$stage"
  # Where glibc is new enough for the program, dpkg reads zstd; xz takes a hundred times as long for a quarter less.
  quietly dpkg-deb --root-owner-group -Zzstd --build "$stage" "$packages/respondent_${version}_$architecture.deb"
}

# shell NAME FILE: writes the completions of a shell to a file in /usr/share
shell() {
  mkdir -p "$(dirname "$stage/usr/share/$2")"
  "$program" completions "$1" >"$stage/usr/share/$2"
}

wheel
if command -v dpkg-shlibdeps >/dev/null; then
  deb
else
  echo "SKIPPED: there is no dpkg-shlibdeps (package dpkg-dev), so no Debian package was made"
fi
ls "$packages"/respondent[-_]*
