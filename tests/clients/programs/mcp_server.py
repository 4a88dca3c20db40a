"""A small MCP server on stdin and stdout.

Without arguments it has one tool: `echo`, which returns its text reversed. With the name of a subject and a
number it has as many tools of the size that tools of real servers have, which all do the same.
"""

import json
import sys

VERBS = ("find", "read", "create", "update", "delete", "archive", "restore", "export", "import", "share", "comment", "count")
FIELDS = ("owner", "state", "label", "since", "until", "order")


def tool(name: str, description: str, more: dict) -> dict:
    schema = {"type": "object", "properties": {"text": {"type": "string"}} | more, "required": ["text"]}
    return {"name": name, "description": description, "inputSchema": schema}


def tools_of(subject: str, count: int) -> list[dict]:
    """The tools of a server for a subject, such as `find_tickets`."""
    fields = {
        field: {"type": "string", "description": f"The {field} of the {subject}. Everything that has another {field} is left out; an empty string stands for all of them."}
        for field in FIELDS
    }
    about = "Returns the ones that are concerned, with their ids, titles and times, at most a hundred at once."
    return [tool(f"{verb}_{subject}", f"Lets you {verb} {subject}. {about}", fields) for verb in VERBS[:count]]


SUBJECT = sys.argv[1] if len(sys.argv) > 1 else "demo"
TOOLS = tools_of(SUBJECT, int(sys.argv[2])) if len(sys.argv) > 2 else [tool("echo", "Returns the text reversed.", {})]


def result(method: str, params: dict) -> dict | None:
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        info = {"name": SUBJECT, "version": "1.0.0"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
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
