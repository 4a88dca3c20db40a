"""Cases of the official Python SDK (programs/openai_client.py)."""

from pathlib import Path

import kit
import sdk


def run(case: dict, folder: Path):
    python = kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    sdk.run(case, folder, [python, kit.HERE / "programs/openai_client.py"], "openai-python")
