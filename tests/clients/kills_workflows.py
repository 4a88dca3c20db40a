#!/usr/bin/env python3
"""Kills the server while workflows run in the background: kills_workflows.py [--kills N] [--seed N]

After each restart every run must end: as completed, or as failed at the node that calls a tool with effects. No such call
is made twice, a node that has ended does not begin again, each beginning of a node asks its model at most once, and the
events are read from any number on as clients have seen them. The provider and the MCP server are part of this program.
Exits with 1 at the first restart that shows a fault.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import random
import signal
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import effects
import kills
import kit

sys.path.insert(0, str(kit.HERE / "programs"))
import streams  # noqa: E402

# The longest time from the start of the server to its death.
LIFE = 1.2  # seconds
# How long a run may go on after a restart.
PATIENCE = 60  # seconds
CLIENTS = 4
WORKFLOW = """
description = "Asks, acts and tells."
[[nodes]]
id = "one"
kind = "agent"
prompt = "one {{input}}"
[[nodes]]
id = "two"
kind = "agent"
prompt = "two {{input}}"
[[nodes]]
id = "act"
kind = "agent"
needs = ["one"]
prompt = "act {{input}}"
tools = [{ type = "mcp", server_label = "effects", require_approval = "never" }]
[[nodes]]
id = "last"
kind = "write"
needs = ["act", "two"]
prompt = "last {{input}}"
"""


class Wrong(Exception):
    """What a restart has shown."""


class Provider(http.server.ThreadingHTTPServer):
    """A provider of Chat Completions that answers slowly, and counts how often each node of each run asks."""

    daemon_threads = True

    def __init__(self):
        self.asked = collections.Counter()
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, *_):
        """The server was killed while it was answered."""


class Answer(kills.Answer):
    server: Provider

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = body["messages"][-1]
        asked = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if asked.startswith("act") and last["role"] == "user":
            self.server.asked[asked] += 1
            function = {"name": effects.TOOL, "arguments": json.dumps({"id": asked})}
            self.chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
            self.chunk({}, "tool_calls")
        else:
            self.server.asked[asked] += last["role"] == "user"
            for piece in pieces(asked):
                self.chunk({"content": piece})
                time.sleep(0.01)
            self.chunk({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")


def pieces(asked: str) -> list[str]:
    return [f"{asked} piece {n}. " for n in range(5 + int(asked.split()[-1]) * 7 % 20)]


class Clients:
    """They begin runs and read their events, until the server does not answer any more."""

    def __init__(self, proxy: kit.Proxy, runs: dict, numbers):
        self.proxy, self.runs, self.numbers, self.is_over = proxy, runs, numbers, threading.Event()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while not self.is_over.is_set():
                self.watch()

    def watch(self):
        number = str(next(self.numbers))
        body = {"model": "scripted", "input": number, "background": True, "stream": True, "prompt": {"id": "wf_kills"}}
        frame, frames = "", None
        with kills.post(self.proxy, "/responses", body) as reply:
            for line in reply:
                if line != b"\n":
                    frame += line.decode()
                    continue
                if frame.startswith("event: "):
                    if frames is None:
                        response_id = json.loads(frame.split("\ndata: ")[1])["response"]["id"]
                        frames = self.runs[response_id] = Frames(number)
                    frames.append(frame + "\n")
                frame = ""

    def join(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
            if thread.is_alive():
                raise Wrong("a client waits for a server that is dead")


class Frames(list):
    """The events that its client has seen of the run with this number."""

    def __init__(self, number: str):
        super().__init__()
        self.number = number


def check(proxy: kit.Proxy, provider: Provider, response_id: str, seen: Frames, folder: Path) -> str:
    """The run ends, and its events are sound. Returns its status."""
    url, end = f"{proxy.base_url}/responses/{response_id}", time.monotonic() + PATIENCE
    while (response := kills.get(proxy, f"/responses/{response_id}"))["status"] in ("queued", "in_progress"):
        if time.monotonic() > end:
            raise Wrong(f"{response_id} stays {response['status']}: {response['workflow_state']}")
        time.sleep(0.05)
    state = response["workflow_state"]
    if response["status"] == "failed" and state["failed_node"] != "act" and "each time" not in response["error"]["message"]:
        raise Wrong(f"{response_id} failed: {response['error']}")
    if response["status"] == "completed" and state["nodes"]["last"]["output"] != "".join(pieces(f"last {seen.number}")):
        raise Wrong(f"{response_id} has another answer: {state['nodes']['last']}")
    whole = streams.get(f"{url}?stream=true")
    file = folder / f"{response_id}.sse"
    file.write_text("".join(whole))
    kit.check_streams([file])
    file.unlink()
    events = [json.loads(frame.split("\ndata: ")[1]) for frame in whole[:-1]]
    begun, ended = collections.Counter(), set()
    for event in events:
        if event["type"].startswith("response.workflow.node."):
            node, status = event["node"]["id"], event["node"]["status"]
            if node in ended:
                raise Wrong(f"{node} of {response_id} goes on after its end")
            begun[node] += status == "running"
            ended |= {node} if status == "completed" else set()
    for node, times in begun.items():
        if (asked := provider.asked[f"{node} {seen.number}"]) > times:
            raise Wrong(f"{node} of {response_id} began {times} times, and its model was asked {asked} times")
    if different := streams.resumed_differently(url, whole):
        raise Wrong(f"the stream of {response_id} goes on differently after {different}")
    if seen != whole[: len(seen)]:
        raise Wrong(f"a client saw other events of {response_id} than are stored")
    return response["status"]


def run(lives: int, seed: int, folder: Path) -> str:
    rng, provider, changes, numbers = random.Random(seed), Provider(), effects.Server(seed), kills.Counter()
    (folder / "workflows").mkdir()
    (folder / "workflows" / "wf_kills.toml").write_text(WORKFLOW)
    settings = f'[workflows]\nfolder = "{folder}/workflows"\n[server]\nlog = "warn"\n' + changes.config
    new: dict = {}
    statuses = collections.Counter()
    for life in range(lives + 1):
        with kit.Proxy(folder, provider.base_url, more=settings) as proxy:
            try:
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    statuses.update(pool.map(lambda it: check(proxy, provider, *it, folder), new.items()))
                if twice := [call for call, count in changes.made.items() if count > 1]:
                    raise Wrong(f"these calls were made twice: {twice}")
                if life == lives:
                    break
                new = {}
                clients = Clients(proxy, new, numbers)
                time.sleep(rng.random() * LIFE)
                os.kill(proxy.child.pid, signal.SIGKILL)
                proxy.child.wait()
                clients.join()
            except Wrong as wrong:
                raise Wrong(f"after {life} kills: {wrong}") from None
        if life % 20 == 19:
            print(f"{life + 1} kills, {sum(statuses.values())} runs", flush=True)
    again = sum(count > 1 for asked, count in provider.asked.items() if not asked.startswith("act"))
    return f"{lives} kills, runs: {dict(statuses)}; {len(changes.made)} calls with effects, each made once; {again} nodes began again"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="respondent-kills-"))
    print(f"seed {chosen.seed}", flush=True)
    try:
        print(run(chosen.kills, chosen.seed, folder))
        return 0
    except (Wrong, kit.Failure) as wrong:
        print(f"{wrong}\n{(folder / 'proxy.log').read_text(errors='replace')[-3000:]}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
