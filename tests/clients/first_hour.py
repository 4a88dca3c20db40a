#!/usr/bin/env python3
"""Plays a user's first hour in a terminal of 80x24 and prints its screens: first_hour.py [--screens FOLDER]

The real Codex CLI, the program under test ($RESPONDENT_BIN) and the provider of `provider.py` run in a network in
which there is only loopback. First all goes well: a key, the setup of Codex, a turn, a tool call. Then one thing after
another is wrong, and the screen must name the provider and the remedy. At last everything is undone. Exits with 1 if a
screen lacks words, and with 0 and a notice if there is no tmux here.
"""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kit
import loopback

PORT = 8099
KEY = "sk-the-right-key"
SCRIPT = {
    "answers": [
        {"repeat": True, "when": {"last_role": "tool"}, "steps": [{"text": "The note names four brass keys."}]},
        {
            "repeat": True,
            "when": {"last_contains": "note"},
            "steps": [{"call": {"index": 0, "id": "call_1", "name": "exec_command", "arguments": '{"cmd":"cat note.txt"}'}}],
        },
        {"repeat": True, "steps": [{"text": "Hello! How can I help you today?"}]},
    ]
}
SHELL = "env PS1='$ ' bash --norc --noprofile"
PROMPT = r"\$\s*\Z"
EXEC = "codex exec -p respondent 'Say hello.' </dev/null"


class Terminal:
    """A terminal of 80x24 with a shell, in tmux."""

    def __init__(self, name: str, folder: Path, project: Path, env: dict):
        self.name, self.env, self.commands = name, env, 0
        self.tmux = ["tmux", "-S", folder / "tmux", "-f", "/dev/null"]
        self._run("new-session", "-d", "-x", "80", "-y", "24", "-s", name, "-c", project, SHELL)
        self._run("set-option", "-t", name, "status", "off")

    def _run(self, *arguments) -> str:
        argv = [str(argument) for argument in (*self.tmux, *arguments)]
        return subprocess.run(argv, env=self.env, check=True, capture_output=True, text=True).stdout

    def type(self, text: str):
        """Types a line and presses Enter."""
        self._run("send-keys", "-t", self.name, "-l", text)
        # A program that reads pasted text as such must see Enter as a key of its own.
        self.wait(re.escape(text[-20:]), 10, lambda screen: screen.replace("\n", ""))
        self.press("Enter")

    def press(self, *keys: str):
        self._run("send-keys", "-t", self.name, *keys)

    def command(self, text: str, seconds=60):
        """Runs a shell command on an empty screen, and waits for its end."""
        self.commands += 1
        self.type(f'clear; {text}; echo "[{self.commands} ended with $?]"')
        self.wait(rf"^\[{self.commands} ended with \d+\]", seconds)

    def screen(self) -> str:
        return self._run("capture-pane", "-p", "-t", self.name).rstrip()

    def wait(self, pattern: str, seconds: float, joined=str):
        """Waits until the screen matches."""
        end = time.monotonic() + seconds
        while not re.search(pattern, joined(self.screen()), re.M):
            if time.monotonic() > end:
                raise kit.Failure(f"nothing like /{pattern}/ within {seconds} s on the screen\n{self.screen()}")
            time.sleep(0.1)

    def reset(self):
        """Ends whatever runs in it and starts a shell again."""
        self._run("respawn-pane", "-k", "-t", self.name, SHELL)
        self.wait(PROMPT, 10)

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("kill-server")


class Hour:
    """The user's two terminals: one with the server, one for everything else."""

    def __init__(self, folder: Path, screens: Path | None):
        self.folder, self.screens, self.lacking = folder, screens, []
        self.home, project, self.env = loopback.user(folder)
        (project / "note.txt").write_text("four brass keys\n")
        # Codex asks whether it may trust a folder, once.
        (self.home / ".codex").mkdir()
        trust = f'[projects."{project}"]\ntrust_level = "trusted"\n'
        (self.home / ".codex/config.toml").write_text(trust)
        # Codex does not keep its helpers in a temporary folder, and says so.
        (folder / "tmp").mkdir()
        self.env |= {"TMPDIR": str(folder / "tmp"), "PS1": "$ ", "TERM": "screen-256color"}
        self.server = self.shell = None
        self.project = project

    def open(self, env: dict):
        self.env |= env
        self.server = Terminal("server", self.folder, self.project, self.env)
        self.shell = Terminal("shell", self.folder, self.project, self.env)

    def close(self):
        for terminal in filter(None, (self.server, self.shell)):
            terminal.close()

    def start(self, command: str):
        """Starts the server anew."""
        self.server.press("C-c")
        self.server.wait(PROMPT, 10)
        self.server.type(f"clear; {command}")
        self.server.wait("Ctrl-C to stop", 10)

    def show(self, title: str, *words: str, terminal: Terminal | None = None):
        """Prints a screen, and notes which of these patterns it lacks. A line may be broken anywhere."""
        screen = (terminal or self.shell).screen()
        flat = re.sub(r"\s+", " ", screen)
        lacking = [word for word in words if not re.search(word, flat) and not re.search(word, screen.replace("\n", ""))]
        self.lacking += [f"{title}: /{word}/" for word in lacking]
        print(f"{'LACKING ' + str(lacking) if lacking else 'ok'}  {title}", flush=True)
        if self.screens:
            name = re.sub(r"\W+", "-", title.lower())
            (self.screens / f"{name}.txt").write_text(screen + "\n")
        else:
            print("\n".join(f"  | {line}" for line in screen.splitlines()), flush=True)


def good_day(hour: Hour):
    """All is well: the key, the setup, a turn, a tool call."""
    hour.start(f"export MOONSHOT_API_KEY={KEY}; respondent")
    hour.show("The server starts", "moonshot", "kimi-k3", "respondent codex setup", terminal=hour.server)
    shell = hour.shell
    shell.command(f"export MOONSHOT_API_KEY={KEY}; respondent codex setup --model kimi-k3")
    hour.show("Codex is set up", "codex -p respondent", "respondent codex remove", r"ended with 0")
    shell.type("clear; codex -p respondent")
    shell.wait("Ask Codex", 30)
    shell.type("Say hello.")
    shell.wait("How can I help you today", 30)
    hour.show("A turn in Codex", "Say hello", "Hello! How can I help you today")
    shell.type("What does the note say?")
    shell.wait("four brass keys\\.", 30)
    hour.show("A tool call in Codex", r"Read note\.txt", "The note names four brass keys")
    shell.type("/quit")
    shell.wait(PROMPT, 20)
    hour.show("The log of the server", "moonshot/kimi-k3 completed", terminal=hour.server)


def bad_day(hour: Hour):
    """One thing after another is wrong. Each screen must name the provider and the remedy."""
    shell = hour.shell
    shell.command(f"export MOONSHOT_API_KEY={KEY}")
    hour.start("MOONSHOT_API_KEY=sk-a-wrong-key respondent")
    shell.command(EXEC)
    hour.show("A wrong key", "moonshot", "MOONSHOT_API_KEY")

    mine = "mkdir -p ~/.config/respondent; printf '[providers.mine]\\nbase_url = \"%s\"\\n"
    mine += 'api_key_env = "MOONSHOT_API_KEY"\\n\' {} >~/.config/respondent/proxy-config.toml'
    shell.command(mine.format(f"http://127.0.0.1:{PORT}"))
    hour.start("respondent")
    shell.command("respondent codex setup --model mine/kimi-k3")
    shell.command(EXEC)
    hour.show("A wrong address", "mine", "base_url", f"127.0.0.1:{PORT}")

    shell.command(mine.format("http://127.0.0.1:8098/v1"))
    hour.server.wait("reloaded", 10)
    shell.command(EXEC, 120)
    hour.show("A dead provider", "mine", "127.0.0.1:8098", "refused|running")

    shell.command("rm ~/.config/respondent/proxy-config.toml")
    hour.start("respondent")
    shell.command("respondent codex setup --model kimi-k33")
    hour.show("A mistyped model in the setup", "kimi-k33", "kimi-k3[^3]")
    shell.command("respondent codex setup --model kimi-k3")
    shell.command("codex exec -p respondent -m kimi-k33 'Say hello.' </dev/null")
    hour.show("A mistyped model in Codex", "kimi-k33", "kimi-k3[^3]")


def farewell(hour: Hour):
    """Everything is undone."""
    hour.shell.command("respondent codex remove; ls ~/.codex | grep respondent")
    hour.show("The setup is undone", "Deleted", "ended with 1")
    hour.server.press("C-c")
    hour.server.wait("stopped", 30)
    hour.show("The server stops", "stopped", terminal=hour.server)


def play(folder: Path, screens: Path | None) -> int:
    hour = Hour(folder, screens)
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(kit.Player(SCRIPT, folder))
        argv = [sys.executable, kit.HERE / "provider.py", PORT, player.base_url]
        stack.enter_context(kit.Process(argv, folder / "provider.log"))
        gate = loopback.Gate(["api.moonshot.ai"], f"http://127.0.0.1:{PORT}/v1", folder)
        stack.enter_context(gate)
        stack.callback(hour.close)
        hour.open(gate.env)
        for part in (good_day, bad_day, farewell):
            try:
                hour.shell.reset()
                part(hour)
            except kit.Failure as reason:
                hour.lacking.append(f"{part.__name__} stopped: {reason}")
    print(f"\n{len(hour.lacking)} lacking" + "".join(f"\n  {what}" for what in hour.lacking))
    return 1 if hour.lacking else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--screens", type=Path, help="write the screens to files in this folder instead")
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inside:
        loopback.bring_up()
        return play(chosen.inside, chosen.screens)
    if not shutil.which("tmux"):
        print("SKIPPED: tmux is not installed")
        return 0
    try:
        kit.need(kit.NODE_MODULES / ".bin/codex", "the Codex CLI")
        argv = [*loopback.namespace(), sys.executable, __file__]
    except (kit.Skip, kit.NotInstalled) as reason:
        print(f"SKIPPED: {reason}")
        return 0
    if chosen.screens:
        chosen.screens.mkdir(parents=True, exist_ok=True)
        argv += ["--screens", chosen.screens.resolve()]
    with tempfile.TemporaryDirectory(prefix="respondent-", ignore_cleanup_errors=True) as folder:
        return subprocess.run([*argv, "--inside", folder]).returncode


if __name__ == "__main__":
    sys.exit(main())
