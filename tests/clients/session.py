#!/usr/bin/env python3
"""Long sessions with long outputs: session.py [--turns N] [--megabytes N] [--window TOKENS ...] [--compaction KIND]

A scripted agent talks through the proxy to an upstream that counts a token for every 2.7 bytes, refuses requests that exceed its
window, and charges a tenth for a prefix of an earlier request. The agent sends its whole history every turn, as Codex
does, and compacts at the threshold of the proxy's model list. Prints a line for each window. Exits with 1 when a turn is
refused, a tool output is lost, or too many turns break the prefix.
"""

import argparse
import contextlib
import hashlib
import http.server
import json
import math
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import kit

BYTES_PER_TOKEN = 2.7
# The minimum share of the bytes of a request that the next one must begin with.
MIN_SHARED = 0.97
MAX_BREAKS = 8
# Median and spread (log-normal) of the bytes of an output: most commands print little, a few print very much.
MEDIAN, SPREAD = 2_000, 2.9
MAX_OUTPUT_BYTES = 5_000_000
COMPACTION_KINDS = ("trigger", "compact", "local")

# ---------------------------------------------------------------- outputs

WORDS = "the build of module parser failed while linking because symbol table index was out of range and retry did not help".split()


def line(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def log(rng: random.Random, size: int) -> str:
    lines, length = [], 0
    while length < size:
        level = rng.choices(("INFO", "DEBUG", "WARN", "ERROR"), (70, 25, 4, 1))[0]
        text = f"2026-03-{rng.randint(1, 28):02} 12:{rng.randint(0, 59):02} {level} src/{rng.choice(WORDS)}.rs:{rng.randint(1, 900)} {line(rng, 9)}"
        lines.append(text)
        length += len(text) + 1
    return "Chunk ID: 1f\nWall time: 0.5 seconds\nProcess exited with code 1\nOutput:\n" + "\n".join(lines)


def code(rng: random.Random, size: int) -> str:
    lines, length = ["//! Made by nobody.", "use std::io;"], 0
    while length < size:
        text = f"pub fn {rng.choice(WORDS)}_{rng.randint(0, 9999)}(input: &str) -> io::Result<usize> {{\n    // {line(rng, 7)}\n    Ok(input.len() + {rng.randint(0, 99)})\n}}\n"
        lines.append(text)
        length += len(text) + 1
    return "\n".join(lines)


def web(rng: random.Random, size: int) -> str:
    parts, length = ["# Search results"], 0
    while length < size:
        text = f"\n## {line(rng, 5).title()}\nhttps://{rng.choice(WORDS)}.example/{rng.randint(0, 99999)}\n{line(rng, 60)}."
        parts.append(text)
        length += len(text) + 1
    return "\n".join(parts)


def json_text(rng: random.Random, size: int) -> str:
    rows, length = [], 0
    while length < size:
        row = {"id": rng.randint(0, 1 << 40), "name": line(rng, 4), "tags": rng.choices(WORDS, k=3), "ok": rng.random() < 0.5}
        rows.append(row)
        length += 110
    return json.dumps({"total": len(rows), "rows": rows}, indent=1)


def minified(rng: random.Random, size: int) -> str:
    parts, length = [], 0
    while length < size:
        text = f"function {rng.choice('abcdefg')}{rng.randint(0, 999)}(e,t){{return e&&t?e+{rng.randint(0, 99)}:(t=e,!1)}};"
        parts.append(text)
        length += len(text)
    return "".join(parts)


def chinese(rng: random.Random, size: int) -> str:
    lines = []
    for _ in range(max(1, size // 160)):
        lines.append("".join(chr(rng.randint(0x4E00, 0x9FA5)) for _ in range(52)) + "。")
    return "\n".join(lines)


KINDS = (log, code, web, json_text, minified, chinese)


def sizes(rng: random.Random, turns: int, total: int) -> list[list[int]]:
    """The sizes of the outputs of every turn, about `total` bytes in sum."""
    calls = [rng.choices((1, 2), (90, 10))[0] for _ in range(turns)]
    drawn = [[min(MAX_OUTPUT_BYTES, rng.lognormvariate(math.log(MEDIAN), SPREAD)) for _ in range(count)] for count in calls]
    scale = total / sum(map(sum, drawn))
    return [[max(100, int(size * scale)) for size in turn] for turn in drawn]


# ---------------------------------------------------------------- upstream


@dataclass
class Upstream:
    """A scripted upstream that counts tokens and refuses requests that exceed its window."""

    window: int
    bodies: list[bytes] = field(default_factory=list)
    refused: int = 0
    fresh: int = 0
    cached: int = 0
    summaries: int = 0
    seen: set[bytes] = field(default_factory=set)
    calls: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    # The number of calls of the next answers.
    wanted: int = 1

    def answer(self, body: bytes) -> tuple[int, bytes]:
        tokens = -(-int(len(body) * 10) // int(BYTES_PER_TOKEN * 10))
        if tokens > self.window:
            self.refused += 1
            message = f"Invalid request: Your request exceeded model token limit: {self.window} (requested: {tokens})"
            return 400, json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
        before = max((common(body, known) for known in self.bodies[-2:]), default=0)
        cached = int(before / BYTES_PER_TOKEN)
        self.fresh += tokens - cached
        self.cached += cached
        self.seen.update(re.findall(rb"art_[0-9a-f]{32}", body))
        self.bodies = [*self.bodies[-2:], body]
        summary = b'"tool_choice":"none"' in body or b'"tools":' not in body
        if summary:
            self.summaries += 1
            delta = [{"content": f"## Progress\nStep {self.calls} is done. " + line(self.rng, 400) + "\n## Next step\nGo on."}]
        else:
            delta = [{"reasoning_content": line(self.rng, 400)}, {"content": line(self.rng, 60) + "."}]
            for index in range(self.wanted):
                self.calls += 1
                arguments = json.dumps({"cmd": f"step {self.calls} " + line(self.rng, 200)})
                call = {"index": index, "id": f"call_{self.calls}", "type": "function", "function": {"name": "exec_command", "arguments": arguments}}
                delta.append({"tool_calls": [call]})
        finish = "stop" if summary else "tool_calls"
        usage = {"prompt_tokens": tokens, "completion_tokens": 400, "total_tokens": tokens + 400, "prompt_tokens_details": {"cached_tokens": cached}}
        chunks = [{"choices": [{"index": 0, "delta": part, "finish_reason": None}]} for part in delta]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": usage}]
        return 200, b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def common(one: bytes, two: bytes) -> int:
    """The length of the common prefix."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@contextlib.contextmanager
def serving(upstream: Upstream):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            status, answer = upstream.answer(body)
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


# ---------------------------------------------------------------- agent

TOOL = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    "strict": False,
}
LOCAL_PROMPT = "You are performing a CONTEXT CHECKPOINT COMPACTION. Write a handoff summary for another model that will go on."


class Agent:
    def __init__(self, proxy: kit.Proxy, compaction: str):
        self.proxy, self.compaction = proxy, compaction
        self.kept = [message("developer", "You are an agent. " + line(random.Random(1), 900)), message("user", "Make the build pass.")]
        self.items = list(self.kept)

    def post(self, path: str, items: list[str], more: dict, kind: str = "turn") -> dict:
        fields = {"model": "scripted/scripted", "store": False, "prompt_cache_key": "session", **more}
        body = json.dumps(fields)[:-1] + ',"input":[' + ",".join(items) + "]}"
        metadata = json.dumps({"request_kind": kind, "thread_id": "session"})
        headers = {"content-type": "application/json", "originator": "codex_exec", "thread-id": "session", "x-codex-turn-metadata": metadata}
        request = urllib.request.Request(self.proxy.base_url + path, body.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                text = reply.read().decode()
        except urllib.error.HTTPError as error:
            raise kit.Failure(f"{error.code}: {error.read().decode()[:400]}") from error
        if not more.get("stream"):
            return json.loads(text)
        last = text.rsplit("data: {", 1)[1].split("\n", 1)[0]
        response = json.loads("{" + last)["response"]
        if response["status"] != "completed":
            raise kit.Failure(f"{response['status']}: {response['error'] or response['incomplete_details']}")
        return response

    def turn(self) -> dict:
        response = self.post("/responses", self.items, {"stream": True, "tools": [TOOL], "include": ["reasoning.encrypted_content"]})
        self.items += [json.dumps(item, ensure_ascii=False) for item in response["output"]]
        return response

    def compact(self):
        if self.compaction == "compact":
            answer = self.post("/responses/compact", self.items, {"tools": [TOOL]})
            self.items = self.kept[:1] + [json.dumps(item, ensure_ascii=False) for item in answer["output"]]
        elif self.compaction == "trigger":
            items = [*self.items, json.dumps({"type": "compaction_trigger"})]
            answer = self.post("/responses", items, {"stream": True, "tools": [TOOL]}, "compaction")
            if [item["type"] for item in answer["output"]] != ["compaction"]:
                raise kit.Failure(f"no compaction item alone, but {answer['output']}")
            self.items = [*self.kept, json.dumps(answer["output"][0])]
        else:
            items = [*self.items, message("user", LOCAL_PROMPT)]
            answer = self.post("/responses", items, {"stream": True, "tools": []}, "compaction")
            text = "".join(part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"])
            self.items = [*self.kept, message("user", "Another language model started to solve this problem and produced a summary:\n" + text)]
        self.items.append(message("user", "Go on."))


def message(role: str, text: str) -> str:
    return json.dumps({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})


# ---------------------------------------------------------------- a session


@dataclass
class Outcome:
    window: int
    turns: int = 0
    megabytes: float = 0.0
    compactions: int = 0
    breaks: int = 0
    refused: int = 0
    artifacts: int = 0
    lost: list[str] = field(default_factory=list)
    bill: float = 0.0
    forwarded: float = 0.0
    over: int = 0
    seconds: float = 0.0


def session(window: int, turns: int, total: int, compaction: str, seed: int) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="respondent-session-"))
    upstream, outcome = Upstream(window), Outcome(window)
    start = time.monotonic()
    rng = random.Random(seed)
    outputs: dict[str, str] = {}
    # Like Kimi, the upstream requires its reasoning in the history.
    table = f'quirks = {{ reasoning_replay = "reasoning_content" }}\n[[providers.scripted.models]]\nid = "scripted"\nwindow = {window}\nbytes_per_token = {BYTES_PER_TOKEN}\n'
    try:
        with serving(upstream) as url, kit.Proxy(folder, url, models=(), more=table) as proxy:
            agent = Agent(proxy, compaction)
            compact_at = json.loads(proxy.get("/v1/models"))["models"][0]["auto_compact_token_limit"]
            previous, forwarded = b"", 0
            for turn in sizes(rng, turns, total):
                upstream.wanted = len(turn)
                response = agent.turn()
                body = upstream.bodies[-1]
                if previous and common(body, previous) < MIN_SHARED * len(previous):
                    outcome.breaks += 1
                previous = body
                outcome.turns += 1
                whole = sum(map(len, agent.items))
                outcome.forwarded += ((whole - forwarded) + forwarded / 10) / BYTES_PER_TOKEN
                outcome.over += whole / BYTES_PER_TOKEN > window
                forwarded = whole
                calls = [item for item in response["output"] if item["type"] == "function_call"]
                for call, size in zip(calls, turn, strict=True):
                    output = rng.choice(KINDS)(rng, size)
                    outputs[hashlib.sha256(output.encode()).hexdigest()[:32]] = output
                    outcome.megabytes += len(output.encode()) / 1e6
                    agent.items.append(json.dumps({"type": "function_call_output", "call_id": call["call_id"], "output": output}, ensure_ascii=False))
                if response["usage"]["total_tokens"] >= compact_at:
                    agent.compact()
                    outcome.compactions += 1
                    previous, forwarded = b"", 0
            agent.turn()
            outcome.refused = upstream.refused
            for name in sorted(upstream.seen):
                outcome.artifacts += 1
                text = proxy.get(f"/v1/artifacts/{name.decode()}")
                digest = hashlib.sha256(text.encode()).hexdigest()[:32]
                if f"art_{digest}" != name.decode() or digest not in outputs:
                    outcome.lost.append(name.decode())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.bill = upstream.fresh + upstream.cached / 10
    outcome.seconds = time.monotonic() - start
    return outcome


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--turns", type=int, default=300)
    options.add_argument("--megabytes", type=float, default=50)
    options.add_argument("--window", type=int, nargs="+", default=[262_144])
    options.add_argument("--compaction", choices=COMPACTION_KINDS, default="trigger")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    wrong = []
    for window in chosen.window:
        try:
            seen = session(window, chosen.turns, int(chosen.megabytes * 1e6), chosen.compaction, chosen.seed)
        except kit.Failure as reason:
            print(f"window {window}: {reason}")
            wrong.append(window)
            continue
        print(
            f"window {window}: {seen.turns} turns, {seen.megabytes:.1f} MB of outputs, {seen.compactions} compactions, "
            f"{seen.breaks} turns shared less than {MIN_SHARED:.0%}, {seen.refused} refused, "
            f"{seen.artifacts} artifacts back, {len(seen.lost)} lost; bill {seen.bill / 1e6:.2f} million tokens, "
            f"forwarding everything {seen.forwarded / 1e6:.2f} million ({seen.over} turns beyond the window); {seen.seconds:.0f} s",
            flush=True,
        )
        if seen.refused or seen.lost or (window >= 262_144 and seen.breaks > MAX_BREAKS):
            wrong.append(window)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
