#!/usr/bin/env bash
# Makes what the platforms share, of the archives in a folder: the npm package that installs the one
# for the platform, install.sh, the Homebrew formula, and SHA256SUMS of all packages.
#
#   packaging/index.sh FOLDER
#
# Set RELEASE_URL to the folder where the packages will be published, with {version} for the version,
# and HOMEPAGE to the address of the project. Without RELEASE_URL what is made installs from FOLDER.
set -euo pipefail
packages=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/common.sh

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
release_url=${RELEASE_URL:-file://$packages}
homepage=${HOMEPAGE:-https://example.invalid}
ls "$packages/respondent-$version"-*.tar.gz >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The names in it are those of Homebrew, in the order that it asks for.
archives() {
  local os cpu file
  for os in macos:darwin linux:linux; do
    echo "  on_${os%:*} do"
    for cpu in arm:arm64 intel:x64; do
      file=respondent-$version-${os#*:}-${cpu#*:}.tar.gz
      [ -f "$packages/$file" ] || continue
      echo "    on_${cpu%:*} do"
      echo "      url \"${release_url//\{version\}/$version}/$file\""
      echo "      sha256 \"$(sha256 "$packages/$file" | cut -d' ' -f1)\""
      echo "    end"
    done
    echo "  end"
    [ "$os" = linux:linux ] || echo
  done
}

archives >"$work/archives"
sed -e "s|@VERSION@|$version|; s|@HOMEPAGE@|$homepage|" -e "/@ARCHIVES@/{r $work/archives" -e 'd;}' \
  packaging/homebrew/respondent.rb >"$packages/respondent.rb"

# The name of the wheel tells the oldest glibc that will do.
glibc=$(find "$packages" -name 'respondent-*-manylinux_*' | sed 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/' | sort -V | tail -n 1)
sed -e "s|@VERSION@|$version|; s|@RELEASE_URL@|$release_url|; s|@GLIBC@|${glibc:-2.34}|" \
  packaging/install.sh >"$packages/install.sh"
chmod 755 "$packages/install.sh"

npm=$work/package
mkdir -p "$npm/bin"
sed "s|@VERSION@|$version|" packaging/npm/package.json >"$npm/package.json"
cp packaging/npm/README.md LICENSE-* "$npm"
install -m 755 packaging/npm/respondent.sh "$npm/bin/respondent"
archive "$work" package "$packages/respondent-npm-cli-$version.tgz"

cd "$packages"
sha256 respondent[-_.]* install.sh >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
