"""Cases in which schemathesis makes requests from `GET /openapi.json` and judges the answers.

Each operation may answer only with the statuses that the document names for it: the `default` of the
operations, which stands for faults of providers and of the machine, is taken out. The ids in paths are
those of things that exist, and the requests are the same in every run.
"""

import json
import urllib.request
from pathlib import Path

import kit

SCHEMATHESIS = kit.VENV_PYTHON.parent / "schemathesis"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# A client of MCP has to accept both.
CONFIG = """[[operations]]
include-path = "/mcp"
headers = { Accept = "application/json, text/event-stream" }
"""


# Promise: No request that schemathesis makes from the OpenAPI document gets a status, a content
# type or a body that the document does not name, or a server error.
def run(case: dict, folder: Path) -> str:
    kit.need(SCHEMATHESIS, "schemathesis")
    (folder / "work").mkdir()
    config, document = folder / "schemathesis.toml", folder / "openapi.json"
    config.write_text(CONFIG)
    with kit.proxy_for(case, folder) as proxy:
        documented = json.loads(proxy.get("/openapi.json"))
        document.write_text(json.dumps(prepared(documented, things(proxy))))
        argv = [SCHEMATHESIS, "--config-file", config, "--no-color", "run", document, "--url", proxy.origin]
        argv += ["--checks", CHECKS, "--continue-on-failure", "--generation-deterministic", "-n", case["examples"], "--warnings", "off"]
        code, stdout, stderr = kit.run_program(argv, folder, kit.plain_env(folder), case.get("seconds", 300), "schemathesis")
    if code != 0:
        raise kit.Failure(f"schemathesis exited with {code}\n{stdout[-6000:]}{stderr}")
    lines = [line.strip() for line in stdout.splitlines()]
    kit.check(kit.mismatch(case["expect"]["lines"], lines, "lines"))
    return next(line for line in lines if "generated" in line)


def things(proxy: kit.Proxy) -> dict[str, list[str]]:
    """The ids of things of each kind, by the beginning of the paths that have them."""

    def call(path: str, body=None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(proxy.base_url + path, data, {"content-type": "application/json"}), timeout=30) as reply:
            return json.load(reply)

    model = proxy.first_model()
    log = [
        {"role": "user", "content": "Read the log."},
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a line of the log\n" * 5000},
    ]
    bodies = [{"model": model, "input": log}, {"model": model, "input": "x"}, {"model": model, "input": "x", "background": True}]
    items = {"items": [{"type": "message", "role": "user", "content": "x"}]}
    return {
        "/v1/responses/": [call("/responses", body)["id"] for body in bodies],
        "/v1/conversations/": [call("/conversations", items)["id"] for _ in range(2)],
        "/v1/artifacts/": [artifact["id"] for artifact in call("/artifacts")["data"]],
        "/v1/models/": [model],
    }


def prepared(document: dict, ids: dict[str, list[str]]) -> dict:
    """The document with the model and the ids of things that exist, and without the answers that stand for all others."""
    document["components"]["schemas"]["CreateResponse"]["properties"]["model"] = {"type": "string", "enum": ids["/v1/models/"]}
    for path, operations in document["paths"].items():
        known = next((found for beginning, found in ids.items() if path.startswith(beginning)), [])
        for method, operation in operations.items():
            del operation["responses"]["default"]
            # What is deleted is there for the other operations first.
            if known and method != "delete":
                operation["parameters"] = [
                    parameter if parameter.get("$ref") != "#/components/parameters/Id" else id_parameter(known)
                    for parameter in operation.get("parameters", [])
                ]
    return document


def id_parameter(known: list[str]) -> dict:
    return {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "enum": known}}
