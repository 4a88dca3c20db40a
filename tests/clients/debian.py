"""A new Debian system in a folder, and an image that is built in it by the steps of a Dockerfile.

The system is unpacked from the archive that debian.sh makes. What runs in it has the folder as its root and processes
of its own, and the network of the case.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import kit

ARCHIVE = kit.target() / "tools/debian.tar"
SUITE = "bookworm"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How long a step may take, in seconds.
PATIENCE = 120
# The environment of root.
AS_ROOT = {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}


def need():
    """Skips the case where there can be no such system."""
    if os.geteuid() != 0:
        raise kit.Skip("only root can change the root folder, so nothing was installed in a Debian system")
    if not ARCHIVE.exists():
        raise kit.NotInstalled("the Debian system is not there, run tests/clients/debian.sh")


class Debian:
    """A new system in `folder`. What its programs print goes to files beside it."""

    def __init__(self, folder: Path):
        self.outside, self.root = folder, folder / "debian"
        self.root.mkdir()
        subprocess.run(["tar", "-xf", ARCHIVE, "-C", self.root], check=True)
        # Nobody is there who could agree, and there is no network, so that waiting for it is in vain.
        settings = 'APT::Get::Assume-Yes "true";\nAcquire::Retries "0";\n'
        (self.root / "etc/apt/apt.conf.d/unattended").write_text(settings)

    def command(self, argv: list, env: dict, user="root", shared: dict[Path, str] | None = None) -> list:
        """The command that runs another one in the system, with this environment, and with paths of this machine that
        are seen there."""
        shared = shared or {}
        for target in shared.values():
            (self.root / target[1:]).mkdir(parents=True, exist_ok=True)
        # The first process of the system is the command itself, as in a container.
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh"]
        enter += [kit.HERE / "programs/enter.sh", self.root]
        mounts = [path for pair in shared.items() for path in pair]
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user != "root" else []
        variables = [f"{name}={value}" for name, value in ({"PATH": PATH, "LANG": "C.UTF-8"} | env).items()]
        return [*enter, *mounts, "--", *become, "env", "-i", *variables, *argv]

    def install(self, package: Path, block: str) -> Path:
        """Adds the user `user`, and as root runs a shell block that installs a package. Returns the user's home."""
        # Root needs no sudo.
        sudo = self.root / "usr/local/bin/sudo"
        sudo.write_text('#!/bin/sh\nexec "$@"\n')
        sudo.chmod(0o755)
        self.run(["useradd", "--create-home", "--shell", "/bin/bash", "user"], AS_ROOT, "user")
        shutil.copy(package, self.root / "root")
        self.run(["bash", "-ec", f"cd\n{block}"], AS_ROOT, "install")
        return self.root / "home/user"

    def run(self, argv: list, env: dict, name: str, **others) -> str:
        """Runs a command to its end, which must be a success, and returns what it printed."""
        command = self.command(argv, env, **others)
        status, stdout, stderr = kit.run_program(command, self.outside, dict(os.environ), PATIENCE, name, self.outside)
        if status != 0:
            raise kit.Failure(f"{name} ended with {status}")
        return stdout + stderr


class Image:
    """What the steps of a Dockerfile make of a new system. `context` has the files that it copies."""

    def __init__(self, dockerfile: Path, context: Path, folder: Path):
        self.env, self.user, self.ports, self.volumes, self.entrypoint = {}, "root", [], [], []
        for number, (instruction, rest) in enumerate(steps(dockerfile.read_text()), 1):
            step = getattr(self, f"_{instruction.lower()}", None)
            if not step:
                raise kit.Failure(f"the tests do not know the instruction {instruction}")
            step(rest, context, folder, f"step-{number}")

    def _from(self, rest, _context, folder, _name):
        kit.check(kit.mismatch(f"debian:{SUITE}-slim", rest, "the base of the image"))
        self.system = Debian(folder)

    def _copy(self, rest, context, _folder, _name):
        pattern, target = rest.split()
        found = list(context.glob(pattern))
        kit.check(kit.mismatch(1, len(found), f"the number of files {pattern}"))
        shutil.copy(found[0], self.system.root / target[1:])

    def _run(self, rest, _context, _folder, name):
        self.system.run(["/bin/sh", "-c", rest], self.env, name, user=self.user)

    def _env(self, rest, *_):
        self.env |= dict(word.split("=", 1) for word in shlex.split(rest))

    def _user(self, rest, *_):
        self.user = rest

    def _volume(self, rest, *_):
        self.volumes.append(rest)

    def _expose(self, rest, *_):
        self.ports.append(int(rest))

    def _entrypoint(self, rest, *_):
        self.entrypoint = json.loads(rest)

    def command(self, env: dict) -> list:
        """The command that runs the program of the image, with further variables."""
        return self.system.command(self.entrypoint, self.env | env, self.user)


def steps(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each with what follows it."""
    whole = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M))
    return [tuple(line.split(None, 1)) for line in whole.splitlines() if line.strip()]
