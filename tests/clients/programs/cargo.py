#!/usr/bin/env python3
"""Stands in for cargo where the README and other pages use it. It takes their commands alone.

$REPOSITORY is the folder of the repository, $PROXY the program under test, and $CARGO, if it is set, the real cargo.
That one runs what only uses the release build. Without it this program checks that the repository has what the
command needs, and uses the program under test.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path

repository, proxy = Path(os.environ["REPOSITORY"]), os.environ["PROXY"]
cargo, command = os.environ.get("CARGO"), " ".join(sys.argv[1:])
manifest = tomllib.loads((repository / "Cargo.toml").read_text())
package = manifest["package"]
if package["name"] != "respondent" or not (repository / "src/main.rs").exists():
    sys.exit("the root of the repository is not the package `respondent`")

if command == "test --workspace":
    # It would take minutes, and .ci/run has done it.
    if f"cargo {command}" not in (repository / ".ci/run").read_text():
        sys.exit(".ci/run does not run this command")
elif command == "test --test it recordings":
    # The tests of recordings need those of a user.
    if not os.environ.get("RECORDINGS_DIR") or not (repository / "tests/it/recordings").is_dir():
        sys.exit("there are no recordings, or no tests of them")
elif command == "build --release --features pdf,chromium":
    if missing := {"pdf", "chromium"} - set(manifest["features"]):
        sys.exit(f"there are no such features: {missing}")
elif command == "run -- check":
    os.execv(proxy, [proxy, "check"])
elif command not in ("install --locked --path .", "run --release", "uninstall respondent"):
    sys.exit(f"cargo {command}: the tests do not know this command")
elif cargo:
    os.chdir(repository)
    os.execv(cargo, [cargo, *sys.argv[1:]])
elif command == "run --release":
    os.execv(proxy, [proxy])
elif command == "uninstall respondent":
    (Path.home() / ".cargo/bin" / package["name"]).unlink()
elif not (repository / "Cargo.lock").exists():
    sys.exit("there is no Cargo.lock")
else:
    folder = Path.home() / ".cargo/bin"
    folder.mkdir(parents=True)
    shutil.copy(proxy, folder / package["name"])
