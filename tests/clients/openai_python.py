"""Cases of the official Python SDK (programs/openai_client.py)."""

from pathlib import Path

import kit
import loopback
import sdk
import web


def run(case: dict, folder: Path):
    if "web" in case:
        return loopback.run_in_namespace(__file__, case, folder)
    return run_alone(case, folder)


def run_alone(case: dict, folder: Path):
    python = kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    sdk.run(case, folder, [python, kit.HERE / "programs/openai_client.py"], "openai-python")


if __name__ == "__main__":
    loopback.main(lambda case, folder: web.run_with(case, folder, run_alone))
