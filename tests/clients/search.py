"""Search turns: the hosted `web_search` with real clients, scripted models and a small web.

A case runs with each of its `programs`, which ask the same two questions. Between the client and the proxy stands a
tap, which keeps the streams: the strict checker judges them, and `turns` of `expect` is about what is in them. The
second prompt must begin with the bytes of the first, and the turns must replay equal and ask the web for nothing.
"""

import contextlib
import http.client
import http.server
import json
import shutil
import threading
from pathlib import Path
from urllib.parse import urlsplit

import bundle
import codex
import kit
import loopback
import web

QUESTIONS = ["How is green tea made?", "And black tea?"]
# The commands of the programs; Codex is run by its own module.
PROGRAMS = {
    "openai-python": [kit.VENV_PYTHON, kit.HERE / "programs/openai_client.py"],
    "agents-python": [kit.VENV_PYTHON, kit.HERE / "programs/agents_client.py"],
    "ai-sdk": [shutil.which("node"), kit.HERE / "programs/ai_sdk_client.mjs", "openai"],
}


def run(case: dict, folder: Path):
    kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    kit.need(kit.NODE_MODULES / "ai", "the AI SDK")
    kit.need(Path(shutil.which("node") or "/node"), "node")
    return loopback.run_in_namespace(__file__, case, folder)


def run_alone(case: dict, folder: Path):
    for program in case["programs"]:
        subfolder = folder / program
        subfolder.mkdir()
        try:
            run_program(program, case, subfolder)
        except kit.Failure as reason:
            raise kit.Failure(f"{program}: {reason}") from None


# Promise: The hosted `web_search` works in Codex, openai-python, the Agents SDK and the AI SDK, with models
# that call several tools at once, one after another, or in their text: the client gets items, citations
# and usage, never a call of the proxy's tools, and the next turn continues the prompt. Where search
# engine and pages fail, the turn goes on. Such turns replay equal without the web.
def run_program(program: str, case: dict, folder: Path):
    expect = case["expect"]
    configured = case | {"config": case.get("config", "") + web.CONFIG}
    with web.Web(case["web"]) as served, kit.proxy_for(configured, folder) as proxy, Tap(proxy, folder) as tap:
        texts = asked_by(program, proxy, tap, folder)
        shown = expect.get("texts") or [turn["text"] for turn in expect["turns"]]
        kit.check(kit.mismatch(shown, texts, "what the client shows"))
        # Codex gets a stream that fails with its last item open, against the rules for other clients.
        kit.check_streams([stream for stream in tap.streams if "event: response.failed" not in stream.read_text()])
        turns = [turn_of(stream) for stream in tap.streams]
        kit.check(kit.mismatch(expect["turns"], turns, "the streams"))
        check_prompts([request["body"] for request in proxy.upstream.requests()])
        asked = list(served.asked)
        if sorted(set(asked)) != expect["web"]:
            raise kit.Failure(f"the web was asked for {asked}, not {expect['web']}")
        bundled = bundle.unpacked(bundle.replayed(proxy, folder, "all", len(turns), "--since", "1h"))
        for text in expect.get("bundled", []):
            if not any(text.encode() in content for content in bundled.values()):
                raise kit.Failure(f"the bundle lacks {text!r}")
        if served.asked != asked:
            raise kit.Failure(f"the replay asked the web for {served.asked[len(asked):]}")


def asked_by(program: str, proxy: kit.Proxy, tap: "Tap", folder: Path) -> list[str]:
    """The final text of each turn, as the program shows it."""
    if program == "codex":
        options = {"provider": {"base_url": tap.base_url}, "web_search": "live"}
        session = codex.Session(proxy, folder, options)
        turns = [session.turn(question, 60) for question in QUESTIONS]
        return [turn.message or "" for turn in turns]
    (folder / "work").mkdir()
    argv = [*PROGRAMS[program], tap.base_url, proxy.first_model(), "search", *QUESTIONS]
    env = kit.plain_env(folder) | {"AI_SDK_LOG_WARNINGS": "false"}
    code, stdout, _ = kit.run_program(argv, folder, env, 60, program)
    if code != 0 or not stdout:
        raise kit.Failure(f"{program} exited with {code}")
    return json.loads(stdout.splitlines()[-1])


def turn_of(stream: Path) -> dict:
    """What is in a stream: the kinds of its items and actions, and what the offsets of its citations enclose."""
    frames = [frame for frame in stream.read_text().split("\n\n") if "\ndata: " in frame]
    response = json.loads(frames[-1].split("\ndata: ")[1])["response"]
    if response["status"] == "completed" and not (response["usage"] or {}).get("output_tokens"):
        raise kit.Failure(f"the usage is {response['usage']}")
    items = response["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    cited = [(part["text"], note) for part in parts for note in part["annotations"]]
    return {
        "types": " ".join(item["type"] for item in items),
        "actions": " ".join(item["action"]["type"] for item in items if item["type"] == "web_search_call"),
        "states": " ".join(item["status"] for item in items if item["type"] == "web_search_call"),
        "cited": [[text[note["start_index"] : note["end_index"]], note["url"]] for text, note in cited],
        "text": parts[-1]["text"] if parts else "",
    }


def check_prompts(bodies: list[str]):
    """Each request must begin with the history of the one before: with its bytes, or with its items where clients
    write their items anew."""
    before: list = []
    text_before = ""
    for number, body in enumerate(bodies, 1):
        name = "messages" if '"messages":[' in body else "input"
        start = body.index(f'"{name}":[') + len(name) + 3
        history, end = json.JSONDecoder().raw_decode(body, start)
        text = body[start : end - 1]
        if history[: len(before)] != before or (name == "messages" and not text.startswith(text_before)):
            at = next((at for at, (old, new) in enumerate(zip(text_before, text)) if old != new), len(text))
            was, now = text_before[at - 200 : at + 200], text[at - 200 : at + 200]
            raise kit.Failure(f"request {number} changes the history of the one before:\n{was}\n{now}")
        before, text_before = history, text


class Tap:
    """Stands before the proxy and keeps the streams of its responses, each in a file."""

    def __init__(self, proxy: kit.Proxy, folder: Path):
        self.streams: list[Path] = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler(proxy.origin, folder))
        self.server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def _handler(tap, origin, folder):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                dropped = ("host", "connection", "accept-encoding")
                headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
                with contextlib.closing(http.client.HTTPConnection(urlsplit(origin).netloc)) as target:
                    target.request(self.command, self.path, body, headers)
                    reply = target.getresponse()
                    kind = reply.headers["content-type"] or ""
                    self.send_response(reply.status)
                    self.send_header("content-type", kind)
                    self.end_headers()
                    content = b""
                    while piece := reply.read1():
                        content += piece
                        self.wfile.write(piece)
                if kind.startswith("text/event-stream"):
                    stream = folder / f"{len(tap.streams)}.sse"
                    stream.write_bytes(content)
                    tap.streams.append(stream)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        return Handler


if __name__ == "__main__":
    loopback.main(run_alone)
