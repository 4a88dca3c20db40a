"""Cases of the SDKs: a small program plays one scenario with the SDK and prints the results as JSON."""

import json
from pathlib import Path

import kit


def run(case: dict, folder: Path, argv: list, program: str, also: dict | None = None):
    """Runs `argv` followed by the base URL, the model and the scenario, and checks its last line."""
    (folder / "work").mkdir()
    with kit.proxy_for(case, folder) as proxy:
        words = [*argv, proxy.base_url, case.get("model") or proxy.first_model(), case["scenario"]]
        env = kit.plain_env(folder) | {"AI_SDK_LOG_WARNINGS": "false"}
        code, stdout, stderr = kit.run_program(words, folder, env, case.get("seconds", 60), program)
        if code != 0:
            raise kit.Failure(f"{program} exited with {code}")
        lines = stdout.strip().splitlines()
        if not lines:
            raise kit.Failure(f"{program} printed nothing")
        seen = json.loads(lines[-1])
        kit.check(kit.mismatch(case["expect"], seen) or kit.mismatch(also or {}, seen))
