#!/usr/bin/env python3
"""Tasks with answers deep inside long tool outputs: tasks.py [--window N] [--keep] [filter]

Each task of tasks.json is played through the real proxy twice, with bounding on and off. The agent is
scripted: it has the question, the words to search for and the patterns of the answer, and its only
view of the session is the request to the upstream. It runs the commands of the task and answers once it sees an
answer; otherwise it uses artifact_search and artifact_read as the excerpt says. The upstream refuses
requests that exceed its window. Prints a line for each task and both totals. Exits with 1 when a task
fails with bounding that succeeds without it, or that needs bounding.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fills
import kit

BYTES_PER_TOKEN = 2.7
ROUNDS = 24
ARTIFACT = re.compile(r"art_[0-9a-f]{32}")
NAMESPACE = "mcp__respondent"


class Agent:
    """The model: it answers from one request and the searches that it has already tried."""

    def __init__(self, task: dict):
        self.task = task
        self.ran = 0
        self.searched: set[tuple[str, str]] = set()
        self.read: list[dict] = []

    def next(self, request: dict) -> dict:
        """The next action: {"say": text} or {"call": (name, arguments)}."""
        messages = request["messages"]
        offered = {tool["function"]["name"] for tool in request.get("tools", [])}
        steps = self.task["outputs"]
        if self.ran < len(steps):
            self.ran += 1
            return {"call": ("exec_command", {"cmd": steps[self.ran - 1].get("cmd", f"step {self.ran}")})}
        seen = [text(message) for message in messages if message["role"] != "system" and message is not messages[0]]
        if (answer := self.answer(seen)) is not None:
            return {"say": answer}
        if f"{NAMESPACE}__artifact_search" not in offered:
            return {"say": "I cannot see it."}
        ids = list(dict.fromkeys(found for content in seen for found in ARTIFACT.findall(content)))
        for word in self.task["keywords"]:
            for artifact in ids:
                if (artifact, word) not in self.searched:
                    self.searched.add((artifact, word))
                    return {"call": (f"{NAMESPACE}__artifact_search", {"id": artifact, "query": word})}
        for page in self.pages_around_matches(messages):
            if page not in self.read:
                self.read.append(page)
                return {"call": (f"{NAMESPACE}__artifact_read", page)}
        return {"say": "I cannot find it."}

    def answer(self, seen: list[str]) -> str | None:
        """The matches of all patterns in the visible messages; None unless all match."""
        everything = "\n".join(seen)
        found = [re.search(pattern, everything) for pattern in self.task["patterns"]]
        return " ".join(match[1] for match in found) if all(found) else None

    def pages_around_matches(self, messages: list[dict]) -> list[dict]:
        """Pages around the matches of searches, the newest search first, as arguments of artifact_read."""
        pages = []
        for message in reversed(messages):
            content = text(message)
            head = re.search(r"\[artifact (art_[0-9a-f]{32}) search ", content)
            if message["role"] == "tool" and head:
                for line, byte in re.findall(r"(?m)^(\d+)(?: byte (\d+))?: ", content):
                    around = {"from_byte": max(0, int(byte) - 500), "max_chars": 1000} if byte else {"from_line": max(1, int(line) - 10), "lines": 40}
                    pages.append({"id": head[1]} | around)
        return pages


def text(message: dict) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


class Upstream:
    """A Chat Completions provider with a context window, whose answers come from its current agent."""

    def __init__(self, window: int):
        self.window = window
        self.agent: Agent | None = None
        self.bodies: list[bytes] = []
        self.refused = 0
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status, kind, reply = upstream.reply(body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, body: bytes) -> tuple[int, str, bytes]:
        tokens = round(len(body) / BYTES_PER_TOKEN)
        if tokens > self.window:
            self.refused += 1
            error = f"This model's maximum context length is {self.window} tokens. However, your request has {tokens} tokens."
            return 400, "application/json", json.dumps({"error": {"message": error, "code": "context_length_exceeded"}}).encode()
        self.bodies.append(body)
        action = self.agent.next(json.loads(body))
        if "say" in action:
            delta, finish = {"content": action["say"]}, "stop"
        else:
            name, arguments = action["call"]
            call = {"name": name, "arguments": json.dumps(arguments)}
            delta, finish = {"tool_calls": [{"index": 0, "id": f"call_{len(self.bodies)}", "type": "function", "function": call}]}, "tool_calls"
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        chunks = [
            {"choices": [{"index": 0, "delta": {"role": "assistant"} | delta}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], "usage": usage},
        ]
        return 200, "text/event-stream", ("".join(f"data: {json.dumps({'id': 'c', 'model': 'm'} | chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n").encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Client:
    """The client side of a coding agent, which keeps the history, runs commands and calls MCP tools."""

    def __init__(self, proxy: kit.Proxy):
        self.proxy = proxy
        self.tools = [COMMAND]
        try:
            self.rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tasks", "version": "1"}})
            listed = self.rpc("tools/list", {})["tools"]
        except urllib.error.HTTPError:
            return
        functions = [{"type": "function", "name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]} for tool in listed]
        self.tools.append({"type": "namespace", "name": NAMESPACE, "description": "Artifacts.", "tools": functions})

    def rpc(self, method: str, params: dict) -> dict:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if method != "initialize":
            headers["mcp-protocol-version"] = "2025-06-18"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(f"{self.proxy.origin}/mcp", body, headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            answer = reply.read().decode()
        if answer.lstrip().startswith(("event:", "data:", "id:")):
            answer = next(line[5:] for line in answer.splitlines() if line.startswith("data:") and "jsonrpc" in line)
        return json.loads(answer)["result"]

    def work(self, task: dict) -> str:
        """The final message of a task, or the error that stopped it."""
        items = [{"type": "message", "role": "user", "content": task["question"]}]
        outputs = iter(task["outputs"])
        for _ in range(ROUNDS):
            try:
                answer = self.turn(items)
            except urllib.error.HTTPError as fault:
                return f"HTTP {fault.code}: {fault.read()[:160].decode(errors='replace')}"
            items += answer["output"]
            calls = [item for item in answer["output"] if item["type"] == "function_call"]
            if not calls:
                return "".join(part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"])
            for call in calls:
                items.append({"type": "function_call_output", "call_id": call["call_id"], "output": self.result(call, outputs)})
        return "gave up"

    def result(self, call: dict, outputs):
        if call["name"] == "exec_command":
            return fills.output(next(outputs))
        result = self.rpc("tools/call", {"name": call["name"], "arguments": json.loads(call["arguments"])})
        parts = [{"type": "input_text", "text": part["text"]} for part in result["content"]]
        return [{"type": "input_text", "text": "Wall time: 0.0123 seconds\nOutput:"}, *parts]

    def turn(self, items: list[dict]) -> dict:
        body = {"model": "scripted", "input": items, "tools": self.tools, "store": False}
        request = urllib.request.Request(f"{self.proxy.base_url}/responses", json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)


COMMAND = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}


def bill(bodies: list[bytes]) -> tuple[float, float]:
    """The number of sent tokens, and their cost if a token of a shared prefix costs a tenth."""
    sent = sum(map(len, bodies))
    shared = sum(common(before, body) for before, body in zip(bodies, bodies[1:]))
    return sent / BYTES_PER_TOKEN, (sent - 0.9 * shared) / BYTES_PER_TOKEN


def common(one: bytes, two: bytes) -> int:
    """The length of the common prefix."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == two[:middle] else (low, middle - 1)
    return low


def play(tasks: list[dict], outputs: str, window: int, folder: Path) -> dict[str, tuple[bool, str, int, float, float]]:
    """Plays the tasks. Returns by name: (succeeded, answer, requests, tokens, tokens with a cache)."""
    folder.mkdir()
    more = f"window = {window}\nbytes_per_token = {BYTES_PER_TOKEN}\n[context]\noutputs = \"{outputs}\"\n"
    seen = {}
    with Upstream(window) as upstream, kit.Proxy(folder, upstream.base_url, more=more) as proxy:
        client = Client(proxy)
        for task in tasks:
            upstream.agent, upstream.bodies = Agent(task), []
            answer = client.work(task)
            seen[task["name"]] = (answer == task["answer"], answer, len(upstream.bodies), *bill(upstream.bodies))
    return seen


def total(label: str, seen: dict) -> str:
    succeeded = sum(row[0] for row in seen.values())
    requests, tokens, cached = (sum(row[column] for row in seen.values()) for column in (2, 3, 4))
    return f"bounding {label}: {succeeded} of {len(seen)} tasks, {requests} requests, {tokens / 1e6:.2f} M tokens, {cached / 1e6:.2f} M with the cached at a tenth"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("filter", nargs="?", default="")
    options.add_argument("--window", type=int, default=262_144)
    options.add_argument("--keep", action="store_true", help="leave the folder of the proxies")
    chosen = options.parse_args()
    tasks = [task for task in json.loads((kit.HERE / "tasks.json").read_text()) if chosen.filter in task["name"]]
    folder = Path(tempfile.mkdtemp(prefix="respondent-tasks-"))
    try:
        on = play(tasks, "adaptive", chosen.window, folder / "on")
        off = play(tasks, "whole", chosen.window, folder / "off")
    finally:
        if chosen.keep:
            print(f"left {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    lost = 0
    for task in tasks:
        (succeeded, answer, requests, *_), (succeeded_off, answer_off, *_) = on[task["name"]], off[task["name"]]
        lost += not succeeded
        wrong = "" if succeeded else f": said {answer!r}, not {task['answer']!r}"
        without = "" if succeeded_off else f" (off: {answer_off[:70]!r})"
        print(f"{'ok' if succeeded else 'LOST':5} {task['name']}, {requests} requests{wrong}{without}")
    print(total("on", on))
    print(total("off", off))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
