"""Cases of stored responses, conversations and background responses, with the SDKs and the Agents SDKs.

The key `program` of a case says with which program its scenario runs. Its `upstreams` are run one after another:
the script, the sandbox, and llama.cpp (`llamacpp`). The streams that a program leaves are judged by the strict checker.
"""

import contextlib
import shutil
import subprocess
from pathlib import Path

import kit
import llamacpp
import sdk

PROGRAMS = {
    "openai-python": "stored_client.py",
    "openai-node": "stored_client.mjs",
    "agents-python": "agents_client.py",
    "agents-node": "stored_client.mjs",
}


def run(case: dict, folder: Path):
    kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    kit.need(kit.NODE_MODULES / "openai", "the OpenAI SDK for JavaScript")
    program = PROGRAMS[case["program"]]
    starter = kit.VENV_PYTHON if program.endswith(".py") else kit.need(Path(shutil.which("node") or "/node"), "node")
    for upstream in case.get("upstreams", ["script"]):
        subfolder = folder / upstream
        streams = subfolder / "streams"
        streams.mkdir(parents=True)
        expect = case["expect"] | case.get("also", {}).get(upstream, {})
        try:
            with upstream_of(case | {"upstream": upstream, "expect": expect}, subfolder) as (one, proxy):
                sdk.run_with(one, subfolder, proxy, [starter, kit.HERE / "programs" / program], case["program"], [streams])
            check_streams(sorted(streams.glob("*.sse")))
        except kit.Failure as reason:
            raise kit.Failure(f"{upstream}: {reason}") from None


@contextlib.contextmanager
def upstream_of(case: dict, folder: Path):
    """The case and the proxy in front of its upstream."""
    if case["upstream"] == "llamacpp":
        with llamacpp.engine("smollm2", folder) as proxy:
            yield case | {"model": "smollm2"}, proxy
    else:
        with kit.proxy_for(case, folder) as proxy:
            yield case, proxy


def check_streams(streams: list[Path]):
    """Judges whole streams by every rule of the strict checker."""
    if not streams:
        return
    checked = subprocess.run([kit.kit_program(), "check", *streams], capture_output=True, text=True, timeout=60)
    if checked.returncode != 0:
        raise kit.Failure(f"the strict checker refuses a stream: {checked.stderr}")
