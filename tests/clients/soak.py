#!/usr/bin/env python3
"""Mixed traffic for a long time: soak.py [--minutes N] [--workers N] [--hostile [ATTACK ...]] [--keep]

The clients of two owners: streams, whole and long answers, calls, compactions, artifacts, stored and background responses,
faults of the upstream, slow and leaving clients, churn of connections, and edits of the configuration. With --hostile a third
owner is there in every second minute, who attacks the server (hostile.py). Once a minute the traffic pauses, and a line is
printed with what the server holds and how fast it answers. The limits of its memories are small, so that they are full
early. Exits with 1 when a turn was lost, when memory exceeds its limit, when memory, descriptors, threads, tasks or latency
grow, or when the hostile owner makes turns slow. In a run of a few minutes only lost turns are judged.
"""

import argparse
import collections
import contextlib
import hashlib
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

import hostile
import kit

# The memories of the server, small enough to be full within the first third of a run.
MEMORY = 256  # MB of the whole server
LIMITS = f"""
[server]
heartbeat = "1s"
memory = {MEMORY << 20}
max_connections = 256
token_file = "token"
[jobs]
running = 4
[capture]
recent = 8
memory = 4000000
keep = 20
[artifacts]
memory = 1000000
keep_size = 20000000
"""
# Two owners and a hostile one.
OWNERS, HOSTILE = ("alice", "bob"), "mallory"
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
MAX_ABOVE_LIMIT = 30  # MB above the idle server and the limit of its memory
MAX_SLOWER = 2.0  # with the hostile owner, by p99
MAX_LATER = 1_000  # ms, with the hostile owner, by the slowest
# Whose latency is judged: turns that are not stored, and those that are.
JUDGED = ("plain", "continued")

# An idle server is one that has worked for so long for whoever is there, and rests: its code, stacks and database caches are in
# memory.
WARM_UP = 20  # seconds

# Freed memory goes back to the system some time later, and connections end after their last answer. What has not shrunk for
# so long has settled.
# A background response has a task for half a minute after its end, and a few of them end each second.
SETTLED, SETTLED_TASKS, MAX_SETTLING = 12, 6, 60  # seconds


class Lost(Exception):
    """A turn that did not end as it must."""


def token(owner: str) -> str:
    return f"token-of-{owner}-0123456789"


def clients() -> str:
    """The tables of the owners."""
    names = (*OWNERS, HOSTILE)
    return "".join(f'[clients.{name}]\ntoken_sha256 = "{hashlib.sha256(token(name).encode()).hexdigest()}"\n' for name in names)


class Connection(http.client.HTTPConnection):
    """A connection of an owner."""

    def __init__(self, proxy: kit.Proxy, owner: str):
        super().__init__(proxy.origin.removeprefix("http://"), timeout=60)
        self.owner = owner
        self.fields = {"authorization": f"Bearer {token(owner)}", "content-type": "application/json"}

    def request(self, method, path, body=None):
        super().request(method, path, body, self.fields)


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
    # Whether the hostile owner is there, and how long turns took with and without, in ms.
    is_attacked: bool = False
    times: dict = field(default_factory=lambda: collections.defaultdict(list))
    # What owners were told to be stored.
    stored: dict = field(default_factory=lambda: {owner: [] for owner in OWNERS})

    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    # ------------------------------------------------------------ clients

    def post(self, connection, body: dict, path="/v1/responses") -> http.client.HTTPResponse:
        connection.request("POST", path, json.dumps(body))
        return connection.getresponse()

    def get(self, connection, path: str) -> dict:
        connection.request("GET", path)
        return self.parsed(connection.getresponse(), 200)

    def whole(self, connection, body: dict, path="/v1/responses", status=200) -> dict:
        return self.parsed(self.post(connection, body, path), status)

    def parsed(self, reply: http.client.HTTPResponse, status: int) -> dict:
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
        if "build passed" not in text_of(self.whole(connection, request("hello", rng) | {"store": False})):
            raise Lost("a whole answer has another text")

    def continued(self, connection, rng):
        """Two stored turns, and an earlier one that is read again."""
        first = self.whole(connection, request("hello", rng))
        second = self.whole(connection, request("hello", rng) | {"previous_response_id": first["id"]})
        of_owner = self.stored[connection.owner]
        of_owner += [first, second]
        told = of_owner[rng.randrange(len(of_owner))]
        if self.get(connection, f"/v1/responses/{told['id']}") != told:
            raise Lost("a stored response has changed")

    def background(self, connection, rng):
        response = self.whole(connection, request("hello", rng) | {"background": True})
        while response["status"] in ("queued", "in_progress"):
            time.sleep(0.05)
            response = self.get(connection, f"/v1/responses/{response['id']}")
        if "build passed" not in text_of(response):
            raise Lost(f"a background response is {response['status']}")

    def foreign(self, connection, rng):
        """References to what the hostile owner has stored many times."""
        references = [{"type": "item_reference", "id": hostile.MANY}] * 1_000
        self.whole(connection, request("hello", rng) | {"input": references}, "/v1/responses/input_tokens", status=400)

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
        listed = self.get(connection, f"/v1/artifacts?limit=50&session={body['prompt_cache_key']}")["data"]
        kept = [entry["id"] for entry in listed if entry.get("call_id") == call["call_id"]]
        if not kept:
            raise Lost("a shortened output is not kept")
        connection.request("GET", f"/v1/artifacts/{kept[0]}")
        if connection.getresponse().read().decode() != text:
            raise Lost("an artifact has another text")
        for query in ("q=line+77+&context=2", "q=line+(1|2)%2B+of&regex=true"):
            if self.get(connection, f"/v1/artifacts/{kept[0]}/search?{query}")["matches"] == 0:
                raise Lost(f"{query} finds nothing")
        if rng.random() < 0.2:
            connection.request("DELETE", f"/v1/artifacts/{kept[0]}")
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
        fields = "".join(f"{name}: {value}\r\n" for name, value in connection.fields.items())
        head = f"POST /v1/responses HTTP/1.1\r\nhost: {host}:{port}\r\n{fields}content-length: 100000\r\n\r\n{{"
        for _ in range(5):
            with socket.create_connection((host, int(port)), 10) as peer:
                peer.sendall(head[: rng.randrange(len(head) + 1)].encode())

    def run(self, number: int):
        """One client: turns of random kinds, on connections that it keeps for a while."""
        rng = random.Random(number)
        kinds, weights = zip(*KINDS.items())
        connection = Connection(self.proxy, OWNERS[number % len(OWNERS)])
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
            times, start = self.times[kind, self.is_attacked], time.perf_counter()
            try:
                getattr(self, kind)(connection, rng)
            except (Lost, OSError, http.client.HTTPException, KeyError, ValueError) as wrong:
                if not self.is_over():
                    self.lost.append(f"{kind} of {connection.owner}: {type(wrong).__name__}: {wrong}")
                connection.close()
            times.append((time.perf_counter() - start) * 1e3)
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
        connection = Connection(self.proxy, OWNERS[0])
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
        process = Path(f"/proc/{self.proxy.child.pid}")
        peak = rss(process, "VmHWM")
        # The peak is that since the last sample.
        (process / "clear_refs").write_text("5")
        return Sample(
            minute=minute,
            is_attacked=self.is_attacked,
            rss=least(lambda: rss(process), SETTLED) if settles else rss(process),
            peak=peak,
            descriptors=len(os.listdir(process / "fd")),
            threads=len(os.listdir(process / "task")),
            tasks=least(lambda: tasks(self.proxy), SETTLED_TASKS),
            median=statistics.median(times),
            p99=p99(times),
            counted=counted_memory(self.proxy),
            turns=sum(self.done.values()),
            lost=len(self.lost),
        )


# How often a turn is of each kind.
KINDS = {
    "plain": 20,
    "streamed": 20,
    "continued": 10,
    "background": 4,
    "foreign": 2,
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
    is_attacked: bool
    rss: float
    peak: float
    descriptors: int
    threads: int
    tasks: int
    median: float
    p99: float
    counted: float | None
    turns: int
    lost: int

    def uncounted(self) -> float:
        """The memory that the server does not count."""
        return self.rss - (self.counted or 0)

    def line(self) -> str:
        counted = "" if self.counted is None else f", {self.counted:.1f} MB counted"
        return (
            f"minute {self.minute:5.1f}{' with ' + HOSTILE if self.is_attacked else ''}: {self.turns} turns, {self.lost} lost, "
            f"RSS {self.rss:.1f} MB, at most {self.peak:.1f} MB{counted}, "
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


def rss(process: Path, name="VmRSS") -> float:
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return int(status[name].split()[0]) / 1024


def least(measure, seconds: float) -> float:
    """The least value, once it has not shrunk for so long."""
    lowest, begin = measure(), time.monotonic()
    changed = begin
    while time.monotonic() < min(changed + seconds, begin + MAX_SETTLING):
        time.sleep(0.5)
        now = measure()
        if now < lowest - 0.1:
            lowest, changed = now, time.monotonic()
    return lowest


def p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100] if times else 0.0


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


@contextlib.contextmanager
def attacked(soak: Soak, folder: Path, attacks: list[str]):
    """The hostile owner is there meanwhile."""
    argv = [sys.executable, hostile.__file__, soak.proxy.origin, token(HOSTILE), *attacks]
    with kit.Process(argv, folder / f"{HOSTILE}.log") as process:
        soak.is_attacked = True
        yield
        process.child.terminate()
        with contextlib.suppress(kit.subprocess.TimeoutExpired):
            process.child.wait(30)
        if process.child.returncode != 0:
            soak.lost.append(f"{HOSTILE} ended with {process.child.returncode}: {process.text()[-1000:]}")
        print(f"{HOSTILE}: {process.text().strip()}", flush=True)


def slower(times: dict, is_judged: bool) -> list[str]:
    """Which turns the hostile owner makes slow."""
    wrong = []
    for kind in JUDGED:
        alone, attacked = times[kind, False], times[kind, True]
        line = f"p99 of {kind} turns: {p99(alone):.1f} ms, and {p99(attacked):.1f} ms with {HOSTILE}"
        slowest = max(alone, default=0.0), max(attacked, default=0.0)
        line += f"; the slowest took {slowest[0]:.0f} ms, and {slowest[1]:.0f} ms with {HOSTILE}"
        print(line)
        if is_judged and (p99(attacked) > MAX_SLOWER * p99(alone) or slowest[1] > slowest[0] + MAX_LATER):
            wrong.append(line)
    return wrong


# Promise: Under mixed traffic of several clients for 30 minutes no turn is lost, and memory,
# descriptors, threads and latency stay flat after the first ten.
def verdict(samples: list[Sample], rest: Sample, idle: float, most: float, lost: list[str]) -> list[str]:
    """What is wrong after the first third of the samples without the hostile owner, in which memories fill, and at rest."""
    wrong = [f"{len(lost)} turns were lost: {lost[:5]}"] if lost else []
    peak = max(sample.peak for sample in samples)
    print(f"RSS was at most {peak:.1f} MB, and may be {most:.1f} MB")
    samples = [sample for sample in samples if not sample.is_attacked]
    settled = samples[len(samples) // 3 :]
    if not settled or settled[-1].minute - settled[0].minute < MIN_MINUTES:
        print("too short to judge growth")
        return wrong
    if peak > most:
        wrong.append(f"RSS was {peak:.1f} MB, more than {most:.1f} MB")
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
    names = ", ".join(hostile.ATTACKS)
    options.add_argument("--hostile", nargs="*", metavar="ATTACK", help=f"{HOSTILE} attacks in every second minute, in all ways or in these: {names}")
    options.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="respondent-soak-"))
    kinds = {"chat": "chat", "native": "responses", "limited": "chat"}
    more = "".join(IDLE.format(name=name) for name in kinds) + LIMITS + clients()
    (folder / "token").write_text(token("operator"))
    (folder / "token").chmod(0o600)
    begin = time.monotonic()
    interval = min(60.0, max(5.0, chosen.minutes * 60 / 6))
    is_hostile = chosen.hostile is not None
    is_judged = chosen.minutes > MIN_MINUTES
    wrong = []
    try:
        with kit.Player(script(), folder) as player, kit.Proxy(folder, player.base_url, kinds=kinds, more=more) as proxy:
            proxy.headers = {"authorization": f"Bearer {token('operator')}"}
            soak = Soak(proxy, float("inf"))
            soak.running.set()
            threads = [threading.Thread(target=soak.run, args=(number,)) for number in range(chosen.workers)]
            threads.append(threading.Thread(target=edit, args=(folder / "proxy-config.toml", soak)))
            for thread in threads:
                thread.start()
            time.sleep(min(WARM_UP, chosen.minutes * 10))
            with soak.pause():
                warm = soak.sample((time.monotonic() - begin) / 60, settles=is_judged)
            print(f"when idle: RSS {warm.rss:.1f} MB with what is counted, {warm.uncounted():.1f} MB without", flush=True)
            idle = warm
            if is_hostile:
                with attacked(soak, folder, chosen.hostile):
                    time.sleep(min(WARM_UP, chosen.minutes * 10))
                with soak.pause():
                    idle = soak.sample((time.monotonic() - begin) / 60, settles=is_judged)
                soak.is_attacked = False
                print(f"the same after {HOSTILE}: {idle.rss:.1f} MB, and {idle.uncounted():.1f} MB", flush=True)
            most = warm.uncounted() + MEMORY + MAX_ABOVE_LIMIT
            soak.end = time.monotonic() + chosen.minutes * 60
            samples = []
            while not soak.is_over():
                with attacked(soak, folder, chosen.hostile) if is_hostile and len(samples) % 2 == 0 else contextlib.nullcontext():
                    time.sleep(max(0.0, min(interval, soak.end - time.monotonic())))
                with soak.pause():
                    samples.append(soak.sample((time.monotonic() - begin) / 60))
                soak.is_attacked = False
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
            wrong += verdict(samples, rest, idle.uncounted(), most, soak.lost)
            wrong += slower(soak.times, is_judged) if is_hostile else []
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
