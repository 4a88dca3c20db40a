#!/usr/bin/env python3
"""Takes the pages of fetched.toml from Debian's, PyPI's and npm's packages into fetched/."""

import pathlib
import subprocess
import tarfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).parent
PAGES = HERE / "fetched"
CACHE = PAGES / "packages"
DOWNLOAD = {
    "deb": ["apt-get", "download", "-q"],
    "sdist": ["pip", "download", "-q", "--no-deps", "--no-binary", ":all:"],
    "wheel": ["pip", "download", "-q", "--no-deps", "--only-binary", ":all:"],
    "npm": ["npm", "pack", "--silent", "--ignore-scripts"],
}


def package(source: str) -> pathlib.Path:
    """The file of a package, downloaded once into a folder of its own."""
    kind, name = source.split(":", 1)
    folder = CACHE / source.replace("/", "_")
    if not folder.is_dir() or not any(folder.iterdir()):
        folder.mkdir(parents=True, exist_ok=True)
        print("downloads", source, flush=True)
        subprocess.run([*DOWNLOAD[kind], name], cwd=folder, check=True)
    return next(folder.iterdir())


def read(archive: pathlib.Path, path: str) -> bytes:
    if archive.suffix == ".deb":
        tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
        with tarfile.open(fileobj=tar.stdout, mode="r|") as members:
            for member in members:
                if member.name.removeprefix("./") == path:
                    content = members.extractfile(member).read()
                    tar.kill()
                    tar.wait()
                    return content
        raise KeyError(path)
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).read(path)
    with tarfile.open(archive) as members:
        return members.extractfile(path).read()


for page in tomllib.loads((HERE / "fetched.toml").read_text())["page"]:
    target = PAGES / f"{page['id']}.html"
    if not target.exists():
        content = read(package(page["package"]), page["path"])
        target.write_bytes(content)
