"""Runs the cases of the SDKs. A small program plays a scenario with the SDK and prints the results as JSON."""

import json
from pathlib import Path

import kit


def run(case: dict, folder: Path, argv: list, program: str, also: dict | None = None):
    """Runs a scenario with the proxy in front of the upstream of the case."""
    with kit.proxy_for(case, folder) as proxy:
        run_with(case, folder, proxy, argv, program, also=also)


def run_with(case: dict, folder: Path, proxy: kit.Proxy, argv: list, program: str, more=(), also: dict | None = None):
    """Runs `argv` with the base URL, the model, the scenario and `more` as further arguments, and checks the last line of its output."""
    (folder / "work").mkdir()
    argv = [*argv, proxy.base_url, case.get("model") or proxy.first_model(), case["scenario"], *more]
    env = kit.plain_env(folder) | {"AI_SDK_LOG_WARNINGS": "false"}
    code, stdout, stderr = kit.run_program(argv, folder, env, case.get("seconds", 60), program)
    if code != 0:
        raise kit.Failure(f"{program} exited with {code}")
    lines = stdout.strip().splitlines()
    if not lines:
        raise kit.Failure(f"{program} printed nothing")
    seen = json.loads(lines[-1])
    if "asked" in case["expect"]:
        seen["asked"] = len(proxy.upstream.requests())
    kit.check(kit.mismatch(case["expect"], seen) or kit.mismatch(also or {}, seen))
