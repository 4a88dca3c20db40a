"""Installs the npm packages, and the archive by install.sh and by the Homebrew formula, where nothing is installed.

There is no brew: `programs/formula.rb` stands in for what it gives a formula. What install.sh downloads is served on
loopback, whole or spoiled.
"""

import contextlib
import hashlib
import http.server
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import kit
import loopback
from packed import GUIDE, PACKAGES, PACKAGING, PATIENCE, block, check_program, gone, package, play, run_as_user
from terminal import Terminal, squeezed

VERSION = re.search(r'^version = "(.*)"', (kit.ROOT / "Cargo.toml").read_text(), re.M)[1]
UNAME = 'case $1 in -s) echo "{}" ;; -m) echo {} ;; esac'
MUSL = "echo 'musl libc (x86_64)' >&2; exit 1"


# Promise: The npm packages install without a network and show an answer. What `respondent` starts
# is the program itself: it gets signals and the terminal, and its exit code is that of the command.
# Without the package for the platform, and on Windows, it says what to do. Once it is removed, with
# the folders that the guide names, nothing is left.
def npm(case: dict, folder: Path):
    """The first hour with the npm packages, in a new prefix and a new home; then without one of them."""
    home, project, env = loopback.user(folder)
    (folder / "bin/respondent").unlink()
    prefix = folder / "npm"
    scope = prefix / "lib/node_modules/@respondent"
    env |= {"PATH": f"{prefix}/bin:{env['PATH']}", "npm_config_prefix": str(prefix)}
    for packed in PACKAGES.glob("respondent-npm-*.tgz"):
        shutil.copy(packed, project)
    run_as_user(["bash", "-ec", block(case["block"])], folder, env, project, "install")
    (platform,) = scope.glob("*-*")
    check_program(platform / "bin/respondent")

    def hour(variables: dict) -> str:
        return run_as_user(["bash", kit.HERE / "programs/hour.sh"], folder, env | variables, project, "hour")

    play(case, folder, project, hour)
    in_terminal(folder, project, env)
    launcher = prefix / "bin/respondent"
    with kit.Process([launcher], folder / "server.log", env=env, cwd=home) as server:
        server.wait_for("Ctrl-C to stop", PATIENCE)
        running = os.readlink(f"/proc/{server.child.pid}/exe")
        kit.check(kit.mismatch(str(platform / "bin/respondent"), running, "the program of the process"))
        server.child.send_signal(signal.SIGTERM)
        kit.check(kit.mismatch(0, server.child.wait(PATIENCE), "the exit code of the server"))
    wrong = [[path, "nonsense"] for path in (launcher, kit.binary())]
    codes = [kit.run_program(argv, folder, env, PATIENCE, cwd=project)[0] for argv in wrong]
    kit.check(kit.mismatch(codes[1], codes[0], "the exit code of a usage error"))

    # So npm arranges packages that come from a registry.
    nested = scope / "cli/node_modules/@respondent"
    nested.mkdir(parents=True)
    platform.rename(nested / platform.name)
    said = run_as_user([launcher, "--version"], folder, env, project, "nested")
    kit.check(kit.mismatch(f"respondent {VERSION}\n", said, "the version"))
    (nested / platform.name).rename(folder / "left-out")
    for name, (programs, words) in LAUNCHER_REFUSES.items():
        fake = {"PATH": f"{fakes(folder / name, programs)}:{env['PATH']}"}
        code, _, stderr = kit.run_program([launcher], folder, env | fake, PATIENCE, name, project)
        kit.check(kit.mismatch([1, f"~{words}"], [code, stderr], name))
    remove = ["npm", "uninstall", "--global", "@respondent/cli", f"@respondent/{platform.name}"]
    run_as_user(remove, folder, env, project, "remove")
    gone([path for path in prefix.rglob("*") if not path.is_dir()])
    # The folders that the guide tells to delete.
    for folder_left in re.findall(r"^\| `~/(\S+)` \|", GUIDE.read_text(), re.M):
        shutil.rmtree(home / folder_left)
    gone([path for path in home.rglob("*respondent*") if project not in path.parents])


# What stands in for programs of the system, and what the launcher says without the package of the platform.
LAUNCHER_REFUSES = {
    "left out": ({}, "@respondent/linux-.* is not installed.*--include=optional"),
    "musl": ({"ldd": MUSL}, "glibc, and this one has musl"),
    "windows": ({"uname": UNAME.format("MINGW64_NT-10.0", "x86_64")}, "no npm package .* MINGW64.*Windows.* WSL"),
    "arm": ({"uname": UNAME.format("Linux", "armv7l")}, "no npm package .* Linux armv7l"),
}


def in_terminal(folder: Path, project: Path, env: dict):
    """In a terminal, Ctrl-C ends the server in order, and messages name the program as it was typed."""
    if not shutil.which("tmux"):
        raise kit.NotInstalled("tmux is not installed")
    with contextlib.closing(Terminal("npm", folder, project, env)) as terminal:
        terminal.begin("respondent")
        terminal.wait("Ctrl-C to stop")
        if "node_modules" in squeezed(terminal.screen()):
            raise kit.Failure(f"the program does not name itself as it was called:\n{terminal.screen()}")
        terminal.press("C-c")
        kit.check(kit.mismatch(0, terminal.status(), "the status after Ctrl-C"))


def fakes(folder: Path, programs: dict[str, str]) -> Path:
    """A folder with programs that are shell scripts."""
    folder.mkdir()
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


class Release(http.server.ThreadingHTTPServer):
    """Serves the files of a release at /vVERSION/. `spoil(name, body)` returns what is sent in place of a file, or None
    if there is no such file. Of a beginning alone the client is told that the whole file comes."""

    daemon_threads = True

    def __init__(self, spoil):
        release, self.asked, self.stalls = self, [], threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                release.asked.append(self.path)
                name = self.path.rpartition("/")[2]
                body = (PACKAGES / name.replace(self.path.split("/")[1][1:], VERSION)).read_bytes()
                sent = spoil(name, body)
                if sent is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                length = len(body) if body.startswith(sent) else len(sent)
                self.send_header("content-length", str(length))
                self.end_headers()
                if not sent:
                    release.stalls.set()
                    self.rfile.read()
                self.wfile.write(sent)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v{{version}}"

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Installation:
    """A user who runs install.sh, with a home and a folder for temporary files of their own."""

    def __init__(self, folder: Path, release: Release, programs: dict[str, str] | None = None):
        self.folder = folder
        self.home, self.tmp = folder / "home", folder / "tmp"
        for path in (folder, self.home, self.tmp):
            path.mkdir(exist_ok=True)
        path = f"{fakes(folder / 'fakes', programs or {})}:/usr/bin:/bin"
        self.env = {"HOME": str(self.home), "TMPDIR": str(self.tmp), "PATH": path}
        self.env["RESPONDENT_RELEASE_URL"] = release.url
        self.program = self.home / ".local/bin/respondent"

    def run(self, *arguments, script=None, env=None) -> tuple[int, str]:
        """Runs the script, and returns its exit code and what it printed."""
        argv = ["sh", script or PACKAGES / "install.sh", *arguments]
        env = self.env | (env or {})
        code, stdout, stderr = kit.run_program(argv, self.folder, env, PATIENCE, "install", self.home)
        return code, stdout + stderr

    def nothing_is_left(self, name: str):
        left = [path for folder in (self.home, self.tmp) for path in folder.rglob("*")]
        kit.check(kit.mismatch([], list(map(str, left)), f"what is left after {name}"))


def whole(_name: str, body: bytes) -> bytes:
    return body


def archive_is(sent):
    """Something else in place of the archive."""
    return lambda name, body: sent(body) if name.endswith(".tar.gz") else body


def sums_are(sent):
    return lambda name, body: sent(body) if name == "SHA256SUMS" else body


# How the server spoils a download, what stands in for programs of the system, further arguments, and what is said.
REFUSES = {
    "another content": (archive_is(lambda body: body[:-9] + b"something"), {}, (), "checksum of .* is wrong.*so nothing"),
    "a wrong checksum": (sums_are(lambda sums: re.sub(rb"(?m)^.", b"z", sums)), {}, (), "checksum of .* is wrong"),
    "no checksum": (sums_are(lambda _: b"0  other.tar.gz\n"), {}, (), "SHA256SUMS does not name .*linux"),
    "no archive": (archive_is(lambda _: None), {}, (), "404.*could not be downloaded, so nothing"),
    "no checksums": (sums_are(lambda _: None), {}, (), "SHA256SUMS could not be downloaded"),
    "a download that ends early": (archive_is(lambda body: body[: len(body) // 2]), {}, (), "could not be downloaded"),
    "windows": (whole, {"uname": UNAME.format("MSYS_NT-10.0", "x86_64")}, (), "not run on Windows.* WSL"),
    "a processor": (whole, {"uname": UNAME.format("Linux", "riscv64")}, (), "no archive for Linux riscv64.*cargo inst"),
    "musl": (whole, {"ldd": MUSL}, (), "glibc .*musl"),
    "a file in the way": (whole, {}, ("--dir", "/dev/null/bin"), "/dev/null is no folder.*--dir"),
    "an unknown option": (whole, {}, ("--force",), "no option --force"),
}


# Promise: install.sh needs no root, installs the version that is asked for, tells the line for PATH
# and how to remove it. It installs nothing and leaves nothing behind if the checksum is wrong or
# missing, the download fails, ends early or is interrupted, or the platform or the folder will not
# do.
def install_sh(case: dict, folder: Path):
    """install.sh with a server on loopback, whose files are whole or spoiled."""
    for name, (spoil, programs, arguments, words) in REFUSES.items():
        with Release(spoil) as release:
            user = Installation(folder / name, release, programs)
            code, said = user.run(*arguments)
            kit.check(kit.mismatch([1, f"~{words}"], [code, said], name))
            user.nothing_is_left(name)
    with Release(whole) as release:
        user = Installation(folder / "guide", release)
        del user.env["RESPONDENT_RELEASE_URL"]
        run_as_user(["sh", "-ec", block(case["block"])], user.folder, user.env, PACKAGES, "guide")
        check_program(user.program)
        installs(Installation(folder / "whole", release), release)
        read_only(Installation(folder / "read-only", release))
    with Release(archive_is(lambda _: b"")) as release:
        interrupted(Installation(folder / "interrupted", release), release)


def installs(user: Installation, release: Release):
    """What a user gets who has nothing, who has it in PATH, who runs it already, and who wants another version."""
    half = user.folder / "half.sh"
    text = (PACKAGES / "install.sh").read_text()
    half.write_text(text[: text.index("\nmain ")])
    kit.check(kit.mismatch((0, ""), user.run(script=half), "a script that was cut off"))
    user.nothing_is_left("a script that was cut off")

    code, said = user.run()
    expected = "Installed .*\n    export PATH=.*\nTo remove it: +respondent codex remove; respondent stop; rm ."
    kit.check(kit.mismatch([0, f"~{expected}{re.escape(str(user.program))}"], [code, said], "the output"))
    check_program(user.program)
    installed = [str(path) for path in user.home.rglob("*") if path.is_file()]
    kit.check(kit.mismatch([str(user.program)], installed, "the files"))

    env = {"PATH": f"{user.program.parent}:{user.env['PATH']}"}
    server = [user.program, "--listen", "127.0.0.1:9701"]
    with kit.Process(server, user.folder / "server.log", env=user.env | env, cwd=user.home) as running:
        running.wait_for("Ctrl-C to stop", PATIENCE)
        code, said = user.run(env=env)
        kit.check(kit.mismatch([0, False], [code, "export PATH" in said], "what is said if PATH has the folder"))

    # wget and shasum do as well, and the served archive has the version under test.
    tools = fakes(user.folder / "tools", {"curl": "exit 127"})
    for tool in "sh uname sed grep ldd mktemp rm mkdir dirname awk cut tar gzip cp mv cat wget shasum perl".split():
        if path := shutil.which(tool):
            (tools / tool).symlink_to(path)
    (tools / "curl").unlink()
    if {"wget", "shasum"} <= {path.name for path in tools.iterdir()}:
        code, said = user.run("--dir", "here", env={"PATH": str(tools)})
        kit.check(kit.mismatch([0, f"~Installed {user.home}/here/respondent"], [code, said], "with wget and shasum"))
    release.asked.clear()
    code, said = user.run("--version", "v0.0.1", "--dir", "old")
    kit.check(kit.mismatch([1, "~SHA256SUMS does not name respondent-0.0.1"], [code, said], "another version"))
    kit.check(kit.mismatch(["/v0.0.1/SHA256SUMS"], release.asked[:1], "what was asked for"))


def read_only(user: Installation):
    """Root may write everywhere, so it becomes somebody else."""
    target = user.folder / "target"
    target.mkdir(mode=0o555)
    become = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    shutil.copy(PACKAGES / "install.sh", user.folder)
    for path in (user.folder.parent, user.folder):
        path.chmod(0o755)
    argv = [*become, "sh", user.folder / "install.sh", "--dir", target / "bin"]
    code, _, stderr = kit.run_program(argv, user.folder, user.env, PATIENCE, "install", user.home)
    kit.check(kit.mismatch([1, "~may not write to .*--dir"], [code, stderr], "a folder that is read-only"))
    kit.check(kit.mismatch([], list(map(str, target.iterdir())), "the folder"))
    user.nothing_is_left("a folder that is read-only")


def interrupted(user: Installation, release: Release):
    """Ctrl-C while the archive is downloaded, which reaches the whole group of processes."""
    argv = ["sh", PACKAGES / "install.sh"]
    with kit.Process(argv, user.folder / "install.log", env=user.env, cwd=user.home) as script:
        if not release.stalls.wait(PATIENCE):
            raise kit.Failure(f"the archive was not asked for:\n{script.text()}")
        os.killpg(script.child.pid, signal.SIGINT)
        kit.check(kit.mismatch(130, script.child.wait(PATIENCE), "the exit code after Ctrl-C"))
    user.nothing_is_left("Ctrl-C")


# Promise: The Homebrew formula names the archive of each platform with its checksum, and with what
# is in the archive its installation and its test succeed. SHA256SUMS has every package.
def formula(case: dict, folder: Path):
    """The formula with the archive of this machine; then with archives for all platforms."""
    if not shutil.which("ruby"):
        raise kit.NotInstalled("ruby is not installed")
    archive = package(f"respondent-{VERSION}-linux-*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    env = kit.plain_env(folder)
    run = ["ruby", kit.HERE / "programs/formula.rb", package("respondent.rb"), folder / "prefix"]
    said = run_as_user(run, folder, env, next(folder.glob("respondent-*")), "formula")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    kit.check(kit.mismatch([f"~^linux intel file://.*/{archive.name} {digest}$"], said.splitlines(), "the archive"))
    check_program(folder / "prefix/bin/respondent")
    for name in case["expect"]["installed"]:
        if not (folder / "prefix" / name).exists():
            raise kit.Failure(f"the formula has installed no {name}")

    packages = folder / "packages"
    packages.mkdir()
    for platform in case["expect"]["platforms"]:
        (packages / f"respondent-{VERSION}-{platform}.tar.gz").write_text(platform)
    env["RELEASE_URL"] = "https://a.example/v{version}"
    run_as_user([PACKAGING / "index.sh", packages], folder, env, folder, "index")
    said = run_as_user([*run[:2], packages / "respondent.rb"], folder, env, folder, "all")
    for platform, name in case["expect"]["platforms"].items():
        digest = hashlib.sha256(platform.encode()).hexdigest()
        shown = f"{name} https://a.example/v{VERSION}/respondent-{VERSION}-{platform}.tar.gz {digest}"
        kit.check(kit.mismatch([shown], said.splitlines(), "the archives"))
    run_as_user(["sha256sum", "--check", "--strict", "SHA256SUMS"], folder, env, packages, "sums")
    listed = sorted(line.split()[1] for line in (packages / "SHA256SUMS").read_text().splitlines())
    made = sorted(path.name for path in packages.iterdir() if path.name != "SHA256SUMS")
    kit.check(kit.mismatch(made, listed, "SHA256SUMS"))


KINDS = {"npm": npm, "install_sh": install_sh, "formula": formula}
