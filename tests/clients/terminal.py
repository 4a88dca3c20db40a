"""A terminal of 80x24 in tmux, with a shell in it, for tests that type and look at the screen.

Nothing here waits for a time to pass: every step waits for what must appear on the screen. The limit says only when
to give up, so it is long.
"""

import contextlib
import re
import subprocess
import time
from pathlib import Path

import kit

# How long something may take to appear on the screen, in seconds.
PATIENCE = 120
# The prompt has the number of the next command and the status of the last one.
PROMPT = r"[\#:$?]$ "


class Terminal:
    """A terminal with a shell. Terminals of one folder share a tmux server.

    The shell has the prompt `[NUMBER:STATUS]$ `, which `begin`, `status` and `command` need, unless it gets another.
    """

    def __init__(self, name: str, folder: Path, start: Path, env: dict, prompt: str = PROMPT, enter=lambda argv: argv):
        """`enter` gives the command that runs another one where the shell is to be."""
        self.name, self.env = name, env
        self.tmux = ["tmux", "-S", folder / "tmux", "-f", "/dev/null"]
        # A shell that is not interactive, as the one of tmux, drops the prompt.
        shell = enter(["env", f"PS1={prompt}", "bash", "--norc", "--noprofile"])
        # The number of the next command.
        self.number = 1
        self._run("new-session", "-d", "-x", "80", "-y", "24", "-s", name, "-c", start, *shell)
        self.set("status", "off")

    def _run(self, *arguments) -> str:
        argv = [str(argument) for argument in (*self.tmux, *arguments)]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            raise kit.Failure(f"tmux {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def set(self, option: str, value: str):
        """Sets an option of tmux."""
        self._run("set-option", "-t", self.name, option, value)

    def screen(self) -> str:
        return self._run("capture-pane", "-p", "-t", self.name).rstrip()

    def coloured_screen(self) -> tuple[str, tuple[int, int] | None]:
        """The screen with the escape sequences of its colours, and the column and line of the cursor if it shows."""
        shown, column, line = self._run(
            "display-message", "-p", "-t", self.name, "#{cursor_flag} #{cursor_x} #{cursor_y}"
        ).split()
        cursor = (int(column), int(line)) if shown == "1" else None
        return self._run("capture-pane", "-e", "-N", "-p", "-t", self.name), cursor

    def wait_until(self, found, what: str, seconds: float = PATIENCE):
        """Waits until `found(screen)` is true, and returns what it returned."""
        end = time.monotonic() + seconds
        while not (result := found(self.screen())):
            if time.monotonic() > end:
                raise kit.Failure(f"there was no {what} on the screen after {seconds} s:\n{self.screen()}")
            time.sleep(0.1)
        return result

    def wait(self, pattern: str, seconds: float = PATIENCE) -> re.Match:
        """Waits until a line of the screen matches."""
        return self.wait_until(lambda screen: re.search(pattern, screen, re.M), f"/{pattern}/", seconds)

    def press(self, *keys: str):
        self._run("send-keys", "-t", self.name, *keys)

    def press_until(self, key: str, pattern: str):
        """Presses a key, again if nothing comes of it, until a line of the screen matches: a program that is still
        drawing its first screen may drop what is typed."""

        def found(screen: str) -> re.Match | None:
            nonlocal pressed
            match = re.search(pattern, screen, re.M)
            if not match and time.monotonic() > pressed + 5:
                self.press(key)
                pressed = time.monotonic()
            return match

        pressed = float("-inf")
        self.wait_until(found, f"/{pattern}/")

    def write(self, text: str):
        """Types, and waits until the text is on the screen."""
        self._run("send-keys", "-t", self.name, "-l", "--", text)
        end = squeezed(text)[-20:]
        self.wait_until(lambda screen: end in squeezed(screen), f"{text!r}, which was typed,")

    def type(self, text: str):
        """Types a line, and presses Enter when the line is on the screen."""
        self.write(text)
        self.press("Enter")

    def begin(self, text: str):
        """Starts a command on a clear screen. Programs in the background may write to it, too."""
        prompt = rf"^\[{self.number}:\d+\]\$"
        self.wait(prompt)
        self.press("C-l")
        self.wait(rf"\A{prompt}")
        self.type(text)

    def status(self, seconds: float = PATIENCE) -> int:
        """Waits until the command has ended, and returns its status."""
        self.number += 1
        return int(self.wait(rf"^\[{self.number}:(\d+)\]\$", seconds)[1])

    def command(self, text: str, seconds: float = PATIENCE) -> int:
        """Runs a command on a clear screen, and returns its status."""
        self.begin(text)
        return self.status(seconds)

    def close(self):
        """Ends the tmux server with all its terminals."""
        with contextlib.suppress(kit.Failure):
            self._run("kill-server")


def squeezed(text: str) -> str:
    """The text without white space: a terminal breaks lines anywhere."""
    return re.sub(r"\s+", "", text)
