"""An MCP server with a tool that has effects: it counts the calls by the id in their arguments.

It is no part of the server under test, so it goes on when that is killed.
"""

import collections
import http.server
import json
import random
import threading
import time

# The server in requests, its tool as models call it, and the longest time that a call takes.
DEFINITION = {"type": "mcp", "server_label": "effects", "require_approval": "never"}
TOOL = "effects__change"
LONGEST = 0.25  # seconds
LISTED = {
    "name": "change",
    "description": "Changes something.",
    "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    "annotations": {"readOnlyHint": False},
}


def result(call: str) -> str:
    """What a call with this id returns."""
    return f"changed <{call}>"


class Server(http.server.ThreadingHTTPServer):
    """Runs in threads of this program. `made` has how often a call with an id was made."""

    daemon_threads = True
    # Clients that are killed and come back.
    request_queue_size = 64

    def __init__(self, seed: int):
        self.made = collections.Counter()
        self.lock, self.random = threading.Lock(), random.Random(seed)
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.config = f'[tools.mcp.servers.effects]\nurl = "http://127.0.0.1:{self.server_address[1]}/mcp"\nrequire_approval = "request"\n'

    def handle_error(self, *_):
        """The server under test was killed while it was answered."""

    def change(self, call: str) -> str:
        with self.lock:
            self.made[call] += 1
            pause = self.random.random() * LONGEST
        time.sleep(pause)
        return result(call)


class Answer(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            version = params["protocolVersion"]
            self.answer(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "effects", "version": "1"}})
        elif method == "tools/list":
            self.answer(message, {"tools": [LISTED]})
        elif method == "tools/call":
            text = self.server.change(params["arguments"]["id"])
            self.answer(message, {"content": [{"type": "text", "text": text}]})
        else:
            self.send(202, b"")

    def do_GET(self):
        self.send(405, b"")

    do_DELETE = do_GET

    def answer(self, message: dict, result: dict):
        self.send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def send(self, status: int, body: bytes):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
