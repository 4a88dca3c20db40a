#!/usr/bin/env python3
"""Mixed traffic for a long time: soak.py [--minutes N] [--workers N] [--keep]

Streams, whole and long answers, calls, compactions, artifacts, faults of the upstream, slow and leaving clients, churn of
connections, and edits of the configuration. Once a minute the traffic pauses, and a line is printed with what the server
holds and how fast it answers. The limits of its memories are small, so that they are full early. Exits with 1 when a turn
was lost, or when memory, descriptors, threads, tasks or latency grow. In a run of a few minutes growth is not judged.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import random
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import kit

# The memories of the server, small enough to be full within the first third of a run.
LIMITS = """
[server]
heartbeat = "1s"
[capture]
recent = 8
memory = 4000000
keep = 20
[artifacts]
memory = 1000000
keep_size = 20000000
"""
# How long the upstream may be silent.
IDLE = '[providers.{name}.timeouts]\nidle = "4s"\n'
SESSIONS = 64
# A long answer has this many pieces. The server remembers the items of its answers, up to 112 MB: these fill that.
PIECE, LONG_TEXT = "word " * 5, 2_000
OUTPUT_LINES = 1_500
# Plain turns in a pause, one after the other.
PROBES = 200

# Growth is judged over this many minutes or more.
MIN_MINUTES = 2
# What the server may do at most.
MAX_RSS_SLOPE = 1.0  # MB a minute
MAX_COUNT_SLOPE = 0.2  # descriptors, threads or tasks a minute
MAX_P99_GROWTH = 2.0
MAX_UNCOUNTED = 0.2  # of the memory above that of the idle server

# An idle server is one that has worked for so long and rests: its code, stacks and database caches are in memory.
WARM_UP = 20  # seconds

# Freed memory goes back to the system some time later. It has settled when it has not shrunk for so long.
SETTLED, MAX_SETTLING = 12, 60  # seconds


class Lost(Exception):
    """A turn that did not end as it must."""


def script() -> dict:
    """The answers of the upstream, by a word in the last message."""

    def when(word: str, **answer) -> dict:
        return {"when": {"last_contains": word}, "repeat": True} | answer

    call = {"index": 0, "id": "call_1", "name": "exec_command", "arguments": '{"cmd":"ls"}', "pieces": 3}
    too_many = {"error": {"message": "Too many requests.", "code": "rate_limit_exceeded"}}
    broken = [{"text": "Let me "}, {"cut": "rst"}]
    return {
        "answers": [
            when("please-long", steps=[{"repeat": {"times": LONG_TEXT, "steps": [{"text": PIECE}]}}]),
            when("please-slow", steps=[{"repeat": {"times": 20 * LONG_TEXT, "steps": [{"text": "a longer piece of text, again and again "}]}}]),
            when("please-call", steps=[{"reasoning": "A command tells."}, {"call": call}]),
            when("please-reset", steps=broken),
            when("please-refuse", status=429, headers={"retry-after": "40"}, json=too_many),
            when("please-silence", steps=[{"text": "Let me "}, {"stall": True}]),
            when("please-wait", steps=[{"text": "Let me "}, {"delay_ms": 1500}, {"text": "see."}]),
            {"repeat": True, "steps": [{"reasoning": "Hm."}, {"text": "All "}, {"text": "is well. "}, {"text": "The build passed and nothing is left to do."}]},
        ]
    }


@dataclass
class Soak:
    proxy: kit.Proxy
    end: float
    running: threading.Event = field(default_factory=threading.Event)
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: collections.Counter = field(default_factory=collections.Counter)
    lost: list = field(default_factory=list)

    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    # ------------------------------------------------------------ clients

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.proxy.origin.removeprefix("http://"), timeout=60)

    def post(self, connection, body: dict, path="/v1/responses") -> http.client.HTTPResponse:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse()

    def whole(self, connection, body: dict, path="/v1/responses", status=200) -> dict:
        reply = self.post(connection, body, path)
        text = reply.read()
        if reply.status != status:
            raise Lost(f"status {reply.status}: {text[:300]!r}")
        return json.loads(text)

    def stream(self, connection, body: dict, terminal="response.completed") -> list[dict]:
        """The events of a streamed turn, which must end with this one."""
        reply = self.post(connection, body | {"stream": True})
        if reply.status != 200:
            raise Lost(f"status {reply.status}: {reply.read()[:300]!r}")
        lines = reply.read().decode().split("\n")
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        if not events or events[-1]["type"] != terminal:
            raise Lost(f"a stream ended with {events[-1:] and kit.brief(events[-1])}, not with {terminal}")
        return events

    # ------------------------------------------------------------ kinds of turns

    def plain(self, connection, rng):
        if "build passed" not in text_of(self.whole(connection, request("hello", rng))):
            raise Lost("a whole answer has another text")

    def streamed(self, connection, rng):
        events = self.stream(connection, request("hello", rng))
        if "build passed" not in text_of(events[-1]["response"]):
            raise Lost("a stream has another text")

    def long_answer(self, connection, rng):
        events = self.stream(connection, request("please-long", rng))
        if text_of(events[-1]["response"]) != PIECE * LONG_TEXT:
            raise Lost("a long answer is not whole")

    def call_and_result(self, connection, rng):
        body = request("please-call", rng)
        output = self.stream(connection, body)[-1]["response"]["output"]
        if output[-1]["type"] != "function_call" or output[-1]["arguments"] != '{"cmd":"ls"}':
            raise Lost(f"another call: {kit.brief(output)}")
        result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "one\ntwo"}
        self.whole(connection, body | {"input": [*body["input"], *output, result]})

    def long_output(self, connection, rng):
        """An output that becomes an artifact, which is then read, searched and, sometimes, deleted."""
        number = rng.randrange(1 << 60)
        text = "".join(f"{number:x} line {line} of a long output\n" for line in range(OUTPUT_LINES))
        body = request("go", rng)
        call = {"type": "function_call", "call_id": f"call_{number:x}", "name": "exec_command", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": text}
        self.whole(connection, body | {"input": [*body["input"], call, result]})
        connection.request("GET", f"/v1/artifacts?limit=50&session={body['prompt_cache_key']}")
        listed = json.loads(connection.getresponse().read())["data"]
        kept = [entry["id"] for entry in listed if entry.get("call_id") == call["call_id"]]
        if not kept:
            raise Lost("a shortened output is not kept")
        connection.request("GET", f"/v1/artifacts/{kept[0]}")
        if connection.getresponse().read().decode() != text:
            raise Lost("an artifact has another text")
        for query in ("q=line+77+&context=2", "q=line+(1|2)%2B+of&regex=true"):
            connection.request("GET", f"/v1/artifacts/{kept[0]}/search?{query}")
            if json.loads(connection.getresponse().read())["matches"] == 0:
                raise Lost(f"{query} finds nothing")
        if rng.random() < 0.2:
            connection.request("DELETE", f"/v1/artifacts/{kept[0]}", headers={"content-type": "application/json"})
            connection.getresponse().read()

    def compaction(self, connection, rng):
        body = request("go", rng)
        history = [message(role, f"{word} " * 50) for word in ("alpha", "beta", "gamma") for role in ("user", "assistant")]
        answer = self.whole(connection, {"model": body["model"], "input": history}, "/v1/responses/compact")
        kinds = [item["type"] for item in answer["output"]]
        if "compaction" not in kinds:
            raise Lost(f"a compaction without its item: {kinds}")
        self.whole(connection, body | {"input": [*answer["output"], *body["input"]]})

    def reset(self, connection, rng):
        self.stream(connection, request("please-reset", rng), "response.failed")

    def refused(self, connection, rng):
        self.whole(connection, request("please-refuse", rng, "limited"), status=429)

    def silence(self, connection, rng):
        self.stream(connection, request("please-silence", rng), "response.failed")

    def waiting(self, connection, rng):
        self.stream(connection, request("please-wait", rng))

    def leaving(self, connection, rng):
        """A client that leaves after some bytes of an endless answer."""
        reply = self.post(connection, request("please-slow", rng) | {"stream": True})
        reply.read(rng.randrange(1, 20_000))
        connection.close()

    def slow_reader(self, connection, rng):
        """A client that reads a little now and then, and leaves in the end."""
        reply = self.post(connection, request("please-slow", rng) | {"stream": True})
        for _ in range(20):
            reply.read(2_000)
            time.sleep(0.1)
        connection.close()

    def churn(self, connection, rng):
        """Connections that send nothing, half a head, or half a body."""
        host, port = self.proxy.origin.removeprefix("http://").split(":")
        head = f"POST /v1/responses HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{{"
        for _ in range(5):
            with socket.create_connection((host, int(port)), 10) as peer:
                peer.sendall(head[: rng.randrange(len(head) + 1)].encode())

    def run(self, number: int):
        """One client: turns of random kinds, on connections that it keeps for a while."""
        rng = random.Random(number)
        kinds, weights = zip(*KINDS.items())
        connection = self.connect()
        while not self.is_over():
            if not self.running.is_set():
                # The server closes a connection on which nothing is sent for long.
                connection.close()
                self.running.wait()
            with self.lock:
                if not self.running.is_set():
                    continue
                self.busy += 1
            kind = rng.choices(kinds, weights)[0]
            try:
                getattr(self, kind)(connection, rng)
            except (Lost, OSError, http.client.HTTPException, KeyError, ValueError) as wrong:
                if not self.is_over():
                    self.lost.append(f"{kind}: {type(wrong).__name__}: {wrong}")
                connection.close()
            with self.lock:
                self.busy -= 1
                self.done[kind] += 1
            if rng.random() < 0.1:
                connection.close()
            time.sleep(rng.random() * 0.05)
        connection.close()

    # ------------------------------------------------------------ pauses

    @contextlib.contextmanager
    def pause(self):
        """Waits until no turn runs, and keeps it so."""
        self.running.clear()
        patience = time.monotonic() + 90
        while self.busy and time.monotonic() < patience:
            time.sleep(0.05)
        if self.busy:
            self.lost.append(f"{self.busy} turns do not end")
        yield
        self.running.set()

    def sample(self, minute: float, settles: bool = False) -> "Sample":
        connection = self.connect()
        rng, times = random.Random(0), []
        for _ in range(PROBES):
            start = time.perf_counter()
            try:
                self.plain(connection, rng)
            except (Lost, OSError, http.client.HTTPException) as wrong:
                self.lost.append(f"in a pause: {wrong}")
                connection.close()
            times.append((time.perf_counter() - start) * 1e3)
        connection.close()
        times.sort()
        process = Path(f"/proc/{self.proxy.child.pid}")
        return Sample(
            minute=minute,
            rss=settled_rss(process) if settles else rss(process),
            descriptors=len(os.listdir(process / "fd")),
            threads=len(os.listdir(process / "task")),
            tasks=tasks(self.proxy),
            median=times[len(times) // 2],
            p99=times[len(times) * 99 // 100],
            counted=counted_memory(self.proxy),
            turns=sum(self.done.values()),
            lost=len(self.lost),
        )


# How often a turn is of each kind.
KINDS = {
    "plain": 20,
    "streamed": 20,
    "call_and_result": 10,
    "long_output": 10,
    "long_answer": 6,
    "leaving": 6,
    "churn": 4,
    "compaction": 4,
    "reset": 3,
    "refused": 3,
    "waiting": 2,
    "slow_reader": 1,
    "silence": 1,
}


@dataclass
class Sample:
    """What the server holds, and how fast it answers. Memory in MB, times in ms."""

    minute: float
    rss: float
    descriptors: int
    threads: int
    tasks: int
    median: float
    p99: float
    counted: float | None
    turns: int
    lost: int

    def line(self) -> str:
        counted = "" if self.counted is None else f", {self.counted:.1f} MB counted"
        return (
            f"minute {self.minute:5.1f}: {self.turns} turns, {self.lost} lost, RSS {self.rss:.1f} MB{counted}, "
            f"{self.descriptors} descriptors, {self.threads} threads, {self.tasks} tasks, plain turn {self.median:.1f} ms, p99 {self.p99:.1f} ms"
        )


def message(role: str, text: str) -> dict:
    return {"type": "message", "role": role, "content": text}


def request(word: str, rng: random.Random, model: str | None = None) -> dict:
    """A turn of one of the sessions, with either provider."""
    model = model or rng.choice(("chat", "native"))
    history = [message("user", "Look around."), message("assistant", "I looked."), message("user", word)]
    return {"model": f"{model}/scripted", "input": history, "prompt_cache_key": f"soak-{rng.randrange(SESSIONS)}"}


def text_of(response: dict) -> str:
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part.get("text", "") for item in messages for part in item["content"])


def rss(process: Path) -> float:
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024


def settled_rss(process: Path) -> float:
    """The least memory, once no more of it goes back to the system."""
    least, begin = rss(process), time.monotonic()
    changed = begin
    while time.monotonic() < min(changed + SETTLED, begin + MAX_SETTLING):
        time.sleep(0.5)
        now = rss(process)
        if now < least - 0.1:
            least, changed = now, time.monotonic()
    return least


def counted_memory(proxy: kit.Proxy) -> float | None:
    """The sum of what the server counts of its own memory, in MB; None if it counts none."""
    lines = [line for line in proxy.get("/metrics").splitlines() if line.startswith("respondent_memory_bytes{")]
    return sum(float(line.split()[-1]) for line in lines) / (1 << 20) if lines else None


def tasks(proxy: kit.Proxy) -> int:
    """The tasks of the server's runtime that have not ended."""
    lines = [line for line in proxy.get("/metrics").splitlines() if line.startswith("respondent_tasks ")]
    return int(float(lines[0].split()[-1]))


def slope(points: list[tuple[float, float]]) -> float:
    """The growth a minute, by least squares."""
    return statistics.linear_regression(*zip(*points)).slope


def edit(config: Path, soak: Soak):
    """Edits the configuration every few seconds; every third edit is broken."""
    text = config.read_text()
    for number in range(1, 1 << 30):
        for _ in range(30):
            if soak.is_over():
                config.write_text(text)
                return
            time.sleep(0.1)
        broken = "\n[server\n" if number % 3 == 0 else ""
        config.write_text(f"{text}\n[routing.aliases]\nedit{number} = \"chat/scripted\"\n{broken}")


def verdict(samples: list[Sample], rest: Sample, idle: float, lost: list[str]) -> list[str]:
    """What is wrong after the first third of the samples, in which memories fill, and at rest."""
    wrong = [f"{len(lost)} turns were lost: {lost[:5]}"] if lost else []
    settled = samples[len(samples) // 3 :]
    if settled[-1].minute - settled[0].minute < MIN_MINUTES:
        print("too short to judge growth")
        return wrong
    growth = slope([(sample.minute, sample.rss) for sample in settled])
    print(f"RSS grows by {growth:.2f} MB a minute, from {idle:.1f} MB when idle and nothing is counted")
    if growth >= MAX_RSS_SLOPE:
        wrong.append(f"RSS grows by {growth:.2f} MB a minute")
    for name in ("descriptors", "threads", "tasks"):
        growth = slope([(sample.minute, getattr(sample, name)) for sample in settled])
        print(f"{name} grow by {growth:.2f} a minute")
        if growth >= MAX_COUNT_SLOPE and getattr(settled[-1], name) > getattr(settled[0], name) + 2:
            wrong.append(f"{name} grow by {growth:.2f} a minute")
    half = len(settled) // 2
    early, late = (statistics.median(sample.p99 for sample in part) for part in (settled[:half], settled[half:]))
    print(f"p99 of a plain turn: {early:.1f} ms, then {late:.1f} ms")
    if late > MAX_P99_GROWTH * early:
        wrong.append(f"p99 grew from {early:.1f} ms to {late:.1f} ms")
    if rest.counted is not None:
        used = rest.rss - idle
        print(f"counted: {rest.counted:.1f} MB of the {used:.1f} MB above idle")
        if abs(used - rest.counted) > MAX_UNCOUNTED * used:
            wrong.append(f"{rest.counted:.1f} MB are counted, and {used:.1f} MB used")
    return wrong


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--workers", type=int, default=12)
    options.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="respondent-soak-"))
    kinds = {"chat": "chat", "native": "responses", "limited": "chat"}
    more = "".join(IDLE.format(name=name) for name in kinds) + LIMITS
    begin = time.monotonic()
    interval = min(60.0, max(5.0, chosen.minutes * 60 / 6))
    is_judged = chosen.minutes > MIN_MINUTES
    wrong = []
    try:
        with kit.Player(script(), folder) as player, kit.Proxy(folder, player.base_url, kinds=kinds, more=more) as proxy:
            soak = Soak(proxy, begin + chosen.minutes * 60)
            soak.running.set()
            threads = [threading.Thread(target=soak.run, args=(number,)) for number in range(chosen.workers)]
            threads.append(threading.Thread(target=edit, args=(folder / "proxy-config.toml", soak)))
            for thread in threads:
                thread.start()
            time.sleep(min(WARM_UP, chosen.minutes * 10))
            with soak.pause():
                warm = soak.sample((time.monotonic() - begin) / 60, settles=is_judged)
            idle = warm.rss - (warm.counted or 0)
            print(f"when idle: RSS {warm.rss:.1f} MB with what is counted, {idle:.1f} MB without", flush=True)
            samples = []
            while not soak.is_over():
                time.sleep(max(0.0, min(interval, soak.end - time.monotonic())))
                with soak.pause():
                    samples.append(soak.sample((time.monotonic() - begin) / 60))
                print(samples[-1].line(), flush=True)
            for thread in threads:
                thread.join()
            rest = soak.sample((time.monotonic() - begin) / 60, settles=is_judged)
            print(", ".join(f"{count} {kind}" for kind, count in soak.done.most_common()))
            proxy.child.terminate()
            try:
                code = proxy.child.wait(30)
            except kit.subprocess.TimeoutExpired:
                code = None
            if code != 0:
                wrong.append(f"the server ended with {code} after SIGTERM")
            if "panicked" in proxy.text():
                wrong.append("a thread panicked")
            wrong += verdict(samples, rest, idle, soak.lost)
    finally:
        if chosen.keep:
            print(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for line in wrong:
        print(f"WRONG: {line}")
    print("red" if wrong else "green")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
