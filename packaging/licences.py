#!/usr/bin/env python3
"""Prints the licences of everything that is linked into the program, for a package to carry.

These are the files that the crates themselves come with, so the notices of their authors are in them. Fails if a
crate has none.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = re.compile(r"(un)?licen[cs]e|copying|notice|copyright", re.I)
# Files of tests are not part of the program, and zstd may be used under its other licence.
UNUSED = re.compile(r"^(tests/|zstd/COPYING$)")
# Licences whose text names no author: it is the same for all crates.
WITHOUT_AUTHORS = {"MPL-2.0"}
STANDARD_LIBRARY = """The Rust standard library

MIT OR Apache-2.0. Copyright (c) The Rust Project contributors"""


def linked(metadata: dict) -> list[dict]:
    """The crates that are part of the program, by name. Our own are not among them."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, queue = set(), [metadata["resolve"]["root"]]
    while queue:
        crate = queue.pop()
        if crate not in found:
            found.add(crate)
            edges = nodes[crate]["deps"]
            queue += [edge["pkg"] for edge in edges if any(kind["kind"] is None for kind in edge["dep_kinds"])]
    others = [packages[crate] for crate in found if packages[crate]["source"]]
    return sorted(others, key=lambda crate: (crate["name"], crate["version"]))


def licence_files(crate: dict, others: list[dict]) -> list[str]:
    """The texts of the licence files of a crate; of a crate without any, those of another one that is
    made in the same repository under the same licence, or has a licence that names no author.
    A crate under the MIT licence that has no file gets that licence with its repository as the authors."""
    texts = own_files(crate)
    same = [other for other in others if other["license"] == crate["license"]]
    if crate["license"] not in WITHOUT_AUTHORS:
        same = [other for other in same if crate["repository"] and other["repository"] == crate["repository"]]
    texts = texts or next((found for other in same if (found := own_files(other))), [])
    if not texts and crate["license"] == "MIT":
        mit = (ROOT / "LICENSE-MIT").read_text().strip("\n")
        texts = [re.sub(r"(?m)^Copyright .*$", f"Copyright (c) the authors of {crate['repository']}", mit)]
    return texts or sys.exit(f"{crate['name']} {crate['version']} has no licence file")


def own_files(crate: dict) -> list[str]:
    folder = Path(crate["manifest_path"]).parent
    paths = sorted(path for path in folder.rglob("*") if NAMES.match(path.name) and path.is_file())
    used = [path for path in paths if not UNUSED.match(path.relative_to(folder).as_posix())]
    return [path.read_text(errors="replace").replace("\r\n", "\n").strip("\n") for path in used]


def main():
    host = re.search(r"^host: (.*)$", run("rustc", "-vV"), re.M)[1]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    command += ["--filter-platform", host]
    owners: dict[str, list[str]] = {}
    crates = linked(json.loads(run(*command)))
    for crate in crates:
        for text in licence_files(crate, crates):
            owners.setdefault(text, []).append(f"{crate['name']} {crate['version']} ({crate['license']})")
    sections = ["\n".join(names) + f"\n\n{text}" for text, names in owners.items()]
    print(f"\n\n{'-' * 80}\n\n".join([STANDARD_LIBRARY, *sections]))


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
