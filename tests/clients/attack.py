#!/usr/bin/env python3
"""Attacks the proxy as hostile providers and clients would: attack.py [NAME ...]

Every attack starts a proxy of its own, measures what the attack costs it, and says whether that is within the
limit. Times are those of this machine, so their limits are wide. Exits with 1 when a limit is exceeded.
"""

import argparse
import contextlib
import gzip
import http.client
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import socket
import socketserver
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from pathlib import Path

import kit

ATTACKS = {}
KEY = "hostile/4f1c9b7e2d8a6035/x+y"
CHAT_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def attack(does):
    """Registers a function that takes a folder and yields (what was measured, value, limit), a text for what must be equal, None for a mere figure."""
    ATTACKS[does.__name__] = does
    return does


class Upstream(socketserver.ThreadingTCPServer):
    """A provider that answers with what `answer(body)` yields: pieces of bytes, head included."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, answer):
        upstream = self
        self.bodies, self.gone = [], []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                length = 0
                while (line := self.rfile.readline().strip()):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = self.rfile.read(length)
                upstream.bodies.append(body)
                with contextlib.suppress(OSError):
                    for piece in answer(body):
                        self.wfile.write(piece)
                    self.connection.shutdown(socket.SHUT_WR)
                    self.rfile.read()
                upstream.gone.append(time.monotonic())

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def chunk(delta: dict, finish=None, **more) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more).encode() + b"\n\n"


def hello(_body):
    yield CHAT_HEAD + chunk({"content": "Hello."}) + chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}) + b"data: [DONE]\n\n"


def silent(_body):
    yield CHAT_HEAD + chunk({"content": "Hello."})
    time.sleep(600)


class Target(kit.Proxy):
    """The proxy under attack, with what it has used so far."""

    def __init__(self, folder, upstream, more="", quirks="", server=""):
        folder.mkdir(exist_ok=True)
        table = f'[server]\nlog_format = "json"\n{server}\n{more}\n[providers.mock]\nwire = "chat"\nbase_url = "{upstream.base_url}"\napi_key = "{KEY}"\n{quirks}\n'
        config = folder / "proxy-config.toml"
        config.write_text(table + '[[providers.mock.models]]\nid = "m"\nwindow = 200000\n')
        config.chmod(0o600)
        self.port = kit.free_port()
        self.flags = ["--listen", f"127.0.0.1:{self.port}", "--data-dir", folder / "data", "--config", config]
        argv = [kit.binary(), *self.flags]
        kit.Process.__init__(self, argv, folder / "proxy.log", env=kit.plain_env(folder), cwd=folder)
        self.origin, self.folder = f"http://127.0.0.1:{self.port}", folder
        self.wait_for_url(f"{self.origin}/healthz", 15)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self, field="VmRSS") -> int:
        """Megabytes of memory now, or at its highest (`VmHWM`)."""
        return int(re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{self.child.pid}/status").read_text())[1]) // 1024

    def send(self, body, path="/v1/responses", method="POST", seconds=120, headers=None):
        """Returns (status, headers, text). A status of 0 means that there was no answer in time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, raw, {"content-type": "application/json"} | (headers or {}))
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read().decode(errors="replace")
        except OSError as error:
            return 0, {}, str(error)
        finally:
            connection.close()

    def leave(self, body: dict, after: float, path="/v1/responses", method="POST"):
        """Sends a request, and leaves without an answer."""
        raw = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall(head(self.port, len(raw), path, method) + raw)
            time.sleep(after)

    def stop(self) -> float:
        """Seconds from SIGTERM to the end of the process, at most 60."""
        start = time.monotonic()
        self.child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(60)
        return time.monotonic() - start


def head(port: int, length: int, path="/v1/responses", method="POST", host=None) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: {host or f'127.0.0.1:{port}'}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n".encode()


def turn(text="Hello.", **more) -> dict:
    return {"model": "mock/m", "input": text, "stream": True} | more


def output_turn(*outputs: str, **more) -> dict:
    items = [{"role": "user", "content": "Go on."}]
    for n, output in enumerate(outputs):
        items.append({"type": "function_call", "call_id": f"call_{n}", "name": "exec", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": f"call_{n}", "output": output})
    return turn(items, **more)


def spent(target: Target, act) -> tuple[float, float, object]:
    """(seconds, seconds of CPU, result) of an action, the CPU until the process rests."""
    start, cpu = time.monotonic(), target.cpu()
    result = act()
    seconds = time.monotonic() - start
    used = -1.0
    while (now := target.cpu()) > used + 0.02:
        used = now
        time.sleep(0.5)
    return seconds, now - cpu, result


def tools(count: int, name="tool_{}") -> list:
    return [{"type": "function", "name": name.format(n), "parameters": {}} for n in range(count)]


@attack
def references_of_a_schema(folder):
    properties = {f"p{n}": {"$ref": "#/$defs/a"} for n in range(10_000)}
    parameters = {"properties": properties, "$defs": {"a": {"type": "string", "description": "d" * 100_000}}}
    tool = {"type": "function", "name": "f", "parameters": parameters}
    with Upstream(hello) as upstream, Target(folder, upstream, quirks='quirks = { schema = ["inline_refs"] }') as target:
        _, cpu, (status, _, _) = spent(target, lambda: target.send(turn(tools=[tool])))
        yield "status", status, None
        yield "MB sent upstream", sum(map(len, upstream.bodies)) / 1e6, 10
        yield "CPU s", cpu, 1
        yield "highest RSS MB", target.rss("VmHWM"), 200


@attack
def many_tools(folder):
    with Upstream(hello) as upstream, Target(folder, upstream, server='grace = "1s"') as target:
        for count in (2_000, 40_000):
            _, cpu, (status, _, _) = spent(target, lambda count=count: target.send(turn(tools=tools(count))))
            yield f"{count} tools: status", status, None
            yield f"{count} tools: CPU s", cpu, 1
        _, cpu, _ = spent(target, lambda: target.leave(turn(tools=tools(40_000)), 0.3))
        yield "client left: CPU s", cpu, 1
        target.leave(turn(tools=tools(50_000)), 0.1)
        yield "SIGTERM to exit s", target.stop(), 3


@attack
def expressions_over_artifacts(folder):
    line = "".join(random.Random(1).choices("ab", k=10_000_000))
    slow = "/search?q=a%5Bab%5D%7B400%7Dc&regex=true"
    with Upstream(hello) as upstream, Target(folder, upstream, server='grace = "1s"') as target:
        target.send(output_turn(line))
        artifact = re.search(rb"art_[0-9a-f]{32}", upstream.bodies[-1])[0].decode()
        path = f"/v1/artifacts/{artifact}"
        seconds, cpu, (status, _, _) = spent(target, lambda: target.send(None, path + slow, "GET"))
        yield "10 MB line: status", status, None
        yield "10 MB line: s", seconds, 31
        cpu = target.cpu()
        for _ in range(2):
            target.leave({}, 0.3, path + slow, "GET")
        start = time.monotonic()
        status, _, _ = target.send(None, path + "/search?q=zzz", "GET")
        yield "plain search beside two left ones: status", status, None
        yield "plain search beside two left ones: s", time.monotonic() - start, 1.5
        time.sleep(3)
        yield "CPU s after two clients left", target.cpu() - cpu, 2
        for _ in range(2):
            target.leave({}, 0.1, path + slow, "GET")
        yield "SIGTERM to exit s", target.stop(), 3


@attack
def work_that_nobody_waits_for(folder):
    search = "/v1/artifacts/{}/search?q=a%5Bab%5D%7B400%7Dc&regex=true"
    line = "".join(random.Random(1).choices("ab", k=10_000_000))
    # Distinct outputs, so that none is found in a cache.
    def history():
        return output_turn(*(f"{random.random()} " + "a line of a log\n" * 80 for _ in range(40_000)))

    with Upstream(hello) as upstream, Target(folder, upstream, server='grace = "1s"') as target:
        _, cpu, (status, _, _) = spent(target, lambda: target.send(history()))
        yield f"planning 40,000 outputs to its end (status {status}): CPU s", cpu, None
        for after in (0.05, 0.1, 0.2):
            yield f"planning: works on for s after the client left at {after} s", work_after(target, history(), after), 0.2
        target.send(output_turn(line))
        artifact = re.search(rb"art_[0-9a-f]{32}", upstream.bodies[-1])[0].decode()
        for after in (0.3, 1.0):
            yield f"search: works on for s after the client left at {after} s", work_after(target, {}, after, search.format(artifact), "GET"), 0.2


def work_after(target: Target, *request) -> float:
    """Seconds for which the process still works after the client of this request has left."""
    target.leave(*request)
    start = last = time.monotonic()
    cpu = target.cpu()
    while (now := time.monotonic()) < last + 0.5:
        time.sleep(0.005)
        used = target.cpu()
        if used > cpu:
            cpu, last = used, now
    return last - start


@attack
def streams_that_cost(folder):
    def call(arguments):
        return chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]})

    def more(arguments):
        return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})

    def end():
        return chunk({}, "stop") + b"data: [DONE]\n\n"

    def open_call(_):
        yield CHAT_HEAD + call("[")
        for _ in range(600):
            yield more('"\\n",' * 2_000)
        for _ in range(1000):
            yield chunk({"content": "x"})
        yield end()

    def white_space(_):
        yield CHAT_HEAD + call(" ")
        for _ in range(4_000):
            yield more(" " * 1_000)
        yield end()

    def citations(_):
        notes = [{"type": "url_citation", "url_citation": {"url": f"https://x/{n}"}} for n in range(200_000)]
        yield CHAT_HEAD + chunk({"content": "x", "annotations": notes}) + end()

    def calls(_):
        yield CHAT_HEAD
        for n in range(20_000):
            yield chunk({"tool_calls": [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}}]})
        yield end()

    for answer in (open_call, white_space, citations, calls):
        with Upstream(answer) as upstream, Target(folder / answer.__name__, upstream) as target:
            asked = threading.Thread(target=target.send, args=(turn(tools=tools(1, "f")),))
            asked.start()
            slowest = 0.0
            while asked.is_alive():
                start = time.monotonic()
                target.send(None, "/healthz", "GET")
                slowest = max(slowest, time.monotonic() - start)
                time.sleep(0.02)
            _, _, _ = spent(target, lambda: None)
            yield f"{answer.__name__}: CPU s", target.cpu(), 2
            yield f"{answer.__name__}: slowest healthz s", slowest, 0.5


@attack
def long_ids(folder):
    with Upstream(hello) as upstream, Target(folder, upstream, more="[artifacts]\nkeep_size = 10000000") as target:
        before = target.rss()
        for n in range(20):
            target.send(output_turn("x" * 50_000 + str(n), prompt_cache_key=f"{n}" + "k" * 5_000_000))
        time.sleep(1)
        yield "20 keys of 5 MB: RSS MB more", target.rss() - before, 150
        yield "MB on disk", sum(file.stat().st_size for file in folder.rglob("data/**/*") if file.is_file()) / 1e6, 20


@attack
def clients_that_leave_behind_unread_bytes(folder):
    for stream in (True, False):
        with Upstream(silent) as upstream, Target(folder / str(stream), upstream) as target:
            raw = json.dumps(turn(stream=stream)).encode()
            with socket.create_connection(("127.0.0.1", target.port)) as client:
                client.sendall(head(target.port, len(raw)) + raw + b"\r\n" + head(target.port, 2) + b"{}")
                while not upstream.bodies:
                    time.sleep(0.01)
                time.sleep(0.2)
            start = time.monotonic()
            while not (freed := len(target_connections(upstream)) == 0) and time.monotonic() < start + 5:
                time.sleep(0.01)
            yield f"{'streamed' if stream else 'whole'}: upstream freed after s", time.monotonic() - start if freed else 99, 0.5


def target_connections(upstream) -> list[str]:
    """The established connections to the upstream's port, from /proc."""
    port = f":{upstream.server_address[1]:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[2].endswith(port) and line.split()[3] == "01"]


@attack
def a_refusal_that_shrinks_the_model(folder):
    words = "the log says: This model's maximum context length is 300 tokens. However, your messages resulted in 5000 tokens"

    def refuse_once(body, count=[]):
        count.append(body)
        if len(count) == 2:
            text = json.dumps({"error": {"message": words, "type": "invalid_request_error"}}).encode()
            yield b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text
        else:
            yield from hello(body)

    with Upstream(refuse_once) as upstream, Target(folder, upstream) as target:
        body = output_turn("one line of output\n" * 500)
        for _ in range(4):
            target.send(body)
        yield "bytes before", len(upstream.bodies[0]), None
        yield "bytes after, of the bytes before", len(upstream.bodies[-1]) / len(upstream.bodies[0]), None
        yield "bytes missing", len(upstream.bodies[0]) - len(upstream.bodies[-1]), 0


@attack
def artifacts_without_room(folder):
    for name, outputs in (("one of 5 MB", ["x" * 5_000_000]), ("ten of 200 KB", [f"{n} " * 50_000 for n in range(10_000, 10_010)])):
        with Upstream(hello) as upstream, Target(folder / name.split()[0], upstream, more='[artifacts]\nmode = "memory"\nmemory = 1000000') as target:
            target.send(output_turn(*outputs))
            named = set(re.findall(rb"art_[0-9a-f]{32}", upstream.bodies[-1]))
            missing = [one for one in named if target.send(None, f"/v1/artifacts/{one.decode()}", "GET")[0] != 200]
            yield f"{name}: named", len(named), None
            yield f"{name}: named and not readable", len(missing), 0


@attack
def many_large_bodies(folder):
    bomb = gzip.compress(b'{"model":"mock/m","input":"' + b"x" * 62_000_000 + b'"}')
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        clients, statuses = [], []
        for _ in range(15):
            client = socket.create_connection(("127.0.0.1", target.port))
            start = head(target.port, len(bomb)).replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
            client.sendall(start + bomb[:-10])
            clients.append(client)
        time.sleep(4)
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(OSError):
                statuses.append(client.recv(100).split()[1].decode())
        yield "15 unfinished bodies of 62 MB: refused", ",".join(statuses) or "none", None
        yield "RSS MB", target.rss(), 700
        status, _, _ = target.send(turn())
        yield "a small turn meanwhile: status", status, None
        for client in clients:
            client.close()
        time.sleep(1)
        yield "a small turn afterwards: status", target.send(turn())[0], "200"


def run_alone(command, folder) -> tuple[int, float, int]:
    """The exit code of a command, its seconds, and its highest memory in MB, at least that of this program."""
    start = time.monotonic()
    child = subprocess.Popen(
        [kit.binary(), *map(str, command)], cwd=folder, env=kit.plain_env(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    killer = threading.Timer(120, child.kill)
    killer.start()
    _, status, usage = os.wait4(child.pid, 0)
    killer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, time.monotonic() - start, usage.ru_maxrss // 1024


@attack
def bundles_of_costly_turns(folder):
    properties = {f"p{n}": {"$ref": "#/$defs/a"} for n in range(10_000)}
    bomb = {"properties": properties, "$defs": {"a": {"type": "string", "description": "d" * 100_000}}}
    turns = {
        "60,000 tools": turn(tools=tools(60_000)),
        "a schema bomb": turn(tools=[{"type": "function", "name": "f", "parameters": bomb}]),
    }
    for n, (name, body) in enumerate(turns.items()):
        place = folder / str(n)
        quirks = 'quirks = { schema = ["inline_refs"] }'
        with Upstream(hello) as upstream, Target(place, upstream, '[capture]\nmode = "all"', quirks) as target:
            status, _, _ = target.send(body)
            yield f"{name}: status", status, None
            bundle = place / "turn.bundle"
            for command in (["bundle", "create", "--since", "1h", "--output", bundle, *target.flags], ["bundle", "show", bundle], ["replay", bundle]):
                code, seconds, peak = run_alone(command, place)
                what = " ".join(map(str, command[: 2 if command[0] == "bundle" else 1]))
                yield f"{name}: {what} (exit {code}): s", seconds, 5
                yield f"{name}: {what}: MB", peak, 500


@attack
def few_descriptors(folder):
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        resource.prlimit(target.child.pid, resource.RLIMIT_NOFILE, (64, 64))
        clients = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(120)]
        time.sleep(1)
        cpu = target.cpu()
        time.sleep(3)
        yield "no descriptor left: CPU s in 3 s", target.cpu() - cpu, 0.3
        for client in clients:
            client.close()
        start = time.monotonic()
        status, _, _ = target.send(turn())
        yield "connections closed: status", status, "200"
        yield "connections closed: turn after s", time.monotonic() - start, 3


@attack
def a_locked_database(folder):
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        target.send(output_turn("first " * 10_000))
        database = next(folder.rglob("data/**/*.db"), None) or next(folder.rglob("data/**/*.sqlite*"))
        lock = sqlite3.connect(database, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        for n in range(4):
            start = time.monotonic()
            status, _, _ = target.send(output_turn(f"{n} other " * 10_000))
            yield f"turn {n + 1} (status {status}): s", time.monotonic() - start, 1.8 if n == 0 else 0.8
        lock.execute("ROLLBACK")


@attack
def names_with_one_hash(folder):
    seen, start = {}, "n" * 55
    for _ in range(3_000_000):
        name = start + os.urandom(8).hex()
        if (other := seen.setdefault(zlib.crc32(name.encode()), name)) != name:
            break
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        target.send(turn(tools=[{"type": "function", "name": one, "parameters": {}} for one in (name, other)]))
        sent = [tool["function"]["name"] for tool in json.loads(upstream.bodies[-1])["tools"]]
        yield "two long names: sent as one", len(sent) - len(set(sent)), 0


@attack
def escapes_on_a_terminal(folder):
    text = "\x1b]52;c;ZXZpbA==\x07 evil \x1b[2J\n" * 3_000
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        target.send(output_turn(text))
        artifact = re.search(rb"art_[0-9a-f]{32}", upstream.bodies[-1])[0].decode()
        for command in (["show", artifact], ["search", artifact, "evil"]):
            ours, theirs = pty.openpty()
            argv = [kit.binary(), "artifacts", *command, *target.flags]
            child = subprocess.Popen(argv, stdout=theirs, stderr=theirs, env=kit.plain_env(folder), cwd=folder)
            os.close(theirs)
            printed = b""
            with contextlib.suppress(OSError):
                while piece := os.read(ours, 65536):
                    printed += piece
            child.wait(30)
            yield f"{command[0]}: printed bytes", len(printed), None
            yield f"{command[0]}: raw escapes", printed.count(b"\x1b") + printed.count(b"\x07"), 0


@attack
def keys_as_names(folder):
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        _, headers, _ = target.send(turn(prompt_cache_key=KEY))
        _, other, _ = target.send(turn(model=f"mock/{KEY}"))
        time.sleep(0.3)
        for name, text in (("log", target.text()), ("metrics", target.get("/metrics")), ("headers", str(headers) + str(other))):
            yield f"key in the {name}", text.count(KEY), 0


@attack
def keys_in_error_pages(folder):
    def page(text):
        def answer(_):
            body = json.dumps({"error": {"message": f"Bad key {text}"}}).encode()
            yield b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

        return answer

    forms = {
        "named entities": KEY.replace("/", "&sol;").replace("+", "&plus;"),
        "hexadecimal entities": KEY.replace("/", "&#x2F;").replace("+", "&#x2b;"),
        "decimal entities": KEY.replace("/", "&#47;").replace("+", "&#43;"),
    }
    for name, form in forms.items():
        with Upstream(page(form)) as upstream, Target(folder / name.split()[0], upstream) as target:
            _, _, text = target.send(turn(stream=False))
            yield f"{name}: parts of the key", text.count("4f1c9b7e2d8a6035"), 0


@attack
def small_things(folder):
    data = folder / "data"
    data.mkdir(parents=True)
    data.chmod(0o777)
    (data / "respondent.lock").touch(0o666)
    (data / "respondent.lock").chmod(0o666)
    with Upstream(hello) as upstream, Target(folder, upstream) as target:
        yield "mode of the data directory", oct(data.stat().st_mode & 0o777), "0o700"
        yield "mode of the lock", oct((data / "respondent.lock").stat().st_mode & 0o777), "0o600"
        yield "Host with :+PORT: status", target.send(None, "/v1/models", "GET", headers={"host": f"127.0.0.1:+{target.port}"})[0], "403"
        yield "broken JSON-RPC: status", target.send(b"{", "/mcp", headers={"accept": "application/json, text/event-stream"})[0], "400"
        yield "broken JSON-RPC: body", target.send(b"{", "/mcp", headers={"accept": "application/json, text/event-stream"})[2][:60], None


@attack
def pages_of_unusual_white_space(folder):
    for name, space in (("U+3000", "\u3000"), ("U+00A0", "\u00a0"), ("CR", "\r")):
        page = "<html><body><p>" + space * (480_000 // len(space.encode())) + "</p></body></html>"
        with Upstream(hello) as upstream, Target(folder / name, upstream) as target:
            seconds, cpu, (status, _, _) = spent(target, lambda page=page, target=target: target.send(output_turn(page)))
            yield f"480 KB of {name} (status {status}): CPU s", cpu, 0.5


@attack
def clients_that_do_not_read(folder):
    def flood(_):
        yield CHAT_HEAD
        while True:
            yield chunk({"content": "x" * 1_000})

    with Upstream(flood) as upstream, Target(folder, upstream, server="max_connections = 4") as target:
        raw = json.dumps(turn()).encode()
        clients = []
        for _ in range(4):
            client = socket.create_connection(("127.0.0.1", target.port))
            client.sendall(head(target.port, len(raw)) + raw)
            clients.append(client)
        time.sleep(2)
        start = time.monotonic()
        while (status := target.send(None, "/healthz", "GET", seconds=10)[0]) != 200 and time.monotonic() < start + 400:
            pass
        yield "all connections taken: healthz answers after s", time.monotonic() - start if status == 200 else 999, 320


def within(value, limit) -> bool:
    if limit is None:
        return True
    if isinstance(limit, str):
        return str(value) == limit
    return value <= limit


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", choices=[[], *ATTACKS], metavar="NAME", help=", ".join(ATTACKS))
    chosen = options.parse_args()
    exceeded = 0
    for name in chosen.names or ATTACKS:
        folder = Path(tempfile.mkdtemp(prefix="respondent-attack-"))
        print(f"{name}:", flush=True)
        try:
            for what, value, limit in ATTACKS[name](folder):
                good = within(value, limit)
                exceeded += not good
                shown = f"{value:.2f}" if isinstance(value, float) else value
                print(f"  {what}: {shown}" + ("" if good else f"  EXCEEDS {limit}"), flush=True)
        except Exception:  # noqa: BLE001
            exceeded += 1
            traceback.print_exc()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{exceeded} exceeded")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
