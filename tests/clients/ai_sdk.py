"""Cases of the AI SDK (programs/ai_sdk_client.mjs), each with its providers `openai` and `open-responses`.

`also` holds the expectations for one of the two alone. `open-responses` shows the message of an error
only when its `param` and `code` are strings, and shows no pieces of a call.
"""

import shutil
from pathlib import Path

import kit
import sdk


def run(case: dict, folder: Path):
    kit.need(kit.NODE_MODULES / "ai", "the AI SDK")
    node = kit.need(Path(shutil.which("node") or "/node"), "node")
    for provider in ("openai", "open-responses"):
        each = folder / provider
        each.mkdir()
        also = case.get("also", {}).get(provider, {})
        try:
            sdk.run(case, each, [node, kit.HERE / "programs/ai_sdk_client.mjs", provider], "ai-sdk", also)
        except kit.Failure as reason:
            raise kit.Failure(f"{provider}: {reason}") from None
