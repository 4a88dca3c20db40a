#!/usr/bin/env bash
# Makes the archive of a new Debian system for the cases of packages, in the target folder. Does nothing if it is there.
# What the package depends on is downloaded into it, because the cases have no network.
set -euo pipefail
cd "$(dirname "$0")/../.."

archive=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")/tools/debian.tar
if [ -f "$archive" ]; then
  echo "the Debian system is there"
  exit 0
fi
mkdir -p "$(dirname "$archive")"
mmdebstrap --quiet --variant=minbase --skip=cleanup/apt \
  --customize-hook='chroot "$1" apt-get clean' \
  --customize-hook='chroot "$1" apt-get install -qq --download-only ca-certificates libgcc-s1' \
  --format=tar bookworm "$archive.new"
mv "$archive.new" "$archive"
