"""Cases of the AI SDK (programs/ai_sdk_client.mjs). Each runs with the providers `openai` and `open-responses`.

The key `also` of a case has expectations for only one of the two. `open-responses` shows the message of an
error only if its `param` and `code` are strings, and shows no fragments of a call.
"""

import shutil
from pathlib import Path

import kit
import sdk


def run(case: dict, folder: Path):
    kit.need(kit.NODE_MODULES / "ai", "the AI SDK")
    node = kit.need(Path(shutil.which("node") or "/node"), "node")
    for provider in ("openai", "open-responses"):
        subfolder = folder / provider
        subfolder.mkdir()
        also = case.get("also", {}).get(provider, {})
        try:
            sdk.run(case, subfolder, [node, kit.HERE / "programs/ai_sdk_client.mjs", provider], "ai-sdk", also)
        except kit.Failure as reason:
            raise kit.Failure(f"{provider}: {reason}") from None
