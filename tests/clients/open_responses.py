"""Cases of the Open Responses standard: its compliance suite (programs/open_responses_client.py) and llmprobe.

A case with a `scenario` runs the suite, whose streams are judged by the strict checker as well. A case
without one runs llmprobe, whose schemas are those of the standard.
"""

import json
import shutil
from pathlib import Path

import kit
import sdk
import stored


def run(case: dict, folder: Path):
    if "scenario" not in case:
        return probe(case, folder)
    python = kit.need(kit.VENV_PYTHON, "openresponses-types")
    streams = folder / "streams"
    streams.mkdir()
    with kit.proxy_for(case, folder) as proxy:
        sdk.run_with(case, folder, proxy, [python, kit.HERE / "programs/open_responses_client.py"], "suite", [streams])
    stored.check_streams(sorted(streams.glob("*.sse")))


def probe(case: dict, folder: Path) -> str:
    """Runs llmprobe and compares what it says about the surface `responses`: how many assertions failed, and which tests did not pass."""
    program = kit.need(kit.NODE_MODULES / "llmprobe/bin/dist/llmprobe.mjs", "llmprobe")
    node = kit.need(Path(shutil.which("node") or "/node"), "node")
    (folder / "work").mkdir()
    with kit.proxy_for(case, folder) as proxy:
        flags = ["-m", proxy.first_model(), "--no-bench", "--no-save", "--json"]
        # It exits with 1 if the model fails a test, and so whenever the server has no Chat Completions.
        _, stdout, stderr = kit.run_program([node, program, proxy.base_url, *flags], folder, kit.plain_env(folder), case.get("seconds", 60), "llmprobe")
    if not stdout.strip():
        raise kit.Failure(f"llmprobe printed nothing\n{stderr}")
    conformance = json.loads(stdout)["conformance"]
    tests = [test for test in conformance["results"] if test["surface"] in ("models", "responses")]
    seen = {
        "failures": [failure for test in tests for failure in test["failures"]],
        "passed": [test["id"] for test in tests if test["outcome"] == "pass"],
        "others": {test["id"]: test["outcome"] for test in tests if test["outcome"] not in ("pass", "unsupported", "skipped")},
        "assertions": conformance["passed"],
    }
    kit.check(kit.mismatch(case["expect"], seen))
    return f"{len(seen['passed'])} tests and {seen['assertions']} assertions passed"
