#!/usr/bin/env bash
# Packs a program that is built already: as an archive, as an npm package, as a Python wheel and, where there is
# dpkg-dev, as a Debian package. index.sh then makes what the platforms share.
#
#   packaging/build.sh [PROGRAM [FOLDER]]
#
#   PROGRAM   the program to pack, by default that of the profile `dist`
#   FOLDER    where the packages go, by default `packages` in the target folder; older ones in it are deleted
#
# Nothing is compiled: the tools that do so for a Rust program (maturin, cargo-deb) must be compiled themselves, or
# call cargo. The wheel is made by hatchling and tagged by auditwheel, the Debian package by dpkg-deb and the others by
# tar, all of which take files as they are. It needs cargo, whose crates have the licences that the packages carry.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/common.sh

target=${CARGO_TARGET_DIR:-target}
program=$(realpath "${1:-$target/dist/respondent}")
packages=${2:-$target/packages}
version=$("$program" --version | cut -d' ' -f2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The platform in the words of npm.
os=$(uname -s | tr '[:upper:]' '[:lower:]')
cpu=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')

mkdir -p "$packages"
rm -f "$packages"/respondent[-_.]*{whl,deb,tar.gz,tgz,rb} "$packages"/{install.sh,SHA256SUMS}
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

# prefix FOLDER: what an installation has: the program and, as the program itself makes them in an empty home, the
# manual pages and the completions
prefix() {
  local share=$1/share
  mkdir -p "$1/bin" "$share/doc/respondent/examples"
  install -m 755 "$program" "$1/bin/respondent"
  install -m 644 "$work/third-party-licences" "$share/doc/respondent"
  install -m 644 proxy-config.example.toml "$share/doc/respondent/examples"
  (
    export HOME=$work/home
    "$program" man "$share/man/man1" >/dev/null
    gzip -9 -n "$share"/man/man1/*
    shell bash bash-completion/completions/respondent
    shell zsh zsh/vendor-completions/_respondent
    shell fish fish/vendor_completions.d/respondent.fish
  )
}

# shell NAME FILE: writes the completions of a shell to a file of `share`
shell() {
  mkdir -p "$(dirname "$share/$2")"
  "$program" completions "$1" >"$share/$2"
}

tarball() {
  local name=respondent-$version-$os-$cpu
  prefix "$work/$name"
  cp LICENSE-* CHANGELOG.md "$work/$name/share/doc/respondent"
  archive "$work" "$name" "$packages/$name.tar.gz"
}

npm() {
  local stage=$work/npm/package
  mkdir -p "$stage/bin"
  sed -e "s/@VERSION@/$version/; s/@OS@/$os/; s/@CPU@/$cpu/" packaging/npm/platform.json >"$stage/package.json"
  # What does not run on Linux has no libc in the sense of npm.
  [ "$os" = linux ] || sed -i.old '/"libc"/,/\]/d' "$stage/package.json"
  rm -f "$stage"/*.old
  cp LICENSE-* "$work/third-party-licences" "$stage"
  install -m 755 "$program" "$stage/bin/respondent"
  archive "$work/npm" package "$packages/respondent-npm-$os-$cpu-$version.tgz"
}

deb() {
  local stage=$work/debian/respondent architecture libraries doc
  architecture=$(dpkg --print-architecture)
  doc=$stage/usr/share/doc/respondent
  mkdir -p "$stage/DEBIAN"
  prefix "$stage/usr"
  install -D -m 644 packaging/systemd/respondent.service "$stage/usr/lib/systemd/user/respondent.service"
  install -m 644 packaging/debian/copyright "$doc"
  gzip -9 -n <CHANGELOG.md >"$doc/changelog.gz"

  # It looks for this file, and only for names in it.
  printf 'Source: respondent\n\nPackage: respondent\nArchitecture: any\n' >"$work/debian/control"
  libraries=$(cd "$work" && dpkg-shlibdeps -O -edebian/respondent/usr/bin/respondent | sed 's/^shlibs:Depends=//')
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBRARIES@/$libraries/" \
    -e "s/@SIZE@/$(du -ks "$stage" | cut -f1)/" packaging/debian/control >"$stage/DEBIAN/control"
  chmod -R u=rwX,go=rX "$stage"
  # Where glibc is new enough for the program, dpkg reads zstd; xz takes a hundred times as long for a quarter less.
  quietly dpkg-deb --root-owner-group -Zzstd --build "$stage" "$packages/respondent_${version}_$architecture.deb"
}

wheel
tarball
npm
if command -v dpkg-shlibdeps >/dev/null; then
  deb
else
  echo "SKIPPED: there is no dpkg-shlibdeps (package dpkg-dev), so no Debian package was made"
fi
packaging/index.sh "$packages"
ls "$packages"/respondent[-_.]* "$packages"/{install.sh,SHA256SUMS}
