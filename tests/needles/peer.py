#!/usr/bin/env python3
"""What another context proxy shows of the same outputs: peer.py FOLDER PROGRAM

`respondent-needles` runs this. FOLDER has the cases that it writes, PROGRAM is Headroom. Sends each case
through it with its defaults, without its cache of answers, as one Responses request, and prints what was visible
as JSON. Headroom counts tokens with tiktoken, which fetches its tables at the first use unless they are among the
packages; where that fails it shortens nothing. TIKTOKEN_CACHE_DIR can name a folder that has them.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5",
    "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Good.", "annotations": []}]}],
    "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
}


class Upstream:
    """A provider that keeps the bodies of its requests."""

    def __init__(self):
        self.bodies: list[bytes] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer(b"{}")

            def do_POST(self):
                upstream.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.answer(json.dumps(RESPONSE).encode())

            def answer(self, body: bytes):
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def token_tables(program: str) -> dict[str, str]:
    """Where tiktoken finds its tables: the environment says it, or they are among the packages of the peer."""
    packages = Path(program).resolve().parent.parent
    folders = packages.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")
    found = os.environ.get("TIKTOKEN_CACHE_DIR") or next(map(str, folders), "")
    return {"TIKTOKEN_CACHE_DIR": found} if found else {}


@contextlib.contextmanager
def running(program: str, upstream: str):
    """The URL of the peer before this upstream."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | token_tables(program)
    with tempfile.TemporaryDirectory(prefix="respondent-peer-") as home:
        environment["HOME"] = home
        command = [program, "proxy", "--port", str(port), "--openai-api-url", upstream, "--no-cache", "--no-rate-limit", "--no-telemetry"]
        with open(f"{home}/log", "wb") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=home)
            try:
                url = f"http://127.0.0.1:{port}"
                wait_until_ready(child, url, Path(log.name))
                yield url
            finally:
                child.terminate()
                child.wait(20)


def wait_until_ready(child: subprocess.Popen, url: str, log: Path):
    end = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"{url}/livez", timeout=5):
                return
        time.sleep(0.2)
    sys.exit(f"the peer does not start:\n{log.read_text(errors='replace')[-2000:]}")


def request(case: dict) -> dict:
    arguments = json.dumps({"command": ["bash", "-lc", case["command"]], "workdir": "/home/user/project"})
    return {
        "model": "gpt-5",
        "stream": False,
        "store": False,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": case["question"]}]},
            {"type": "function_call", "name": "shell", "call_id": "call_0", "arguments": arguments},
            {"type": "function_call_output", "call_id": "call_0", "output": case["output"]},
        ],
    }


def shown(url: str, upstream: Upstream, case: dict) -> str:
    """The text of the case's output as it reached the upstream."""
    upstream.bodies.clear()
    headers = {"content-type": "application/json", "authorization": "Bearer sk-peer"}
    post = urllib.request.Request(f"{url}/v1/responses", json.dumps(request(case)).encode(), headers)
    with urllib.request.urlopen(post, timeout=300) as reply:
        reply.read()
    items = json.loads(upstream.bodies[-1])["input"]
    output = next(item for item in items if item.get("type") == "function_call_output")["output"]
    return output if isinstance(output, str) else "".join(part.get("text", "") for part in output)


def outcome(case: dict, text: str) -> dict:
    return {"id": case["id"], "shown_chars": len(text), "is_visible": all(part in text for part in case["evidence"])}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("program")
    chosen = options.parse_args()
    upstream, cases = Upstream(), []
    with running(chosen.program, upstream.url) as url:
        for path in sorted(chosen.folder.glob("*.json")):
            case = json.loads(path.read_text())["case"]
            cases.append(outcome(case, shown(url, upstream, case)))
            if len(cases) % 25 == 0:
                print(f"peer: {len(cases)}", file=sys.stderr)
    print(json.dumps(cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
