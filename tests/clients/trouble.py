"""Produces each symptom of docs/troubleshooting.md, applies the remedy, and sees the symptom gone.

A case names the row of the page by the words in its first cell. It has two shell scripts, which use the functions of
`programs/user.sh`: `symptom` must print every `quoted` word of the first cell, `remedy` must succeed without them
and print `then`. Both run in the same home, in a network in which there is only loopback. The provider of the cases
is `provider.py`, at http://127.0.0.1:8099/v1.
"""

import re
import sys
from pathlib import Path

import kit
import loopback

PAGE = kit.ROOT / "docs/troubleshooting.md"
PORT = 8099
ANSWER = {"answers": [{"repeat": True, "steps": [{"text": "Hello from the provider."}]}]}


def rows() -> dict[str, list[str]]:
    """The words of each symptom, by the first of them."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = line.split(" | ")
        if line.startswith("| ") and len(cells) == 3 and (words := re.findall(r"`([^`]+)`", cells[0])):
            found[words[0]] = words
    return found


def run(case: dict, folder: Path):
    """Runs the case in a network of its own, in another process."""
    loopback.run_in_namespace(__file__, case, folder)


def run_alone(case: dict, folder: Path):
    """Runs the case in this process, whose network has nothing but loopback."""
    words = rows()[case["row"]]
    _, project, env = loopback.user(folder)
    env |= {"SERVER": loopback.SERVER, "PROVIDER": f"http://127.0.0.1:{PORT}/v1"}
    with kit.Player(ANSWER, folder) as player:
        argv = [sys.executable, kit.HERE / "provider.py", PORT, player.base_url]
        with kit.Process(argv, folder / "provider.log"):
            _, shown = play(case["symptom"], "symptom", env, folder, project)
            if missing := [word for word in words if word not in shown]:
                raise kit.Failure(f"the symptom does not show {missing}:\n{shown}")
            code, shown = play(case["remedy"], "remedy", env, folder, project)
            if code != 0:
                raise kit.Failure(f"the remedy ended with {code}:\n{shown}")
            if left := [word for word in words if word in shown]:
                raise kit.Failure(f"the remedy still shows {left}:\n{shown}")
            kit.check(kit.mismatch(f"~{case['then']}", shown, "the remedy"))


def play(lines: list[str], name: str, env: dict, folder: Path, project: Path) -> tuple[int, str]:
    """Runs a script and returns its exit code, and what it and the server have printed."""
    script = folder / f"{name}.sh"
    script.write_text("\n".join(["set -o pipefail", f"source {kit.HERE}/programs/user.sh", *lines, ""]))
    options = ["-e"] if name == "remedy" else []
    code, stdout, stderr = kit.run_program(["bash", *options, script], folder, env, 60, name, project)
    log = project.parent / "server.log"
    return code, stdout + stderr + (log.read_text() if log.exists() else "")


if __name__ == "__main__":
    loopback.main(run_alone)
