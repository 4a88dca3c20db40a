#!/usr/bin/env python3
"""Records the pictures of the README: Codex in a terminal of 80x24, with a scripted Kimi. Takes no arguments.

Everything on the screen but the words of the model is real: the shell, the proxy, Codex and the commands that it runs.
A picture is an SVG that moves by CSS alone. Its frames are one above another, and step through a window of the size of
the screen; where motion is not wanted, the last one stays. Each picture is recorded anew, because Codex chooses its
colours by the background.

Needs the proxy and respondent-kit (see run.py), the programs of install.sh, a network of its own, tmux and bubblewrap:
without the latter, Codex shows a warning.
"""

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import kit
import loopback
from terminal import Terminal

IMAGES = kit.ROOT / "docs/images"
KEY, COMMAND = "export MOONSHOT_API_KEY=sk-...", "respondent run codex --model kimi-k3"
TITLE = "Codex in a terminal, with Kimi K3 through Respondent"
QUESTION = "Why does the test fail? Fix it."
PROMPT = r"\[\e[34m\]\w\[\e[0m\] $ "

FILES = {
    "cart.py": '''\
def total(prices, percent):
    """The sum of the prices after a discount."""
    return sum(prices) - percent
''',
    "test_cart.py": """\
import unittest

from cart import total


class Cart(unittest.TestCase):
    def test_discount(self):
        self.assertEqual(total([30, 20], 10), 45)
""",
}
PATCH = """\
*** Begin Patch
*** Update File: cart.py
@@
-    return sum(prices) - percent
+    return sum(prices) * (100 - percent) / 100
*** End Patch
"""
ANSWER = (
    "The discount was taken off as an amount, not as a percentage, so the total was 40 instead of 45."
    " The test passes now."
)


def step(thought: str, name: str, **arguments) -> dict:
    """An answer of the model: it thinks for a while, and calls a tool."""
    call = {"id": f"functions.{name}:0", "name": name, "arguments": json.dumps(arguments)}
    return {"steps": [{"reasoning": thought}, {"delay_ms": 1500}, {"call": call}]}


SCRIPT = {
    "models": ["kimi-k3"],
    "answers": [
        step("Running the test", "exec_command", cmd="python3 -m unittest"),
        step("Reading the code", "exec_command", cmd="cat cart.py"),
        step("Fixing the discount", "apply_patch", input=PATCH),
        step("Running the test again", "exec_command", cmd="python3 -m unittest"),
        {"steps": [{"reasoning": "Summing up"}, {"delay_ms": 1500}, {"text": ANSWER}]},
    ],
}

# Nothing that only a machine without a network or a recorder would see: looking for updates, a server that Codex
# shares with other windows, and text that is taken for pasted because it is typed so fast.
CODEX_CONFIG = """\
check_for_update_on_startup = false
disable_paste_burst = true
[features]
daemon_auto_start = false
[projects."{}"]
trust_level = "trusted"
"""
PROXY_CONFIG = """\
[providers.moonshot]
base_url = "{}"
api_key_env = "MOONSHOT_API_KEY"
"""


@dataclass
class Scheme:
    """The colours of a terminal: background, text, border, and the sixteen of ANSI."""

    background: str
    text: str
    border: str
    ansi: str

    def theme(self) -> TerminalTheme:
        colours = [rgb(colour) for colour in self.ansi.split()]
        return TerminalTheme(rgb(self.background), rgb(self.text), colours[:8], colours[8:])


SCHEMES = {
    "dark": Scheme(
        "#0d1117",
        "#e6edf3",
        "#3d444d",
        "#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4"
        " #6e7681 #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #ffffff",
    ),
    "light": Scheme(
        "#ffffff",
        "#1f2328",
        "#d1d9e0",
        "#24292f #cf222e #116329 #4d2d00 #0969da #8250df #1b7c83 #6e7781"
        " #57606a #a40e26 #1a7f37 #633c01 #218bff #a475f9 #3192aa #8c959f",
    ),
}


def rgb(colour: str) -> tuple[int, int, int]:
    return tuple(bytes.fromhex(colour[1:]))


@dataclass
class Frame:
    """A screen with the escape sequences of its colours, the place of the cursor, and how long it is shown."""

    screen: str
    cursor: tuple[int, int] | None
    seconds: float


@dataclass
class Recorder:
    terminal: Terminal
    frames: list[Frame] = field(default_factory=list)

    def show(self, seconds: float, pattern: str = ""):
        """Waits until a line of the screen matches and the screen stands still, and makes a frame of it."""
        self.terminal.wait(pattern)
        self.frames.append(Frame(*self._still(), seconds))

    def _still(self) -> tuple[str, tuple[int, int] | None]:
        """The screen once it has not changed for a moment."""
        before, end = None, time.monotonic() + 1.2
        while (now := self.terminal.coloured_screen()) != before and time.monotonic() < end:
            before = now
            time.sleep(0.15)
        return now

    def type(self, text: str):
        """Types a line, with a frame for every few letters, and presses Enter."""
        for start in range(0, len(text), 3):
            self.terminal.write(text[start : start + 3])
            self.show(0.16)
        self.frames[-1].seconds = 0.8
        self.terminal.press("Enter")


def play(recorder: Recorder):
    """A session from the first command to the answer."""
    recorder.show(0.8, r"^~/shop \$")
    recorder.type(KEY)
    recorder.show(0.4, r"\A.*\n~/shop \$")
    recorder.type(COMMAND)
    recorder.show(1.6, "Ask Codex")
    recorder.type(QUESTION)
    recorder.show(1.2, "Running the test")
    recorder.show(2.2, "FAILED(.*\n)+.*Reading the code")
    recorder.show(1.8, "Explored\n.*Read cart.py(.*\n)+.*Fixing the discount")
    recorder.show(2.2, "Edited cart.py(.*\n)+.*Running the test again")
    recorder.show(1.8, "OK(.*\n)+.*Summing up")
    recorder.show(7.0, "The test passes now")


def record(case: dict, folder: Path):
    """Leaves the picture of the scheme in the folder."""
    scheme = SCHEMES[case["scheme"]]
    home, project, env = loopback.user(folder)
    shop = project.rename(home / "shop")
    for name, text in FILES.items():
        (shop / name).write_text(text)
    (folder / "tmp").mkdir()
    env |= {"TMPDIR": str(folder / "tmp"), "TERM": "tmux-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    with kit.Player(SCRIPT, folder) as player:
        write(home / ".config/respondent/proxy-config.toml", PROXY_CONFIG.format(player.base_url))
        write(home / ".codex/config.toml", CODEX_CONFIG.format(shop))
        terminal = Terminal(case["scheme"], folder, shop, env, PROMPT)
        try:
            # Codex asks the terminal for these colours.
            terminal.set("window-style", f"fg={scheme.text},bg={scheme.background}")
            recorder = Recorder(terminal)
            play(recorder)
        finally:
            terminal.close()
    (folder / "picture.svg").write_text(Picture(scheme).drawn(recorder.frames))


def write(path: Path, text: str):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o600)


# Sizes in pixels: a cell of the terminal, its letters, the space around the screen and the bar above it.
CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, SPACE, BAR = 8.4, 18, 14, 12, 22
COLUMNS, LINES = 80, 24
WIDTH, HEIGHT = COLUMNS * CELL_WIDTH, LINES * CELL_HEIGHT
FONTS = "ui-monospace,SFMono-Regular,'SF Mono',Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace"


class Picture:
    """Draws the frames of a recording. A line that is in several frames is drawn once."""

    def __init__(self, scheme: Scheme):
        self.scheme, self.theme = scheme, scheme.theme()
        self.console = Console()
        # The numbers of the lines by what is drawn, and those of the classes by their declarations.
        self.lines: dict[str, int] = {}
        self.classes: dict[str, int] = {}

    def drawn(self, frames: list[Frame]) -> str:
        # What is drawn decides which lines and classes there are.
        strip = "".join(self._frame(number, frame) for number, frame in enumerate(frames))
        lines = "".join(f'<g id="l{number}">{drawn}</g>\n' for drawn, number in self.lines.items())
        dots = "".join(f'<circle cx="{x}" cy="17" r="5.5" fill="{self.scheme.border}"/>' for x in (20, 38, 56))
        width, height = f"{WIDTH + 2 * SPACE:g}", f"{HEIGHT + 2 * SPACE + BAR:g}"
        return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<title>{TITLE}</title>
<style>{self._style(frames)}</style>
<defs>
{lines}</defs>
<rect class="window" x=".5" y=".5" width="{WIDTH + 2 * SPACE - 1:g}" height="{HEIGHT + 2 * SPACE + BAR - 1:g}" rx="8"/>
{dots}
<text x="{WIDTH / 2 + SPACE:g}" y="22" text-anchor="middle" opacity=".6">{COMMAND}</text>
<svg x="{SPACE}" y="{SPACE + BAR}" width="{WIDTH:g}" height="{HEIGHT}"><g id="strip">
{strip}</g></svg>
</svg>
"""

    def _style(self, frames: list[Frame]) -> str:
        whole, shown, steps = sum(frame.seconds for frame in frames), 0.0, ""
        for number, frame in enumerate(frames):
            steps += f"{shown / whole * 100:.2f}%{{transform:translateY({-number * HEIGHT}px)}}"
            shown += frame.seconds
        last = f"transform:translateY({(1 - len(frames)) * HEIGHT}px)"
        classes = "".join(f".c{number}{{{declarations}}}" for declarations, number in self.classes.items())
        return (
            "rect{shape-rendering:crispEdges}"
            f".window{{shape-rendering:auto;fill:{self.scheme.background};stroke:{self.scheme.border}}}"
            f"text{{font:{FONT_SIZE}px {FONTS};fill:{self.scheme.text}}}{classes}"
            f"#strip{{{last};animation:play {whole:.1f}s step-end infinite}}"
            f"@keyframes play{{{steps}to{{{last}}}}}"
            "@media (prefers-reduced-motion:reduce){#strip{animation:none}}"
        )

    def _frame(self, number: int, frame: Frame) -> str:
        top, parts = number * HEIGHT, []
        for row, line in enumerate(AnsiDecoder().decode(frame.screen)):
            if drawn := self._line(line):
                name = self.lines.setdefault(drawn, len(self.lines))
                parts.append(f'<use href="#l{name}" y="{top + row * CELL_HEIGHT}"/>')
        if frame.cursor:
            column, row = frame.cursor
            place = f'x="{column * CELL_WIDTH:g}" y="{top + row * CELL_HEIGHT}"'
            size = f'width="{CELL_WIDTH}" height="{CELL_HEIGHT}"'
            parts.append(f'<rect {place} {size} fill="{self.scheme.text}" opacity=".6"/>')
        return "".join(parts) + "\n"

    def _line(self, line: Text) -> str:
        """The backgrounds of a line and its texts, each as wide as its cells, whatever the font."""
        column, texts = 0, ""
        # The first column of each background, the column after its last, and its colour.
        behind: list[tuple[int, int, str]] = []
        for segment in self._segments(line):
            text, style = segment.text, segment.style or Style()
            width = cell_len(text)
            front, back = (style.bgcolor, style.color) if style.reverse else (style.color, style.bgcolor)
            if style.reverse or (back and not back.is_default):
                fill = self._hex(back, not style.reverse)
                if behind and behind[-1][1:] == (column, fill):
                    behind[-1] = (behind[-1][0], column + width, fill)
                else:
                    behind.append((column, column + width, fill))
            if word := text.strip():
                x = (column + cell_len(text) - cell_len(text.lstrip())) * CELL_WIDTH
                name = self._class(style, self._hex(front, style.reverse))
                fit = f'textLength="{cell_len(word) * CELL_WIDTH:g}" lengthAdjust="spacingAndGlyphs"'
                word = escape(word).replace(" ", "\u00a0")
                texts += f'<text{name} x="{x:g}" y="13.5" {fit}>{word}</text>'
            column += width
        rects = ""
        for start, end, fill in behind:
            place = f'x="{start * CELL_WIDTH:g}" width="{(end - start) * CELL_WIDTH:g}"'
            rects += f'<rect {place} height="{CELL_HEIGHT}" fill="{fill}"/>'
        return rects + texts

    def _segments(self, line: Text) -> list[Segment]:
        """The parts of a line that have the same style each. A background at its end goes on to the edge of the screen:
        tmux leaves out the cells that a program has cleared with it and never written to."""
        line.end = ""
        segments = list(line.render(self.console))
        if segments and segments[-1].style and segments[-1].style.bgcolor:
            segments.append(Segment(" " * (COLUMNS - line.cell_len), segments[-1].style))
        return segments

    def _hex(self, colour: Color | None, of_background: bool) -> str:
        """A colour as CSS has it; without one, that of the text or of the background."""
        return (colour or Color.default()).get_truecolor(self.theme, foreground=not of_background).hex

    def _class(self, style: Style, fill: str) -> str:
        declarations = [f"fill:{fill}"] if fill != self.scheme.text else []
        declarations += ["font-weight:bold"] if style.bold else []
        declarations += ["font-style:italic"] if style.italic else []
        declarations += ["text-decoration:underline"] if style.underline else []
        declarations += ["opacity:.6"] if style.dim else []
        if not declarations:
            return ""
        return f' class="c{self.classes.setdefault(";".join(declarations), len(self.classes))}"'


def main():
    for program in ("tmux", "bwrap"):
        if not shutil.which(program):
            raise kit.NotInstalled(f"{program} is not installed")
    IMAGES.mkdir(exist_ok=True)
    for name in SCHEMES:
        with tempfile.TemporaryDirectory(prefix="respondent-", ignore_cleanup_errors=True) as folder:
            loopback.run_in_namespace(__file__, {"scheme": name}, Path(folder))
            path = IMAGES / f"codex-kimi-{name}.svg"
            path.write_bytes((Path(folder) / "picture.svg").read_bytes())
            print(f"{path.relative_to(kit.ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        loopback.main(record)
    else:
        try:
            main()
        except (kit.Failure, kit.Skip, kit.NotInstalled) as reason:
            sys.exit(f"nothing was recorded: {reason}")
