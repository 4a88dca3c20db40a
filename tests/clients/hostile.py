#!/usr/bin/env python3
"""A hostile client of a server that others use too: hostile.py ORIGIN TOKEN [ATTACK ...]

It asks for much at once, reads little, and fills queues and connections, until it is ended. Then it cancels what it has
queued, and prints how often its requests had which status. soak.py runs it beside its clients.
"""

import collections
import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import sys
import threading
import time

MODEL = "chat/scripted"
# The id of many items. Others refer to it.
MANY = "msg_of_many"
LARGE = "word " * 1_000_000
ATTACKS = {}


def attack(does):
    """Registers what the client does again and again, in a thread of its own."""
    ATTACKS[does.__name__] = does
    return does


# Promise: A hostile client beside others takes no turn from them. CI runs it for some seconds,
# which shows lost turns alone.
class Hostile:
    """The client, with what it has stored. Lives as long as the process."""

    def __init__(self, origin: str, token: str):
        self.address, self.token = origin.removeprefix("http://"), token
        self.statuses = collections.Counter()
        self.queued: list[str] = []
        self.is_over = threading.Event()
        # What others of its runs stored has other ids.
        self.large = f"msg_large_{os.getpid()}"
        self.response = self.send("setup", "POST", "/v1/responses", turn([user("hello"), user(LARGE, id=self.large)]))["id"]
        pages = {"items": [user(LARGE[: len(LARGE) // 5])] * 20}
        self.conversation = self.send("setup", "POST", "/v1/conversations", pages)["id"]
        self.long_answer = self.send("setup", "POST", "/v1/responses", turn("please-slow", background=True))["id"]

    def send(self, name: str, method: str, path: str, body=None) -> dict:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            self.statuses[name, reply.status] += 1
            return json.loads(reply.read())

    def open(self, method: str, path: str, body=b"", more="", length=None) -> socket.socket:
        """A connection with a request, of which only what fits into a small buffer is received."""
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(5)
        host, port = self.address.split(":")
        peer.connect((host, int(port)))
        length = len(body) if length is None else length
        lines = f"host: {self.address}\r\nauthorization: Bearer {self.token}\r\ncontent-type: application/json\r\n{more}"
        peer.sendall(f"{method} {path} HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n".encode() + body)
        return peer

    def hold(self, name: str, times: int, seconds: float, *request, **more):
        """The same request on many connections, which are then closed."""
        with contextlib.ExitStack() as peers:
            opened = []
            for _ in range(times):
                with contextlib.suppress(OSError):
                    opened.append(peers.enter_context(self.open(*request, **more)))
            time.sleep(seconds)
            for peer in opened:
                peer.setblocking(False)
                with contextlib.suppress(OSError, IndexError):
                    self.statuses[name, int(peer.recv(20).split()[1])] += 1

    def websocket(self) -> socket.socket:
        key = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        return self.open("GET", "/v1/responses", more=key)

    def cancel(self):
        for response in self.queued:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self.send("cancel", "POST", f"/v1/responses/{response}/cancel", {})


def user(text: str, **more) -> dict:
    return {"type": "message", "role": "user", "content": text} | more


def turn(text, **more) -> dict:
    return {"model": MODEL, "input": text} | more


def references(item: str, count: int) -> dict:
    return turn([{"type": "item_reference", "id": item}] * count)


def message(body: dict) -> bytes:
    """A message of a WebSocket, masked with zeros."""
    text = json.dumps(body).encode()
    return struct.pack(">BBQI", 0x81, 0x80 | 127, len(text), 0) + text


@attack
def many_references(client: Hostile):
    body = json.dumps(references(client.large, 100)).encode()
    client.hold("references", 4, 1, "POST", "/v1/responses/input_tokens", body)
    body = json.dumps(references(client.large, 1)).encode()
    client.hold("one reference", 10, 1, "POST", "/v1/responses/input_tokens", body)


@attack
def unread_responses(client: Hostile):
    client.hold("response", 10, 2, "GET", f"/v1/responses/{client.response}")
    client.hold("input items", 20, 2, "GET", f"/v1/responses/{client.response}/input_items")


@attack
def unread_pages(client: Hostile):
    client.hold("page", 20, 2, "GET", f"/v1/conversations/{client.conversation}/items?limit=100")


@attack
def runs_that_hang(client: Hostile):
    body = turn([user(LARGE[:1_000_000]), user("please-silence")], background=True)
    for _ in range(10):
        client.queued.append(client.send("queue", "POST", "/v1/responses", body)["id"])
    for response in client.queued[-40:]:
        client.hold("input items of a run", 1, 0, "GET", f"/v1/responses/{response}/input_items")
    time.sleep(3)


@attack
def viewers(client: Hostile):
    client.hold("viewer", 10, 3, "GET", f"/v1/responses/{client.long_answer}?stream=true")


@attack
def steering(client: Hostile):
    steer = message({"type": "response.steer", "previous_response_id": "resp_1", "input": LARGE[:1_000_000]})
    with contextlib.ExitStack() as peers:
        for _ in range(8):
            peer = peers.enter_context(client.websocket())
            peer.settimeout(0.5)
            with contextlib.suppress(OSError):
                for _ in range(65):
                    peer.sendall(steer)
        time.sleep(2)


@attack
def idle_connections(client: Hostile):
    with contextlib.ExitStack() as peers:
        for _ in range(300):
            with contextlib.suppress(OSError):
                peers.enter_context(client.websocket())
        time.sleep(3)


@attack
def silent_connections(client: Hostile):
    host, port = client.address.split(":")
    with contextlib.ExitStack() as peers:
        for _ in range(300):
            with contextlib.suppress(OSError):
                peers.enter_context(socket.create_connection((host, int(port)), 5))
        time.sleep(3)


@attack
def large_bodies(client: Hostile):
    body = json.dumps(turn(LARGE * 4)).encode()
    client.hold("body", 10, 3, "POST", "/v1/responses/input_tokens", body[: len(body) // 2], length=len(body))
    client.hold("body", 4, 3, "POST", "/v1/responses/input_tokens", body)


@attack
def many_items_of_one_id(client: Hostile):
    client.send("items", "POST", "/v1/responses", turn([user(str(n), id=MANY) for n in range(1_000)]))
    client.send("items", "POST", "/v1/responses/input_tokens", references(MANY, 1_000))
    time.sleep(2)


@attack
def deletions(client: Hostile):
    stored = [client.send("store", "POST", "/v1/responses", turn("hello"))["id"] for _ in range(10)]
    for response in stored:
        client.send("delete", "DELETE", f"/v1/responses/{response}")


def again_and_again(does, client: Hostile):
    while not client.is_over.wait(0.5):
        with contextlib.suppress(OSError, http.client.HTTPException, KeyError, ValueError):
            does(client)


def main():
    # Its work is not that of the machine whose server is looked at.
    os.nice(19)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    client = Hostile(*sys.argv[1:3])
    names = sys.argv[3:] or ATTACKS
    threads = [threading.Thread(target=again_and_again, args=(ATTACKS[name], client), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    try:
        signal.pause()
    finally:
        client.is_over.set()
        for thread in threads:
            thread.join(10)
        client.cancel()
        print(", ".join(f"{name} {status}: {count}" for (name, status), count in sorted(dict(client.statuses).items())))


if __name__ == "__main__":
    main()
