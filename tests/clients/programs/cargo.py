#!/usr/bin/env python3
"""Stands in for cargo where the README uses it, because a build would take minutes.

It takes the commands of the README alone, checks that the repository has what they need, and then uses $PROXY, the
program under test. $REPOSITORY is the folder of the repository.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path

repository, proxy = Path(os.environ["REPOSITORY"]), os.environ["PROXY"]
package = tomllib.loads((repository / "Cargo.toml").read_text())["package"]
if package["name"] != "respondent" or not (repository / "src/main.rs").exists():
    sys.exit("the root of the repository is not the package `respondent`")

command = " ".join(sys.argv[1:])
if command == "install --locked --path .":
    if not (repository / "Cargo.lock").exists():
        sys.exit("there is no Cargo.lock")
    folder = Path.home() / ".cargo/bin"
    folder.mkdir(parents=True)
    shutil.copy(proxy, folder / package["name"])
elif command == "run --release":
    os.execv(proxy, [proxy])
elif command == "test --workspace":
    if f"cargo {command}" not in (repository / ".ci/run").read_text():
        sys.exit(".ci/run does not run this command")
else:
    sys.exit(f"cargo {command}: the tests do not know this command")
