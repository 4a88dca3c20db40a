#!/usr/bin/env bash
# Checks the dependencies with cargo-deny: licences, bans, sources, crates that were yanked, and, with a
# copy of the RustSec advisory database, known vulnerabilities. The copy is a git repository at
# $ADVISORY_DB or ../shared/advisory-db; without one that part is skipped, and the script says so.
#
# cargo-deny is installed from the package registry into the target folder, once.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")/tools
deny=$tools/bin/cargo-deny
if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
  # It works for a second, and an optimized build of it takes minutes.
  env -u RUSTFLAGS CARGO_TARGET_DIR="$tools/build" CARGO_PROFILE_DEV_DEBUG=0 \
    cargo install --quiet --debug --locked --root "$tools" --version "$version" cargo-deny
  rm -rf "$tools/build"
fi

"$deny" check licenses bans sources

# cargo-deny looks for yanked crates together with advisories. Where there is no database, it gets one
# with a single advisory, about a crate that does not exist.
database=${ADVISORY_DB:-../shared/advisory-db}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -d "$database" ]; then
  echo "SKIPPED: there is no copy of the advisory database (ADVISORY_DB), so only yanked crates are looked for"
  database=$work/database
  mkdir -p "$database/crates/no-such-crate"
  cat > "$database/crates/no-such-crate/RUSTSEC-2000-0001.md" <<'END'
```toml
[advisory]
id = "RUSTSEC-2000-0001"
package = "no-such-crate"
date = "2000-01-01"

[versions]
patched = []
```

# A crate that does not exist
END
  git -C "$database" init --quiet --initial-branch=main
  git -C "$database" add .
  git -C "$database" -c user.name=none -c user.email=none@localhost commit --quiet --message "One advisory"
fi
# It takes no path, so git is told where the address leads.
address=https://advisories.localhost/database
{
  cat deny.toml
  printf '\n[advisories]\nyanked = "deny"\ngit-fetch-with-cli = true\ndb-path = "%s"\ndb-urls = ["%s"]\n' \
    "$work/fetched" "$address"
} > "$work/deny.toml"
env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$(realpath "$database").insteadOf" GIT_CONFIG_VALUE_0="$address" \
  "$deny" --config "$work/deny.toml" check advisories
