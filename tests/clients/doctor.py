"""Cases of `respondent doctor`: it measures a server of which only the address is known and writes its
provider file. On that file the Codex CLI then runs a tool loop in which nothing is refused, or the models
of a real engine are listed.
"""

import json
from pathlib import Path

import codex
import kit
import llamacpp

WORDS = "Call the tool"


def run(case: dict, folder: Path):
    (folder / "work").mkdir()
    return run_engine(case, folder) if "engine" in case else run_codex(case, folder)


def run_codex(case: dict, folder: Path):
    """The doctor on a scripted upstream, then the Codex CLI."""
    kit.need(codex.CODEX, "the Codex CLI")
    script = case["script"] | {"answers": case["script"]["answers"] + answers(case.get("call", {}))}
    script |= kit.strict(case["strict"]) if "strict" in case else {}
    with kit.Player(script, folder) as player:
        report = measured(folder, player.base_url, "--write")
        kit.check(kit.mismatch(case.get("report", {}), report, "the report"))
        asked = len(player.requests())
        if asked > 12 or asked != report["requests"]:
            raise kit.Failure(f"the upstream was asked {asked} times, and {report['requests']} are reported")
        (folder / "work").rmdir()
        # Without a configuration, the file of the doctor is all there is.
        with kit.Proxy(folder) as proxy:
            session = codex.Session(proxy, folder, case["codex"])
            for prompt in case["prompts"]:
                turn = session.turn(prompt, 60)
            seen = {"code": turn.code, "message": turn.message, "items": session.items}
            kit.check(kit.mismatch(case["expect"], seen, "codex"))
        later = player.requests()[asked:]
        if refused := [request["refusal"] for request in later if request["refusal"]]:
            raise kit.Failure(f"refused on the file of the doctor: {kit.brief(refused)}")
        return f"{asked} requests to measure it, {len(later)} without a refusal"


def answers(call: dict) -> list[dict]:
    """What the model answers to the doctor. `call` are further keys of its call."""
    look = {"id": "call_look", "name": "look", "arguments": '{"at": "the door"}'} | call
    thought = {"reasoning": "I must look."}
    return [
        {"repeat": True, "when": {"last_contains": WORDS}, "steps": [thought, {"call": look}]},
        {"repeat": True, "steps": [thought, {"text": "Closed."}]},
    ]


def run_engine(case: dict, folder: Path):
    """The doctor on llama.cpp, then the models that are listed with its file."""
    model = case["engine"]
    with llamacpp.served(model, folder) as base_url:
        report = measured(folder, base_url, "--write", *case.get("args", []))
        kit.check(kit.mismatch(case["report"], report, "the report"))
        argv = [kit.binary(), "models", "--provider", "lab", "--json"]
        code, stdout, _ = kit.run_program(argv, folder, kit.plain_env(folder), 30, "models")
        if code != 0:
            raise kit.Failure(f"the models are not listed, exit code {code}")
        kit.check(kit.mismatch(case["models"], json.loads(stdout)[0]["models"], "the models"))
        return f"{report['requests']} requests, {report['tokens']} tokens"


def measured(folder: Path, base_url: str, *args: str) -> dict:
    """What the doctor reports of the server at this address, under an unknown name."""
    argv = [kit.binary(), "doctor", "--url", base_url, "--provider", "lab", "--json", *args]
    code, stdout, _ = kit.run_program(argv, folder, kit.plain_env(folder), 90, "doctor")
    report = json.loads(stdout) if stdout else None
    if code != 0:
        raise kit.Failure(f"the doctor ended with {code}: {kit.brief(report)}")
    return report["providers"][0]
