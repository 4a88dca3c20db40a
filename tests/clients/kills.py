#!/usr/bin/env python3
"""Kills the server at random instants and looks at what is left: kills.py [--kills N] [--seed N] [--keep]

Clients store responses in the foreground, in conversations and in the background, some search the web, and some call
tools with effects, while the server is killed again and again. After each restart the database must be sound, what was
acknowledged must be read back as it was, no background response may stay unfinished or ask its provider twice, a stream
must go on alike from each of its events, and each source that was read must have its page, whole, with its hash. No call
with effects may have been made twice, and each one must be on record: as ended, or as interrupted where that is not
known; who goes on from its response must send the model what is known of it. The provider, the web and the MCP server are
part of this program. It runs in a network of its own, where the web has a public address; where there is none, nobody
searches.
Exits with 1 at the first restart that shows a fault.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import http.client
import http.server
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import effects
import kit
import loopback
import web

sys.path.insert(0, str(kit.HERE / "programs"))
import streams  # noqa: E402

# Fewer background responses at once than there are clients that ask for them, so that some wait.
SETTINGS = "[jobs]\nrunning = 3\n[server]\nlog = \"warn\"\n"
# The longest time from the start of the server to its death.
LIFE = 1.2  # seconds
# How long a background response may go on after a restart; those that waited run first.
PATIENCE = 60  # seconds
# How many of the earlier responses are read back after a restart; all of them are in the end.
SAMPLE = 20
# The most turns that continue one another.
CHAIN = 6
TERMINAL = ("completed", "failed", "incomplete", "cancelled")
# How many clients there are of each kind, which is the name of a method of Clients.
CLIENTS = {"whole": 1, "streamed": 2, "conversation": 2, "background": 2, "watched": 2, "searching": 2, "changing": 3}
# The number of pages of the web. A search opens those of its own number and the next one.
PAGES = 50
# What clients and the model are told of a call that was cut off.
UNKNOWN = "not known whether it took effect"
# The argument of this program in a network of its own.
IN_NAMESPACE = "--in-namespace"


class Wrong(Exception):
    """What was found after a restart is not what clients were told."""


class Provider(http.server.ThreadingHTTPServer):
    """A provider of Chat Completions that answers slowly, and knows what it was asked."""

    daemon_threads = True

    def __init__(self):
        # The first request of each prompt, and those that follow the results of its calls.
        self.asked = collections.Counter()
        self.histories: dict[str, list[str]] = {}
        # What tools have returned, in the last request of each prompt.
        self.results: dict[str, list[str]] = {}
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, *_):
        """The server was killed while it was answered."""


class Answer(http.server.BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = [text_of(message["content"]) for message in body["messages"] if message["role"] == "user"]
        prompt = texts[-1]
        results = [text_of(message["content"]) for message in body["messages"] if message["role"] == "tool"]
        calls = calls_of(prompt, len(results))
        asked = f"{prompt} after {len(results)} results" if rounds_of(prompt) and results else prompt
        self.server.asked[asked] += not prompt.startswith("search")
        self.server.histories[prompt] = texts[:-1]
        self.server.results[prompt] = results
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if calls:
            self.chunk({"tool_calls": calls})
            self.chunk({}, "tool_calls")
        else:
            for piece in pieces(prompt):
                self.chunk({"content": piece})
                time.sleep(0.01)
            self.chunk({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, delta: dict, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")

    def log_message(self, *_):
        pass


def text_of(content) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def pieces(prompt: str) -> list[str]:
    """The answer to a prompt, whose length depends on its number."""
    return [f"{prompt} piece {n}. " for n in range(5 + int(prompt.split("-")[-1]) * 7 % 40)]


def rounds_of(prompt: str) -> list[list[tuple[str, dict]]]:
    """What the answer to a prompt calls, round by round. A call with effects is told from others by its id."""
    kind, number = prompt.split("-")
    search = ("web_search", {"query": prompt})
    pages = [("open_page", {"url": f"http://{web.SERVER}/{(int(number) + more) % PAGES}"}) for more in range(2)]
    change = (effects.TOOL, {})
    return {
        "search": [[search], pages],
        "change": [[search, change], [change, *pages], [change, change]],
        "alone": [[change], [change, change]],
    }.get(kind, [])


def calls_of(prompt: str, results: int) -> list[dict]:
    """What is called after so many results."""
    seen = 0
    for calls in rounds_of(prompt):
        if seen == results:
            break
        seen += len(calls)
    else:
        return []
    made = []
    for at, (name, arguments) in enumerate(calls):
        call = f"{prompt}-{results}-{at}"
        arguments = arguments or {"id": call}
        made.append({"index": at, "id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}})
    return made


def small_web() -> dict:
    """Its pages have other lengths and texts, so that each has a hash of its own."""

    def page(number: int) -> str:
        return f"<title>Page {number}</title>" + f"<p>Sentence of page {number}, one of several.</p>" * (10 + number)

    results = [{"url": f"/{number}", "title": f"Page {number}", "content": "A page."} for number in range(5)]
    return {"results": results, "pages": {f"/{number}": page(number) for number in range(PAGES)}}


def answer_of(response: dict) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


@dataclass
class Background:
    """A background response that was accepted: its prompt, the frames that a client saw, and how it ended."""

    prompt: str
    frames: list[str] = field(default_factory=list)
    ended: dict | None = None


@dataclass
class Told:
    """What clients were told by the servers so far."""

    # The responses that were acknowledged as final, by id, with their prompts.
    final: dict[str, tuple[str, dict]] = field(default_factory=dict)
    background: dict[str, Background] = field(default_factory=dict)
    # The responses that have searched, by id.
    searched: dict[str, str] = field(default_factory=dict)
    # The background responses that call tools with effects, by id.
    changing: dict[str, str] = field(default_factory=dict)
    # Of each conversation the prompts whose turns were acknowledged.
    conversations: dict[str, list[str]] = field(default_factory=dict)
    # Of each prompt those of the turns that it continues.
    chains: dict[str, list[str]] = field(default_factory=dict)


class Clients:
    """The clients of one life of the server. They end when it does not answer any more."""

    def __init__(self, proxy: kit.Proxy, told: Told, numbers, searches: bool):
        self.proxy, self.told, self.numbers, self.searches = proxy, told, numbers, searches
        self.is_over = threading.Event()
        self.wrong: list[str] = []
        self.threads = [
            threading.Thread(target=self.run, args=(kind,), daemon=True)
            for kind, count in CLIENTS.items()
            for _ in range(count if searches or kind != "searching" else 0)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, kind: str):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            state = {}
            while not self.is_over.is_set():
                getattr(self, kind)(state)

    def wait_for_one_of_each(self):
        """Waits until a response of each kind was acknowledged, so that few kills show something as well."""
        told, end = self.told, time.monotonic() + PATIENCE
        while not (told.final and told.background and told.changing and (told.searched or not self.searches)):
            if time.monotonic() > end:
                raise Wrong("no response of each kind was acknowledged before the first kill")
            time.sleep(0.05)

    def join(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
            if thread.is_alive():
                raise Wrong("a client waits for a server that is dead")
        if self.wrong:
            raise Wrong(self.wrong[0])

    def post(self, body: dict, path="/responses") -> http.client.HTTPResponse:
        try:
            return post(self.proxy, path, {"model": "scripted"} | body if path == "/responses" else body)
        except urllib.error.HTTPError as refused:
            if not self.is_over.is_set():
                self.wrong.append(f"a request was refused with {refused.code}: {refused.read().decode()}")
            raise

    def prompt(self, kind: str) -> str:
        return f"{kind}-{next(self.numbers)}"

    def continued(self, state: dict, kind: str) -> dict:
        """The next request of a chain of turns."""
        if len(state.get("chain", [])) >= CHAIN:
            state.clear()
        chain = state.setdefault("chain", [])
        prompt = self.prompt(kind)
        self.told.chains[prompt] = list(chain)
        chain.append(prompt)
        return {"input": prompt, "previous_response_id": state.get("last")}

    def acknowledged(self, prompt: str, response: dict, state: dict):
        self.told.final[response["id"]] = prompt, response
        state["last"] = response["id"]

    def whole(self, state: dict):
        body = self.continued(state, "whole")
        with self.post(body) as reply:
            self.acknowledged(body["input"], json.load(reply), state)

    def searching(self, state: dict):
        prompt = self.prompt("search")
        with self.post({"input": prompt, "tools": [{"type": "web_search"}]}) as reply:
            response = json.load(reply)
        self.told.final[response["id"]] = prompt, response
        self.told.searched[response["id"]] = prompt

    def streamed(self, state: dict):
        body = self.continued(state, "streamed")
        with self.post(body | {"stream": True}) as reply:
            for line in reply:
                if line.startswith(b'data: {"type":"response.completed"'):
                    self.acknowledged(body["input"], json.loads(line[6:])["response"], state)

    def conversation(self, state: dict):
        if "id" not in state:
            with self.post({}, "/conversations") as reply:
                state["id"] = json.load(reply)["id"]
            self.told.conversations[state["id"]] = []
        prompt = self.prompt("talk")
        with self.post({"input": prompt, "conversation": state["id"]}) as reply:
            response = json.load(reply)
        self.told.final[response["id"]] = prompt, response
        self.told.conversations[state["id"]].append(prompt)

    def background(self, state: dict):
        """Asks for several background responses at once, and waits for the last one."""
        for _ in range(4):
            prompt = self.prompt("job")
            with self.post({"input": prompt, "background": True}) as reply:
                response_id = json.load(reply)["id"]
            self.told.background[response_id] = Background(prompt)
        self.wait(response_id)

    def wait(self, response_id: str):
        while True:
            response = get(self.proxy, f"/responses/{response_id}")
            if response["status"] in TERMINAL:
                self.told.background[response_id].ended = response
                return
            time.sleep(0.05)

    def changing(self, state: dict):
        """A background response that searches, reads pages and calls a tool with effects, watched by turns."""
        prompt = self.prompt("change" if self.searches else "alone")
        body = {"input": prompt, "background": True, "tools": effect_tools(self.searches)}
        state["is_watched"] = not state.get("is_watched")
        if state["is_watched"]:
            self.watch(body)
            return
        with self.post(body) as reply:
            response_id = json.load(reply)["id"]
        self.told.background[response_id] = Background(prompt)
        self.told.changing[response_id] = prompt
        self.wait(response_id)

    def watched(self, state: dict):
        self.watch({"input": self.prompt("watched"), "background": True})

    def watch(self, body: dict):
        prompt = body["input"]
        with self.post(body | {"stream": True}) as reply:
            seen, frame = None, ""
            for line in reply:
                if line != b"\n":
                    frame += line.decode()
                    continue
                if frame.startswith("event: "):
                    event = json.loads(frame.split("\ndata: ")[1])
                    if seen is None:
                        seen = self.told.background[event["response"]["id"]] = Background(prompt)
                        if "tools" in body:
                            self.told.changing[event["response"]["id"]] = prompt
                    seen.frames.append(frame + "\n")
                    if event["type"] in ("response.completed", "response.failed"):
                        seen.ended = event["response"]
                frame = ""


def effect_tools(searches: bool) -> list[dict]:
    return [effects.DEFINITION] + [{"type": "web_search"}] * searches


def post(proxy: kit.Proxy, path: str, body: dict) -> http.client.HTTPResponse:
    request = urllib.request.Request(proxy.base_url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    return urllib.request.urlopen(request, timeout=60)


def get(proxy: kit.Proxy, path: str) -> dict:
    with urllib.request.urlopen(proxy.base_url + path, timeout=60) as reply:
        return json.load(reply)


class Inspection:
    """What a server that was started after a kill has, compared with what clients were told."""

    def __init__(self, proxy: kit.Proxy, provider: Provider, changes: effects.Server, told: Told, folder: Path):
        self.proxy, self.provider, self.changes, self.told, self.folder = proxy, provider, changes, told, folder
        # The sources whose pages are whole.
        self.whole: set = set()

    def open(self):
        """The database of the server, to be read."""
        file = self.folder / "data/artifacts/artifacts.db"
        return contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30))

    def database(self):
        with self.open() as database:
            for check, sound in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
                found = database.execute(f"PRAGMA {check}").fetchall()
                if found != sound:
                    raise Wrong(f"{check} finds {found[:5]}")
        self.pages()

    def pages(self):
        """Each source that was read has its page, also of responses that no client was told of."""
        with self.open() as database:
            read = "SELECT url, body, chars, sha256, artifact_id FROM sources WHERE status = 'read'"
            sources = set(database.execute(read))
        for url, body, chars, sha256, artifact_id in sources - self.whole:
            if not all((body, chars, sha256, artifact_id)):
                raise Wrong(f"{url} was read, and has only {kit.brief([body, chars, sha256, artifact_id])}")
            page = self.proxy.get(f"/v1/artifacts/{artifact_id}")
            found = (len(page), hashlib.sha256(page.encode()).hexdigest(), page[: len(body)])
            if found != (chars, sha256, body):
                raise Wrong(f"the page of {url} is {kit.brief(found)}, and its source {kit.brief((chars, sha256, body))}")
        self.whole.update(sources)

    def sources(self, response_id: str):
        """A response that has searched has what it found and read."""
        number = int(self.told.searched[response_id].split("-")[-1])
        listed = get(self.proxy, f"/responses/{response_id}/sources?limit=100&order=asc")["data"]
        expected = {f"http://{web.SERVER}/{(number + more) % PAGES}" for more in range(2)}
        if {source["url"] for source in listed if source["status"] == "read"} != expected:
            raise Wrong(f"{response_id} has read {expected}, and its sources are {kit.brief(listed)}")

    def read(self, response_id: str) -> dict:
        try:
            return get(self.proxy, f"/responses/{response_id}")
        except urllib.error.HTTPError as refused:
            raise Wrong(f"{response_id}, which was acknowledged, is answered with {refused.code}") from None

    def final(self, response_id: str):
        prompt, told = self.told.final[response_id]
        if (found := self.read(response_id)) != told:
            raise Wrong(f"{response_id} was acknowledged as {kit.brief(told)}, and is now {kit.brief(found)}")
        if answer_of(told) != "".join(pieces(prompt)):
            raise Wrong(f"{response_id} has another text than its provider sent: {kit.brief(told)}")
        expected = self.told.chains.get(prompt, [])
        if prompt in self.told.chains and self.provider.histories[prompt] != expected:
            raise Wrong(f"{prompt} was sent after {self.provider.histories[prompt]}, not after {expected}")

    def conversation(self, conversation_id: str):
        """Each acknowledged turn is there, once and in its order; a prompt is never there without its answer."""
        items, after = [], ""
        while True:
            page = get(self.proxy, f"/conversations/{conversation_id}/items?order=asc&limit=100{after}")
            items += page["data"]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        texts = [text_of(item["content"]) for item in items]
        prompts, answers = texts[::2], texts[1::2]
        if [answer.split(" ")[0] for answer in answers] != prompts:
            raise Wrong(f"conversation {conversation_id} is torn: {kit.brief(texts)}")
        told = self.told.conversations[conversation_id]
        if [prompt for prompt in prompts if prompt in told] != told or len(prompts) > len(told) + 1:
            raise Wrong(f"conversation {conversation_id} has {prompts}, and these were acknowledged: {told}")

    def ended(self, response_id: str):
        """The background response ends, and its provider was asked at most once."""
        job, end = self.told.background[response_id], time.monotonic() + PATIENCE
        while (found := self.read(response_id))["status"] not in TERMINAL:
            if time.monotonic() > end:
                raise Wrong(f"{response_id} stays {found['status']}")
            time.sleep(0.05)
        if job.ended is not None and found != job.ended:
            raise Wrong(f"{response_id} ended as {kit.brief(job.ended)}, and is now {kit.brief(found)}")
        asked = self.provider.asked[job.prompt]
        if asked > 1 or (found["status"] == "completed" and asked != 1):
            raise Wrong(f"the provider was asked {asked} times for {response_id}, which is {found['status']}")
        if found["status"] == "completed" and answer_of(found) != "".join(pieces(job.prompt)):
            raise Wrong(f"{response_id} has another text than its provider sent: {kit.brief(found)}")
        if found["status"] == "failed" and "The server ended" not in found["error"]["message"]:
            raise Wrong(f"{response_id} failed: {found['error']}")
        job.ended = found

    def effects(self):
        """Each call with effects was made once, and is on record, also of responses that no client was told of."""
        end = time.monotonic() + PATIENCE
        while True:
            with self.open() as database:
                unfinished = database.execute("SELECT count(*) FROM jobs WHERE state <> 'ended'").fetchone()[0]
                runs = database.execute("SELECT call_id, status FROM tool_runs WHERE name = ?", [effects.TOOL]).fetchall()
            if unfinished == 0:
                break
            if time.monotonic() > end:
                raise Wrong(f"{unfinished} background responses are unfinished")
            time.sleep(0.05)
        made, on_record = self.changes.made, dict(runs)
        if twice := [call for call, count in made.items() if count > 1] + [call for call, n in collections.Counter(call for call, _ in runs).items() if n > 1]:
            raise Wrong(f"these calls were made or recorded more than once: {twice}")
        for call in made.keys() | on_record.keys():
            status = on_record.get(call)
            if status not in (("completed", "interrupted") if call in made else ("interrupted", "failed")):
                raise Wrong(f"{call} was made {made[call]} times, and is on record as {status}")

    def on_record(self) -> collections.Counter:
        """How many calls with effects are on record, by what became of them."""
        with self.open() as database:
            found = database.execute("SELECT status FROM tool_runs WHERE name = ?", [effects.TOOL])
            return collections.Counter(status for (status,) in found)

    def changed(self, response_id: str):
        """What the response shows of its calls is what is on record, and so is what the model is told of them next."""
        prompt, response = self.told.changing[response_id], self.told.background[response_id].ended
        with self.open() as database:
            select = "SELECT call_id, tool_runs.status FROM tool_runs JOIN responses ON number = response WHERE id = ? AND name = ?"
            on_record = dict(database.execute(select, [response_id, effects.TOOL]))
        shown = {}
        for item in response["output"]:
            if item["type"] == "mcp_call":
                is_unknown = UNKNOWN in json.dumps(item["error"])
                shown[json.loads(item["arguments"])["id"]] = "interrupted" if is_unknown else item["status"]
        # The end of a call may be shown a moment before it is on record.
        ended = {call: status for call, status in shown.items() if on_record.get(call) != "interrupted"}
        if shown.keys() != on_record.keys() or ended != {call: status for call, status in on_record.items() if call in ended}:
            raise Wrong(f"{response_id} shows {shown}, and on record are {on_record}")
        if response["status"] == "completed" and set(on_record.values()) != {"completed"}:
            raise Wrong(f"{response_id} is completed, and its calls are {on_record}")
        if response["status"] != "failed":
            return
        tools = effect_tools(prompt.startswith("change"))
        prompt = f"next_{prompt}"
        body = {"model": "scripted", "input": prompt, "previous_response_id": response_id, "tools": tools}
        with post(self.proxy, "/responses", body):
            results = self.provider.results[prompt]
        for call, status in shown.items():
            told = sum(effects.result(call) in result for result in results)
            if told != (status == "completed"):
                raise Wrong(f"the model was told {told} times of {call}, which is {status}: {kit.brief(results)}")
        unknown = sum(UNKNOWN in result for result in results)
        if unknown != list(shown.values()).count("interrupted"):
            raise Wrong(f"the model was told of {unknown} interrupted calls, and {response_id} shows {shown}")

    def stream(self, response_id: str):
        """The stream is sound and continues what clients saw, from each of its events."""
        job, url = self.told.background[response_id], f"{self.proxy.base_url}/responses/{response_id}"
        whole = streams.get(f"{url}?stream=true")
        file = self.folder / f"{response_id}.sse"
        file.write_text("".join(whole))
        kit.check_streams([file])
        file.unlink()
        *events, terminal, _ = whole
        if json.loads(terminal.split("\ndata: ")[1])["response"] != job.ended:
            raise Wrong(f"the stream of {response_id} ends with another response: {terminal}")
        different = streams.resumed_differently(url, whole)
        if interrupted := job.ended["status"] == "failed":
            # A client may have seen an event with the number of this end, so the end is sent again after it.
            different = [number for number in different if number != len(events)]
        if different:
            raise Wrong(f"the stream of {response_id} goes on differently after {different}")
        seen = [frame for frame in job.frames if frame != terminal]
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(seen, events)))
        # Where the killed server had not written the last events that a client saw, open items are closed instead.
        closing = [frame.split("\n")[0] for frame in events[common:]]
        if common < len(seen) and not (interrupted and all(name.endswith("done") for name in closing)):
            raise Wrong(f"a client saw other events of {response_id} than are stored: {seen[common]}")
        if len(seen) > len(events):
            rest = streams.get(f"{url}?stream=true&starting_after={len(seen) - 1}")
            if len(rest) != 2 or streams.number(rest[0]) != len(seen):
                raise Wrong(f"a client that saw {len(seen)} events of {response_id}, of which {common} are stored, gets {rest}")


def inspect(inspection: Inspection, new: Told, rng: random.Random, all_of_them=False):
    """Looks at everything of the last life of the server, and at some of what there was before."""
    told = inspection.told
    inspection.database()
    older = list(told.final) if all_of_them else rng.sample(list(told.final), min(SAMPLE, len(told.final)))
    for response_id in dict.fromkeys([*new.final, *older]):
        inspection.final(response_id)
    for response_id in told.searched if all_of_them else new.searched:
        inspection.sources(response_id)
    for conversation_id in told.conversations if all_of_them else new.conversations:
        inspection.conversation(conversation_id)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = told.background if all_of_them else new.background
        list(pool.map(inspection.ended, jobs))
        list(pool.map(inspection.stream, new.background))
    inspection.effects()
    for response_id in new.changing:
        inspection.changed(response_id)
    twice = {prompt: count for prompt, count in inspection.provider.asked.items() if count > 1}
    if twice:
        raise Wrong(f"the provider was asked more than once: {twice}")


def kill(proxy: kit.Proxy):
    os.kill(proxy.child.pid, signal.SIGKILL)
    proxy.child.wait()


class Counter:
    """Counts from 1 on, for several threads."""

    def __init__(self):
        self.lock, self.number = threading.Lock(), 0

    def __next__(self) -> int:
        with self.lock:
            self.number += 1
            return self.number


def run(kills: int, seed: int, folder: Path, searches: bool) -> str:
    rng, provider, changes, numbers = random.Random(seed), Provider(), effects.Server(seed), Counter()
    told, new = Told(), Told()
    settings = SETTINGS + changes.config + (web.CONFIG if searches else "")
    for life in range(kills + 1):
        with kit.Proxy(folder, provider.base_url, more=settings) as proxy:
            inspection = Inspection(proxy, provider, changes, told, folder)
            try:
                inspect(inspection, new, rng, all_of_them=life == kills)
                if life == kills:
                    on_record = inspection.on_record()
                    break
                new = Told()
                clients = Clients(proxy, new, numbers, searches)
                if life == 0:
                    clients.wait_for_one_of_each()
                time.sleep(rng.random() * LIFE)
                kill(proxy)
                clients.join()
            except Wrong as wrong:
                raise Wrong(f"after {life} kills: {wrong}") from None
        for name, more in vars(new).items():
            getattr(told, name).update(more)
        if life % 20 == 19:
            print(f"{life + 1} kills, {len(told.final)} responses, {len(told.background)} in the background", flush=True)
    ended = collections.Counter(job.ended["status"] for job in told.background.values())
    return (
        f"{kills} kills, {len(told.final)} responses in the foreground, of which {len(told.searched)} searched; in the background: {dict(ended)}; "
        f"{len(changes.made)} calls with effects by {len(told.changing)} responses, each made once, on record as {dict(on_record)}"
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options.add_argument("--keep", action="store_true", help="leave the folder of the server")
    options.add_argument(IN_NAMESPACE, action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if not chosen.in_namespace:
        try:
            argv = [*loopback.namespace(), sys.executable, __file__, *sys.argv[1:], IN_NAMESPACE]
            os.execvp(argv[0], argv)
        except kit.Skip as reason:
            print(f"SKIPPED searches: {reason}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="respondent-kills-"))
    print(f"seed {chosen.seed}", flush=True)
    try:
        with contextlib.ExitStack() as stack:
            if chosen.in_namespace:
                loopback.bring_up()
                stack.enter_context(web.Web(small_web()))
            print(run(chosen.kills, chosen.seed, folder, chosen.in_namespace))
        return 0
    except (Wrong, kit.Failure) as wrong:
        print(f"{wrong}\n{(folder / 'proxy.log').read_text(errors='replace')[-3000:]}")
        return 1
    finally:
        if chosen.keep:
            print(f"left {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
