"""What the cases of packages share: where the packages are, the blocks of the guide that install them, and a user's
first hour with what was installed."""

import contextlib
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import kit
import provider
import readme

PACKAGES = kit.target() / "packages"
PACKAGING = kit.ROOT / "packaging"
GUIDE = kit.ROOT / "docs/deployment.md"
PORT = 8099
URL = f"http://127.0.0.1:{PORT}/v1"
# How long a program may take, in seconds.
PATIENCE = 120
# What Codex prints of the demo model's answer.
DEMO = ["I ran a command to check that tools work. It printed:", "> Hello from the offline model"]
LOOK = {"index": 0, "id": "functions.look:0", "name": "look", "arguments": '{"at": "the wall"}'}
READ = {"index": 0, "id": "functions.exec_command:0", "name": "exec_command", "arguments": '{"cmd":"cat note.txt"}'}
# What the provider says to the doctor, and to Codex when it is asked what a note says.
SCRIPT = {
    "models": ["m2"],
    "answers": [
        {"repeat": True, "when": {"last_contains": "one word"}, "steps": [{"text": "Noon."}]},
        {
            "repeat": True,
            "when": {"last_contains": "four brass keys"},
            "steps": [{"reasoning": "I have read it."}, {"text": "The note names four brass keys."}],
        },
        {"repeat": True, "when": {"last_role": "tool"}, "steps": [{"reasoning": "I have looked."}, {"text": "Seen."}]},
        {"repeat": True, "when": {"last_contains": "note"}, "steps": [{"reasoning": "I must read."}, {"call": READ}]},
        {"repeat": True, "steps": [{"reasoning": "I must look."}, {"call": LOOK}]},
    ],
}


def package(pattern: str) -> Path:
    """The package of this kind."""
    found = list(PACKAGES.glob(pattern))
    if len(found) != 1:
        raise kit.Failure(f"{PACKAGES} has {len(found)} files {pattern}: run packaging/build.sh {kit.binary()}")
    return found[0]


def check_program(installed: Path):
    """Fails if a package contains another program than the one under test."""
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in (installed, kit.binary())}
    if len(digests) != 1:
        raise kit.Failure(f"the packages contain another program: run packaging/build.sh {kit.binary()}")


def run_as_user(argv: list, folder: Path, env: dict, project: Path, name: str) -> str:
    """Runs a program to its end, which must be a success, and returns what it printed."""
    status, stdout, stderr = kit.run_program(argv, folder, env, PATIENCE, name, project)
    if status != 0:
        raise kit.Failure(f"{name} ended with {status}")
    return stdout + stderr


def gone(left: list[Path]):
    if left:
        raise kit.Failure(f"{left} is left")


def block(name: str) -> str:
    """A shell block of the deployment guide."""
    return readme.blocks(GUIDE.read_text())[name][0]


def play(case: dict, folder: Path, project: Path, hour):
    """Runs the program `hour.sh` in the project, with a provider of which nobody knows more than the address.

    It must print the answer of the demo model and the lines that the case expects. The doctor may be refused, but on the
    file that it writes no request of Codex is.
    """
    (project / "note.txt").write_text("four brass keys\n")
    script = kit.strict(case["strict"]) | SCRIPT
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(kit.Player(script, folder))
        argv = [sys.executable, kit.HERE / "provider.py", PORT, player.base_url]
        front = stack.enter_context(kit.Process(argv, folder / "provider.log"))
        front.wait_until(lambda: kit.answers(f"http://127.0.0.1:{PORT}"), "nothing listens", PATIENCE)
        printed = hour({"URL": URL, "LAB_KEY": provider.RIGHT_KEY}).splitlines()
        requests = player.requests()
    kit.check(kit.mismatch([*DEMO, *case["expect"]["prints"]], printed, "the output"))
    of_codex = [request for request in requests if "exec_command" in json.dumps(request["json"].get("tools"))]
    kit.check(kit.mismatch(2, len(of_codex), "the number of Codex's requests"))
    kit.check(kit.mismatch([], [request["refusal"] for request in of_codex if request["refusal"]], "the refusals"))
    if len(of_codex) == len(requests):
        raise kit.Failure("the doctor has sent no request")
