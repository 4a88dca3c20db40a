# Short names for the commands of CONTRIBUTING.md, which names the plain command beside each.

set positional-arguments

# Lists the recipes.
default:
    @{{ just_executable() }} --list --unsorted

# What every commit must pass: format, lints, provider files, links. Under a minute once built.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    registry/import/import.py --check
    tests/mutants.sh --check
    cd tests/clients && python3 -m unittest --quiet test_docs

# All tests, which need no network.
test:
    cargo test --workspace

# The integration tests whose name contains NAME, such as `just it doctor`.
it NAME:
    cargo test --test it -- "$1"

# Breaks the code that your change touches and shows what no test notices; see the script for its arguments.
mutants *ARGUMENTS:
    tests/mutants-of-change.sh "$@"

# Writes the expected files of the golden cases anew; read the difference before you commit it.
bless:
    BLESS=1 cargo test -p responses-translate --test golden

# Writes docs/requirements.md from the promises in the tests.
requirements:
    BLESS=1 cargo test --test it requirements

# Everything that CI runs, in a clean clone on Debian; installs what is missing.
ci:
    .ci/run
