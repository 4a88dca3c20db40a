#!/usr/bin/env python3
"""Plays a user's first hour in a terminal of 80x24 and checks its screens.

    first_hour.py [--clone | --package npm|wheel|deb] [--strict] [--screens FOLDER]

It begins in this checkout, or with --clone in a fresh clone of the last commit, with the commands of README.md as they
stand: the installation, then the first answer of a provider. With --package it begins with one of the packages of
packaging/build.sh, as docs/deployment.md says, and ends with the server in the background; the Debian package is
installed in a new Debian system.

The real Codex CLI, the program and the provider of `provider.py` run in a network in which there is only loopback.
First all goes well. Then, without --package, one thing after another is wrong, and each screen must name the provider
and the remedy. At last everything is undone.

Cargo builds nothing if $RESPONDENT_BIN is the release build of this checkout. With any other program
`programs/cargo.py` installs that one instead; with --clone the build takes many minutes.

Exits with 1 if a screen lacks words, or with --strict if a program is not installed.
"""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import debian
import kit
import loopback
import packed
import readme
from terminal import Terminal, squeezed

PORT = 8099
KEY = "sk-the-right-key"
HELLO, NOTE = "Hello! How can I help you today?", "The note names four brass keys."
READ_NOTE = {"call": {"index": 0, "id": "call_1", "name": "exec_command", "arguments": '{"cmd":"cat note.txt"}'}}
SCRIPT = {
    "answers": [
        {"repeat": True, "when": {"last_role": "tool"}, "steps": [{"text": NOTE}]},
        {"repeat": True, "when": {"last_contains": "note"}, "steps": [READ_NOTE]},
        {"repeat": True, "steps": [{"text": HELLO}]},
    ]
}
# A build from nothing, with link-time optimisation, on a loaded machine.
BUILD_SECONDS = 3600
CODEX_CONFIG = "disable_paste_burst = true\n"
LISTENING = "Ctrl-C to stop"


class Hour:
    """The user's two terminals: one for a server, one for everything else."""

    def __init__(self, folder: Path, clone: bool, screens: Path | None, env: dict):
        self.screens, self.lacking = screens, []
        self.home, self.project, own = loopback.user(folder)
        self.env = own | env
        # What the user installs is what runs.
        (folder / "bin/respondent").unlink()
        self.checkout = kit.ROOT
        if clone:
            self.checkout = folder / "clone"
            subprocess.run(["git", "clone", "--quiet", kit.ROOT, self.checkout], check=True)
            self.env |= loopback.real_cargo(self.home)
            self.env.pop("CARGO_TARGET_DIR", None)
        self.env["REPOSITORY"] = str(self.checkout)
        self.env["PATH"] = f"{self.home}/.cargo/bin:{self.env['PATH']}"
        self.prepare()
        # Codex does not keep its helpers in a temporary folder, and says so.
        (folder / "tmp").mkdir()
        self.env |= {"TMPDIR": str(folder / "tmp"), "TERM": "screen-256color"}
        self.server = Terminal("server", folder, self.project, self.env)
        self.shell = Terminal("shell", folder, self.checkout, self.env)

    def prepare(self):
        """Writes what the user has before the first hour."""
        (self.project / "note.txt").write_text("four brass keys\n")
        subprocess.run(["git", "init", "--quiet", self.home / "shop"], check=True)
        # To Codex, text that comes as fast as that of a script is pasted, and an Enter after it begins a line.
        self.codex_config = self.home / ".codex/config.toml"
        self.codex_config.parent.mkdir()
        self.codex_config.write_text(CODEX_CONFIG)

    def install(self):
        """Installs the program by the README, from the checkout."""
        for line in lines("Install"):
            self.run(line, title="The installation", seconds=BUILD_SECONDS)
        self.run("command -v respondent", "/home/.cargo/bin/respondent", title="What is installed")

    def close(self):
        """Ends both terminals and what runs in them."""
        self.shell.close()

    def run(self, command: str, *words: str, title: str = "", status: int = 0, seconds: float = 600):
        """Runs a command in the shell. It must end with this status, and show these words."""
        ended = self.shell.command(command, seconds)
        if ended != status:
            self.lacking.append(f"{command!r} ended with {ended}, not with {status}:\n{self.shell.screen()}")
        if title:
            self.see(title, *words)

    def start(self, command: str):
        """Starts a server in its terminal."""
        self.server.begin(command)
        self.server.wait(LISTENING)

    def stop(self):
        """Stops that server."""
        self.server.press("C-c")
        self.server.status()

    def see(self, title: str, *words: str, terminal: Terminal | None = None):
        """Waits until all these words are on the screen, and keeps the screen."""
        terminal = terminal or self.shell
        try:
            terminal.wait_until(lambda screen: not missing(words, screen), f"{words}")
            print(f"ok       {title}", flush=True)
        except kit.Failure:
            lacking = missing(words, terminal.screen())
            print(f"LACKING  {title}: {lacking}\n{terminal.screen()}", flush=True)
            self.lacking.append(f"{title}: {lacking}")
        if self.screens:
            name = re.sub(r"\W+", "-", title.lower())
            (self.screens / f"{name}.txt").write_text(terminal.screen() + "\n")


class PackageHour(Hour):
    """An hour with a package, in one terminal."""

    def __init__(self, kind: str, folder: Path, screens: Path | None, env: dict):
        self.kind, self.screens, self.lacking = kind, screens, []
        if kind == "deb":
            self.shell = self.in_debian(folder, env)
            return
        self.home, self.project, own = loopback.user(folder)
        (folder / "bin/respondent").unlink()
        self.prepare()
        shutil.copytree(packed.PACKAGES, folder / "packages")
        self.env = own | env | {"TERM": "screen-256color", "npm_config_prefix": str(self.home / ".npm-packages")}
        self.env["PATH"] = f"{self.home}/.npm-packages/bin:{self.env['PATH']}"
        self.shell = Terminal("shell", folder, folder / "packages", self.env)

    def in_debian(self, folder: Path, env: dict) -> Terminal:
        """The terminal of a user of a new Debian system, in which the package is installed."""
        system = debian.Debian(folder)
        self.home = system.install(packed.package("respondent_*.deb"), packed.block("Debian package"))
        self.project = self.home / "project"
        subprocess.run(["git", "init", "--quiet", self.project], check=True)
        self.prepare()
        subprocess.run(["chown", "-R", "--reference", self.home, self.home], check=True)
        shutil.copy(env["SSL_CERT_FILE"], system.root / "etc/gate.pem")
        (system.root / "etc/gate.pem").chmod(0o644)
        vendor = next(kit.NODE_MODULES.glob("@openai/codex-*/vendor/*"))
        self.env = env | {"HOME": "/home/user", "TERM": "screen-256color", "SSL_CERT_FILE": "/etc/gate.pem"}
        self.env["PATH"] = f"{debian.PATH}:/opt/codex/bin"

        def enter(argv: list) -> list:
            return system.command(argv, self.env, "user", {vendor.resolve(): "/opt/codex"})

        return Terminal("shell", folder, folder, kit.plain_env(self.home), enter=enter)

    def install(self):
        """Installs the package by the guide; that for Debian is installed."""
        if self.kind == "npm":
            self.run(packed.block("npm packages").strip(), title="The installation")
            self.run("command -v respondent", "/.npm-packages/bin/respondent", title="What is installed")
        elif self.kind == "wheel":
            self.run("python3 -m venv ~/tools && . ~/tools/bin/activate && PS1='[\\#:$?]$ '")
            self.run(packed.block("Python wheel").strip(), title="The installation")
            self.run("command -v respondent", "/tools/bin/respondent", title="What is installed")
        else:
            self.run("command -v respondent", "/usr/bin/respondent", title="What is installed")


def missing(words: tuple[str, ...], screen: str) -> list[str]:
    """The words that are not on a screen, wherever its lines are broken."""
    return [word for word in words if squeezed(word) not in squeezed(screen)]


# What asks the model of the profile, without the terminal interface.
ASK = 'codex exec -p respondent "Say hello."'


def lines(block: str) -> list[str]:
    """The lines of a shell block of the README."""
    return readme.blocks(readme.README.read_text())[block][0].splitlines()


# Promise: From a checkout, the README leads to a first answer in a terminal of 80x24, then to turns
# and tool calls in Codex; a wrong key, a wrong address, a dead provider and a mistyped model are
# each named on the screen with the provider and the remedy, and everything can be undone.
def first_answer(hour: Hour):
    """The README from its first command to the first answer of a provider."""
    hour.install()
    hour.run("cd ~/shop")
    key, run = lines("Start")
    hour.run(key.replace("sk-...", KEY))
    ask_codex(hour, run, "The first answer")
    hour.see("How to go on", "respondent run codex resume")
    # Codex itself has noted the folder that is trusted.
    hour.codex_text = hour.codex_config.read_text()
    hour.run("cd ~/project")


def ask_codex(hour: Hour, command: str, title: str):
    """Asks in Codex's own interface, in a folder that it does not know."""
    hour.shell.begin(command)
    hour.see(f"{title}: Codex asks for trust", "Trust this folder?", "Trust and continue")
    hour.shell.press_until("Enter", "Ask Codex")
    hour.shell.type("Say hello.")
    hour.see(title, "Say hello.", HELLO)
    hour.shell.type("/quit")
    hour.shell.status()


def in_background(hour: Hour):
    """The server of the README in the background, and Codex in the same terminal."""
    start, setup, status, logs, stop, _ = (line.split("  ")[0] for line in lines("Keep it running"))
    hour.run(start, "server.log", "respondent run codex", "respondent stop", title="The server starts")
    hour.run(setup, "codex -p respondent", title="Codex is set up")
    hour.run(ASK, HELLO, title="An answer from the server in the background")
    ask_codex(hour, "codex -p respondent", "Codex in the terminal of the server")
    hour.run(status, "kimi-k3", title="The status")
    hour.run(logs, "kimi-k3", "cached)", title="The log")
    hour.run(stop, "Stopped the server on 127.0.0.1:9797", title="The server is stopped")


def in_codex(hour: Hour):
    """A turn and a tool call in Codex's own interface, with a server in a terminal of its own."""
    hour.server.command(f"export MOONSHOT_API_KEY={KEY}")
    hour.start("respondent")
    shell = hour.shell
    shell.begin("codex -p respondent")
    shell.wait("Ask Codex")
    shell.type("Say hello.")
    hour.see("A turn in Codex", "Say hello.", HELLO)
    shell.type("What does the note say?")
    hour.see("A tool call in Codex", "Read note.txt", NOTE)
    shell.type("/quit")
    shell.status()
    hour.see("The log of the server", "kimi-k3", "cached)", terminal=hour.server)
    hour.stop()


def mistakes(hour: Hour):
    """One thing after another is wrong, and each screen must name the provider and the remedy."""
    hour.start("MOONSHOT_API_KEY=sk-a-wrong-key respondent")
    remedy = "Set MOONSHOT_API_KEY to a valid key"
    hour.run(ASK, "The provider 'moonshot' does not accept the key", remedy, title="A wrong key", status=1)
    hour.stop()

    mine = "mkdir -p ~/.config/respondent; printf '[providers.mine]\\nbase_url = \"%s\"\\n"
    mine += "api_key_env = \"MOONSHOT_API_KEY\"\\n' {} >~/.config/respondent/proxy-config.toml"
    hour.run(mine.format(f"http://127.0.0.1:{PORT}"))
    hour.start("respondent")
    hour.run("respondent codex setup --model mine/kimi-k3")
    wrong = f"The provider 'mine' has no such address. POST http://127.0.0.1:{PORT}/chat/completions"
    hour.run(ASK, wrong, "Check its base_url", title="A wrong address", status=1)

    hour.run(mine.format("http://127.0.0.1:8098/v1"))
    hour.server.wait("reloaded")
    wrong = "The provider 'mine' cannot be reached: 127.0.0.1:8098 refused the connection"
    hour.run(ASK, wrong, "Check whether the server runs, and its base_url", title="A dead provider", status=1)
    hour.stop()

    hour.run("rm ~/.config/respondent/proxy-config.toml")
    hour.start("respondent")
    wrong, remedy = "The model 'kimi-k33' does not exist, or its provider is off", "Did you mean kimi-k3"
    hour.run("respondent codex setup --model kimi-k33", wrong, remedy, title="A mistyped model in the setup", status=1)
    hour.run("respondent codex setup --model kimi-k3")
    hour.run("grep trust_level ~/.codex/respondent.config.toml")
    typed = ASK.replace("-p respondent", "-p respondent -m kimi-k33")
    hour.run(typed, wrong, remedy, title="A mistyped model in Codex", status=1)


def farewell(hour: Hour):
    """Everything is undone."""
    hour.run("respondent codex remove", "Deleted", title="The setup is undone")
    hour.run("ls ~/.codex | grep respondent", status=1)
    if hour.codex_config.read_text() != hour.codex_text:
        raise kit.Failure(f"{hour.codex_config} has changed: {hour.codex_config.read_text()}")
    hour.stop()
    hour.see("The server stops", "stopped", terminal=hour.server)


def goodbye(hour: Hour):
    """The setup and the server in the background are gone."""
    hour.run("respondent codex remove", "Deleted", title="The setup is undone")
    hour.run("ls ~/.codex | grep respondent", status=1)


def play(folder: Path, clone: bool, package: str | None, screens: Path | None) -> int:
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(kit.Player(SCRIPT, folder))
        argv = [sys.executable, kit.HERE / "provider.py", PORT, player.base_url]
        stack.enter_context(kit.Process(argv, folder / "provider.log"))
        gate = stack.enter_context(loopback.Gate(["api.moonshot.ai"], f"http://127.0.0.1:{PORT}/v1", folder))
        parts = [first_answer, in_background, in_codex, mistakes, farewell]
        if package:
            hour, parts = PackageHour(package, folder, screens, gate.env), [first_answer, in_background, goodbye]
        else:
            hour = Hour(folder, clone, screens, gate.env)
        stack.callback(hour.close)
        try:
            for part in parts:
                part(hour)
        except kit.Failure as reason:
            hour.lacking.append(f"{part.__name__} stopped: {reason}")
    print(f"{len(hour.lacking)} lacking" + "".join(f"\n  {what}" for what in hour.lacking))
    return 1 if hour.lacking else 0


def skipped(reason: Exception) -> None:
    print(f"\n*** SKIPPED: the first hour was not played: {reason}\n", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clone", action="store_true", help="begin in a fresh clone, which is built from nothing")
    options.add_argument("--package", choices=["npm", "wheel", "deb"], help="begin with this package")
    options.add_argument("--strict", action="store_true", help="a program that is not installed is a failure")
    options.add_argument("--screens", type=Path, help="write the screens to files in this folder")
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inside:
        loopback.bring_up()
        try:
            return play(chosen.inside, chosen.clone, chosen.package, chosen.screens)
        except kit.Failure as reason:
            sys.exit(f"the first hour did not begin: {reason}")
    try:
        if not shutil.which("tmux"):
            raise kit.NotInstalled("tmux is not installed")
        kit.need(kit.NODE_MODULES / ".bin/codex", "the Codex CLI")
        if chosen.package == "deb":
            debian.need()
        argv = [*loopback.namespace(), sys.executable, __file__]
    except kit.Skip as reason:
        skipped(reason)
        return 0
    except kit.NotInstalled as reason:
        skipped(reason)
        return 1 if chosen.strict else 0
    if chosen.screens:
        chosen.screens.mkdir(parents=True, exist_ok=True)
        argv += ["--screens", chosen.screens.resolve()]
    if chosen.clone:
        argv.append("--clone")
    if chosen.package:
        argv += ["--package", chosen.package]
    with tempfile.TemporaryDirectory(prefix="respondent-", ignore_cleanup_errors=True) as folder:
        return subprocess.run([*argv, "--inside", folder]).returncode


if __name__ == "__main__":
    sys.exit(main())
