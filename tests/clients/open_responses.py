"""Cases of the Open Responses standard: its compliance suite (programs/open_responses_client.py) and llmprobe.

A case with a `scenario` runs the suite, whose streams are judged by the strict checker as well. A case
without one runs llmprobe, whose schemas are those of the standard.
"""

import json
import shutil
from pathlib import Path

import kit
import sdk


def run(case: dict, folder: Path):
    if "scenario" not in case:
        return probe(case, folder)
    python = kit.need(kit.VENV_PYTHON, "openresponses-types")
    streams = folder / "streams"
    streams.mkdir()
    with kit.proxy_for(case, folder) as proxy:
        sdk.run_with(case, folder, proxy, [python, kit.HERE / "programs/open_responses_client.py"], "suite", [streams])
    kit.check_streams(sorted(streams.glob("*.sse")))


def probe(case: dict, folder: Path) -> str:
    """Runs llmprobe and looks at what it says about the list of models and the Responses API."""
    program = kit.need(kit.NODE_MODULES / "llmprobe/bin/dist/llmprobe.mjs", "llmprobe")
    node = kit.need(Path(shutil.which("node") or "/node"), "node")
    (folder / "work").mkdir()
    with kit.proxy_for(case, folder) as proxy:
        argv = [node, program, proxy.base_url, "-m", proxy.first_model(), "--no-bench", "--no-save", "--json"]
        # Its exit code does not tell an assertion that failed from a crash, but a crash leaves no report.
        _, stdout, stderr = kit.run_program(argv, folder, kit.plain_env(folder), case.get("seconds", 60), "llmprobe")
    if not stdout.strip():
        raise kit.Failure(f"llmprobe printed no report\n{stderr}")
    conformance = json.loads(stdout)["conformance"]
    tests = [test for test in conformance["results"] if test["surface"] in ("models", "responses")]
    passed = [test["id"] for test in tests if test["outcome"] == "pass"]
    failures = [failure for test in tests for failure in test["failures"]]
    seen = {"passed": passed, "failed": [failure["id"] for failure in failures], "assertions": len(failures)}
    if wrong := kit.mismatch(case["expect"], seen):
        raise kit.Failure(f"{wrong}\n{kit.brief(failures)}")
    return f"{len(passed)} tests passed, {len(failures)} assertions failed"
