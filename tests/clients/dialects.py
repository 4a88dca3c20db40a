"""The Codex CLI on the files that `respondent doctor` writes for the made-up providers of `fixtures/dialects`.

Each provider is measured without a key, and Codex then runs a tool loop in which nothing may be refused. Too
long for CI, which runs the loop of the test kit on the same files (tests/it/doctor/made_dialects.rs).

    .venv/bin/python dialects.py [NAME …]
"""

import json
import sys
import tempfile
from pathlib import Path

import codex
import doctor
import kit

# This part of the providers has to be understood, in percent.
UNDERSTOOD = 95

DIALECTS = kit.ROOT / "fixtures/dialects"


def run(path: Path, folder: Path) -> str:
    dialect = json.loads(path.read_text())
    script = {key: value for key, value in dialect["script"].items() if key != "key"}
    script["answers"] = answers() + doctor.answers({"id": "call_1"})
    (folder / "work").mkdir()
    with kit.Player(script, folder) as player:
        named = ["--model", dialect["model"]] if dialect.get("model") else []
        origin = "/".join(player.base_url.split("/")[:3])
        report = doctor.measured(folder, origin + dialect["url"], "--write", *named)
        asked = len(player.requests())
        (folder / "work").rmdir()
        with kit.Proxy(folder) as proxy:
            # Not every provider lists its models.
            proxy.first_model = lambda: f"lab/{report['model']}"
            session = codex.Session(proxy, folder, {"files": {"note.txt": "four brass keys\n"}})
            for prompt, expected in [("How many keys are there?", "There are four."), ("Again, please.", "Still four.")]:
                turn = session.turn(prompt, 60)
                kit.check(kit.mismatch(expected, turn.message, prompt))
        if refused := [request["refusal"] for request in player.requests()[asked:] if request["refusal"]]:
            raise kit.Failure(f"refused on the file of the doctor: {kit.brief(refused)}")
    return f"{asked} requests to measure it"


def answers() -> list[dict]:
    """What the model answers to Codex."""
    look = {"id": "call_1", "name": "exec_command", "arguments": '{"cmd":"cat note.txt"}'}
    return [
        {"repeat": True, "when": {"last_contains": "Again"}, "steps": [{"reasoning": "Four."}, {"text": "Still four."}]},
        {"when": {"tool_offered": "exec_command"}, "steps": [{"reasoning": "I must look."}, {"call": look}]},
        {"repeat": True, "when": {"tool_offered": "exec_command"}, "steps": [{"reasoning": "Four."}, {"text": "There are four."}]},
    ]


def main() -> int:
    paths = sorted(DIALECTS.glob("*.json"))
    paths = [path for path in paths if path.stem in sys.argv[1:] or not sys.argv[1:]]
    understood = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"ok     {path.stem}: {run(path, Path(folder))}", flush=True)
                understood += 1
            except (kit.Failure, OSError) as failure:
                print(f"FAILED {path.stem}: {str(failure)[-900:]}", flush=True)
    print(f"Codex works with {understood} of {len(paths)} providers")
    return 0 if understood * 100 >= len(paths) * UNDERSTOOD else 1


if __name__ == "__main__":
    sys.exit(main())
