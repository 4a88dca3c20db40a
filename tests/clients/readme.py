"""Runs the shell blocks of README.md, and of the other pages, as a new user would.

A case names its `page`, the README if left out, and its block by the words above it: the heading, or the bold words
at the beginning of a line, with a number if there are several. Bash runs the block as it stands, after the lines of
`before`, in a new home and in a network of its own, in which there is only loopback. So the ports that the README
names are free, and nothing else can be reached: HTTPS_PROXY leads to a `Gate`, which stands in for the hosts of the
providers and passes their requests to the scripted upstream, and a case may have a `web` (web.py). If a `text` block follows, the block must print its
lines. A block that ends with Codex's terminal interface is typed into a terminal, and so is the `prompt` of the case.
A case with a `provider` runs the row of the README's table that begins with it.
"""

import contextlib
import json
import re
import urllib.request
from pathlib import Path

import kit
import loopback
import terminal
import web

README = kit.ROOT / "README.md"


def blocks(text: str) -> dict[str, tuple[str, list[str]]]:
    """The shell blocks by name, each with the lines that the README shows as its output."""
    found: dict[str, tuple[str, list[str]]] = {}
    name, last = "", ""
    for part in re.finditer(r"^```(\w*)\n(.*?)^```$|^(?:#+ ([^\n]+)|\*\*([^*]+)\*\*)", text, re.M | re.S):
        language, content, heading, bold = part.groups()
        if heading or bold:
            name, last = heading or bold, ""
        elif language == "sh":
            numbered = (f"{name} {n}" if n > 1 else name for n in range(1, 100))
            last = next(name for name in numbered if name not in found)
            found[last] = (content, [])
        elif language == "text" and last:
            found[last] = (found[last][0], content.splitlines())
            last = ""
    return found


def table(text: str) -> dict[str, tuple[str, str]]:
    """The rows of the README's table of providers by name: the variable with the key, and the model."""
    rows = re.findall(r"^\| ([^|`]+?) \| (?:`(\w+)`|none) \| `([^`]+)` \|", text, re.M)
    return {name: (variable, model) for name, variable, model in rows}


def code_of(case: dict) -> tuple[str, list[str]]:
    """What the case runs, and the lines that the page shows as its output."""
    text = (kit.ROOT / case.get("page", README.name)).read_text()
    if "provider" not in case:
        code, shown = blocks(text)[case["block"]]
        return "".join(f"{line}\n" for line in case.get("before", [])) + code, shown
    variable, model = table(text)[case["provider"]]
    key = f"export {variable}=sk-...\n" if variable else "mkdir -p ~/.config/respondent\n" + "".join(
        f"echo '{line}' >> ~/.config/respondent/proxy-config.toml\n" for line in case["config"]
    )
    return f'{key}respondent run codex --model {model} exec "Say hello."\n', []


def type_block(code: str, case: dict, folder: Path, env: dict, project: Path) -> str:
    """Types a block that ends with Codex, then a prompt, and leaves Codex. Returns the last screen."""
    screen = terminal.Terminal("readme", folder, project, env)
    try:
        for line in code.splitlines()[:-1]:
            screen.command(line)
        screen.begin(code.splitlines()[-1])
        screen.wait("Trust this folder")
        screen.press_until("Enter", "Ask Codex")
        screen.type(case["prompt"])
        screen.wait(case["answer"])
        screen.type("/quit")
        if (status := screen.status()) != 0:
            raise kit.Failure(f"the block ended with {status}:\n{screen.screen()}")
        return screen.screen()
    finally:
        screen.close()


def run(case: dict, folder: Path):
    """Runs the case in a network of its own, in another process."""
    kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    loopback.run_in_namespace(__file__, case, folder)


def run_alone(case: dict, folder: Path):
    """Runs the case in this process, whose network has nothing but loopback."""
    code, shown = code_of(case)
    with contextlib.ExitStack() as stack:
        upstream = None
        home, project, env = loopback.user(folder)
        if "script" in case:
            listen = case.get("listen", "127.0.0.1:0")
            upstream = stack.enter_context(kit.Player(case["script"], folder, listen))
        if "host" in case:
            gate = stack.enter_context(loopback.Gate([case["host"]], upstream.base_url, folder))
            env |= gate.env
        if "web" in case:
            env |= stack.enter_context(web.Web(case["web"], folder)).env
        block = folder / "block.sh"
        block.write_text(code)
        expect = case["expect"]
        seconds = case.get("seconds", 100)
        if "prompt" in case:
            stdout = type_block(code, case, folder, env, project)
        elif "models" in expect:
            stdout = serve(block, env, folder, expect["models"], seconds)
        else:
            status, stdout, _ = kit.run_program(["bash", "-e", block], folder, env, seconds, "block", project)
            if status != 0:
                raise kit.Failure(f"the block ended with {status}")
        for lines in filter(None, (list(map(as_pattern, shown)), expect.get("prints"))):
            kit.check(kit.mismatch(lines, stdout.splitlines(), "the output"))
        for name in expect.get("files", []):
            if not (home / name).exists():
                raise kit.Failure(f"there is no {name}")
        for pattern in expect.get("gone", []):
            if left := [str(path) for path in home.glob(pattern)]:
                raise kit.Failure(f"{pattern}: {left} is left")
        if "host" in case:
            kit.check(kit.mismatch(expect["requests"], gate.requests, "the requests to the provider"))
        elif upstream:
            kit.check(kit.mismatch(expect["requests"], upstream.requests(), "the requests to the provider"))


def as_pattern(line: str) -> str:
    """What `kit.mismatch` compares with a line of the output: with `…` at its end, it is the beginning of a line."""
    return f"~^{re.escape(line.removesuffix('…'))}" if line.endswith("…") else line


def serve(block: Path, env: dict, folder: Path, models: list, seconds: float) -> str:
    """Runs a block that starts the server and stays: the server must list these models, and end when it is stopped."""
    with kit.Process(["bash", "-e", block], folder / "block.log", env=env, cwd=kit.ROOT) as server:
        server.wait_for_url(f"{loopback.SERVER}/healthz", seconds)
        with urllib.request.urlopen(f"{loopback.SERVER}/v1/models") as reply:
            listed = [model["id"] for model in json.load(reply)["data"]]
        kit.check(kit.mismatch(models, listed, "the models"))
        return server.text()


if __name__ == "__main__":
    loopback.main(run_alone)
