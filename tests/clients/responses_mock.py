"""A minimal Responses server whose answers come from a function, to test a client without the proxy.

It records what the client sends: Responses requests, requests for the catalog, and requests to a
small MCP server over streamable HTTP at /mcp.
"""

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mock:
    """`answer(number, body)` returns the output items of a turn, or (items, input tokens)."""

    def __init__(self, answer, catalog: dict | None = None, mcp=None):
        self.answer, self.catalog, self.mcp = answer, catalog, mcp
        self.turns: list[dict] = []
        self.seen: list[tuple[str, str, dict, bytes]] = []
        self.ids = itertools.count(1)
        mock = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                mock.seen.append((self.command, self.path, dict(self.headers.items()), body))
                status, kind, reply = mock.reply(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(status)
                if reply or status != 202:
                    self.send_header("content-type", kind)
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            do_GET = do_POST = do_DELETE = do

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.base_url = f"{self.origin}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, method: str, path: str, headers: dict, body: bytes) -> tuple[int, str, bytes]:
        where = path.split("?")[0]
        if where == "/v1/models":
            return 200, "application/json", json.dumps(self.catalog or {"object": "list", "data": []}).encode()
        if where == "/mcp" and self.mcp:
            return self.mcp(method, headers, body)
        if where == "/v1/responses" and method == "POST":
            request = json.loads(body)
            self.turns.append(request)
            answered = self.answer(len(self.turns), request)
            if isinstance(answered, tuple) and len(answered) == 3:
                return answered
            items, tokens = answered if isinstance(answered, tuple) else (answered, 100)
            return 200, "text/event-stream", self.stream(items, tokens).encode()
        return 404, "application/json", b'{"error":{"message":"not here"}}'

    def stream(self, items: list[dict], tokens: int) -> str:
        number = next(self.ids)
        usage = {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        events = [{"type": "response.created", "response": {"id": f"resp_{number}"}}]
        for index, item in enumerate(items):
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage, "output": items}})
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def message(text: str) -> dict:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(number, name: str, arguments: dict, namespace: str | None = None) -> dict:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": json.dumps(arguments)}
    return item | ({"namespace": namespace} if namespace else {})


def outputs(body: dict) -> list[dict]:
    return [item for item in body["input"] if item["type"].endswith("_output")]
