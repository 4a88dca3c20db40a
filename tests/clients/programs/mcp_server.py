"""A small MCP server on stdin and stdout with one tool: `echo`, which returns its text reversed."""

import json
import sys

ECHO = {
    "name": "echo",
    "description": "Returns the text reversed.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def result(method: str, params: dict) -> dict | None:
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        info = {"name": "demo", "version": "1.0.0"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [ECHO]}
    if method == "tools/call":
        text = params["arguments"]["text"][::-1]
        return {"content": [{"type": "text", "text": f"reversed: {text}"}], "isError": False}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = result(message["method"], message.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if answer is None:
        reply["error"] = {"code": -32601, "message": f"no method {message['method']}"}
    else:
        reply["result"] = answer
    print(json.dumps(reply), flush=True)
