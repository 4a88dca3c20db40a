#!/usr/bin/env python3
"""What a user of Codex and of the OpenAI SDK sees of a provider that is dead, slow, wrong or refuses.

    deadprovider.py [filter]

Prints a table of all cases: the seconds until the end of the turn, the requests that it cost the provider, and the
sentence that Codex shows. run.py runs those that are done within some seconds (cases/deadprovider); the others are in
deadprovider.json. A case has the `replies` of the provider (see `Provider`), or it is `closed`, `full` (its backlog) or
has a `host` that does not exist; `tls` and `scheme` are what it speaks and what is spoken to it. `worked` says that it
answered a turn before, and `back` after how many seconds it is there again. `expect` has the most `seconds` and `requests`, and a pattern of what is `shown`.
"""

import argparse
import contextlib
import json
import re
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path

import codex
import kit
import loopback

SDK = """
import openai, sys, time
start = time.monotonic()
try:
    client = openai.OpenAI(base_url=sys.argv[1], api_key="any")
    stream = client.responses.create(model=sys.argv[2], input="Say hello.", stream=True)
    texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
    shown = "".join(texts)
except openai.APIError as error:
    shown = error.body["message"] if isinstance(error.body, dict) else str(error)
print(f"{time.monotonic() - start:.2f}")
print(shown)
"""

NO_HOST = "no-such-host.invalid"

CHUNKS = [
    {"choices": [{"index": 0, "delta": {"content": "Hello."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def reply(status: str, body="", kind="application/json", headers=()) -> bytes:
    head = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body.encode())}", "connection: close", *headers]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


NAMED = {
    "hello": reply("200 OK", "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n", "text/event-stream"),
    "loading": reply("503 Service Unavailable", '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'),
    "page": reply("200 OK", "<!DOCTYPE html><title>Welcome</title><p>Welcome to nginx!", "text/html"),
}


def bytes_of(answer: str | dict) -> bytes:
    if isinstance(answer, str):
        return NAMED[answer]
    body = json.dumps({"error": {"message": answer["error"]}}) if "error" in answer else ""
    return reply(answer["status"], body, headers=answer.get("headers", ()))


class Provider:
    """A server on loopback. It answers its connections with `replies`, one after another, the last one again and again.

    A reply is an HTTP status with an `error` and `headers`, the name of one (`NAMED`), `close` (the connection is closed
    at once), `hold` (it stays open and silent), or a number of seconds of silence before the next one.
    """

    def __init__(self, replies: list, backlog=64, certificate: Path | None = None):
        self.replies, self.held, self.context = list(replies), [], None
        self.bodies: list[bytes] = []
        # What it did, with the seconds since its start.
        self.seen: list[str] = []
        self.started = time.monotonic()
        self.port, self.backlog = 0, backlog
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate)
        self.listen()

    def listen(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=self.backlog)
        self.port = self.listener.getsockname()[1]
        if self.replies:
            threading.Thread(target=self.serve, args=[self.listener], daemon=True).start()

    def note(self, what: str):
        self.seen.append(f"{time.monotonic() - self.started:.1f} s: {what}")

    def serve(self, listener: socket.socket):
        while True:
            try:
                connection, (_, port) = listener.accept()
            except OSError as error:
                self.note(f"accepts no more: {error}")
                return
            self.note(f"accepted a connection from port {port}")
            threading.Thread(target=self.answer, args=[connection], daemon=True).start()

    def answer(self, connection: socket.socket):
        with contextlib.suppress(OSError, ValueError):
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection:
                answer = self.next()
                self.note(f"answers with {answer}")
                if answer == "close":
                    return
                body = read_request(connection)
                if body is None:
                    connection.sendall(reply("400 Bad Request"))
                    return
                self.bodies.append(body)
                while isinstance(answer, (int, float)):
                    time.sleep(answer)
                    answer = self.next()
                if answer == "hold":
                    self.held.append(connection.dup())
                else:
                    connection.sendall(bytes_of(answer))

    def next(self):
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def fill(self):
        """Fills the backlog, so that further connections get no answer."""
        for _ in range(3):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", self.port))
            self.held.append(waiting)

    def close(self):
        # Wakes the thread that accepts.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def read_request(connection: socket.socket) -> bytes | None:
    """The body of a request; None if it is not one of HTTP."""
    data = connection.recv(65536)
    while b"\r\n\r\n" not in data:
        if not data.startswith(b"POST"):
            return None
        data += receive_more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
    while len(body) < length:
        body += receive_more(connection)
    return body


def receive_more(connection: socket.socket) -> bytes:
    """The next bytes of a request that is not complete."""
    data = connection.recv(65536)
    if not data:
        raise OSError("the client closed the connection within a request")
    return data


def need_resolver(host: str):
    """Skips the case where nobody says soon that there is no such host."""
    start = time.monotonic()
    with contextlib.suppress(OSError):
        socket.getaddrinfo(host, 443)
    if time.monotonic() - start > 1:
        raise kit.Skip("the name server does not answer")


@contextlib.contextmanager
def provider_of(case: dict, folder: Path):
    """Yields the provider, or None, its base URL, and a function that brings about what the case is about."""
    if case.get("host"):
        need_resolver(NO_HOST)
        yield None, f"https://{NO_HOST}/v1", lambda: None
        return
    certificate = loopback.make_certificate(["localhost"], folder) if case.get("tls") else None
    backlog = 0 if case.get("full") else 64
    provider = Provider(["hello"] if case.get("worked") else case.get("replies", []), backlog, certificate)

    def fail():
        if case.get("closed"):
            provider.close()
            if "back" in case:
                threading.Timer(case["back"], provider.listen).start()
        elif case.get("full"):
            if case.get("worked"):
                provider.close()
                provider.replies = []
                provider.listen()
            provider.fill()
        else:
            provider.replies = list(case["replies"])

    try:
        yield provider, f"{case.get('scheme', 'http')}://127.0.0.1:{provider.port}/v1", fail
    finally:
        provider.close()


@contextlib.contextmanager
def proxy_of(case: dict, folder: Path):
    """Yields the proxy with the provider of the case, whose `requests` are those of it so far."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        provider, url, fail = stack.enter_context(provider_of(case, folder))
        more = case.get("config", "")
        if case.get("fallback"):
            other = Provider(["hello"])
            stack.callback(other.close)
            more += kit.provider_table("other", "chat", f"http://127.0.0.1:{other.port}/v1", kit.API_KEY, ["m"])
            more += '[routing.fallbacks]\n"scripted/m" = ["other/m"]\n'
        proxy = stack.enter_context(kit.Proxy(folder, url, ["m"], more=more, env=case.get("env")))
        proxy.provider, proxy.fail = provider, fail
        proxy.first_model = lambda: "scripted/m"
        try:
            yield proxy
        except kit.Failure as failure:
            seen = provider.seen if provider else []
            raise kit.Failure("\n".join([str(failure), "the provider:", *seen])) from failure


def requests_of(proxy: kit.Proxy) -> int:
    """The requests to providers so far: those of turns, retries and failovers."""
    counters = ["respondent_turns_total", "respondent_upstream_retries_total", "respondent_failovers_total"]
    return sum(map(proxy.counted, counters))


def seen_by_codex(case: dict, folder: Path) -> tuple[float, int, str]:
    """The seconds have the start of Codex in them, about one."""
    with proxy_of(case, folder) as proxy:
        session = codex.Session(proxy, folder, {})
        if case.get("worked"):
            session.turn("Say hello.", 60)
        proxy.fail()
        before, session.seconds = requests_of(proxy), 0.0
        turn = session.turn("Say hello again.", 300)
        proxy.settled_turns(proxy.turns())
        seen = session.seconds, requests_of(proxy) - before, turn.message or ""
        if turn.failure is None and proxy.provider:
            session.turn("Go on.", 60)
            if any(b"Waiting" in body for body in proxy.provider.bodies):
                raise kit.Failure("what Codex showed of a wait got into its history")
        return seen


def seen_by_sdk(case: dict, folder: Path) -> tuple[float, int, str]:
    with proxy_of(case, folder) as proxy:
        (folder / "work").mkdir()
        argv = [kit.VENV_PYTHON, "-c", SDK, proxy.base_url, proxy.first_model()]
        if case.get("worked"):
            kit.run_program(argv, folder, kit.plain_env(folder), 60, "sdk-0")
        proxy.fail()
        before = requests_of(proxy)
        code, stdout, stderr = kit.run_program(argv, folder, kit.plain_env(folder), 300, "sdk")
        if code != 0:
            raise kit.Failure(stderr)
        seconds, _, shown = stdout.strip().partition("\n")
        time.sleep(0.3)
        return float(seconds), requests_of(proxy) - before, shown


def row(name: str, case: dict, folder: Path) -> tuple[list[str], list[str]]:
    """The cells of the case in the table, and what is wrong with them."""
    cells, wrong, expect = [name], [], case["expect"]
    shown = {}
    for client, seen_by, start in [("Codex", seen_by_codex, 2), ("SDK", seen_by_sdk, 1)]:
        seconds, requests, shown[client] = seen_by(case, folder / client)
        cells += [f"{seconds:.1f}", str(requests)]
        if seconds > expect["seconds"] + start:
            wrong.append(f"{client} took {seconds:.1f} s")
        if requests > expect["requests"]:
            wrong.append(f"{client} cost {requests} requests")
        if not re.search(expect["shown"], shown[client]):
            wrong.append(f"{client} shows {shown[client]!r}")
    cells.append(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", shown["Codex"]))
    return cells, wrong


def run(case: dict, folder: Path) -> str:
    """A case of run.py."""
    kit.need(codex.CODEX, "the Codex CLI")
    kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    cells, wrong = row("", case, folder)
    if wrong:
        raise kit.Failure("; ".join(wrong))
    return f"Codex {cells[1]} s, the SDK {cells[3]} s"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("filter", nargs="?", default="")
    chosen = options.parse_args()
    cases = json.loads((kit.HERE / "cases/deadprovider/providers.json").read_text())
    cases |= json.loads((kit.HERE / "deadprovider.json").read_text())
    failed = 0
    print("| provider | Codex, s | requests | SDK, s | requests | what Codex shows |\n|---|--:|--:|--:|--:|---|")
    for name, case in cases.items():
        if chosen.filter not in name:
            continue
        folder = Path(tempfile.mkdtemp(prefix="respondent-"))
        try:
            cells, wrong = row(name, case, folder)
        except kit.Skip as reason:
            print(f"| {name} | | | | | skipped: {reason} |")
            continue
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"| {' | '.join(cells)} |", flush=True)
        for complaint in wrong:
            print(f"FAILED {name}: {complaint}", flush=True)
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
