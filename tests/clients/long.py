#!/usr/bin/env python3
"""Long sessions of the real Codex CLI on a faulty upstream:
long.py [--turns N] [--sessions N] [--strict PRESET] [--wire KIND] [--websocket] [--unbroken]

Every turn runs a command and answers from its output; in most turns the upstream has a fault first. In some the model
first searches the web and opens a page, which the proxy does; engine and pages fail now and then. Codex is started
anew for every turn. With --unbroken a session is a single turn, which runs all its commands one after another.
Prints what the user sees, and how many bytes the sessions sent and received. Exits with 1 when a turn fails or has another answer than expected.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import codex
import kit
import loopback
import web

OVERLOADED = {"error": {"message": "The engine is overloaded.", "type": "server_error"}}
TOO_MANY = {"error": {"message": "Too many requests.", "code": "rate_limit_exceeded"}}

# Faulty answers that are played before the good one.
FAULTS = {
    "none": [],
    "429 with retry-after": [{"status": 429, "headers": {"retry-after": "1"}, "json": TOO_MANY}],
    "reset before content": [{"steps": [{"cut": "rst"}]}],
    "cut mid-stream": [{"steps": [{"text": "Let me "}, {"cut": "fin"}]}],
    "500": [{"status": 500, "json": {"error": {"message": "Internal error."}}}],
    "503 twice": [{"status": 503, "json": OVERLOADED}] * 2,
    "reset mid-stream": [{"steps": [{"reasoning": "Let me see."}, {"text": "Let me "}, {"cut": "rst"}]}],
    "end before content": [{"steps": [{"cut": "fin"}]}],
    "cut in a call": [{"steps": [{"call": {"index": 0, "id": "call_torn", "name": "exec_command", "arguments": "{\"cmd\":\"ec"}}, {"cut": "rst"}]}],
    "error chunk": [{"steps": [{"text": "Let me "}, {"error": {"message": "The worker died.", "code": 500}}]}],
    "no finish reason": [{"steps": [{"text": "Let me "}, {"raw": "data: [DONE]\n\n"}]}],
    "end in a call": [{"steps": [{"call": {"index": 0, "id": "call_open", "name": "exec_command", "arguments": "{\"cmd\":\"rm -rf /ho"}}, {"finish": "tool_calls"}]}],
    "no call": [{"steps": [{"finish": "tool_calls"}]}],
}  # fmt: skip
# Delays and splits of the good answer.
TIMINGS = [{}, {"head_delay_ms": 12000}, {"split": 5}, {"pause": 8000}, {"gap_ms": 40}]

# The model searches in one of so many turns. The pages that it opens then: read, gone, and of a server that fails.
SEARCH_EVERY = 4
PAGE = "<!doctype html><html><head><title>Numbers</title></head><body><article><p>" + "One number follows another. " * 40 + "</p></article></body></html>"
PAGES = [PAGE, PAGE, 410, 503]


class Relay:
    """Passes connections on to a server on loopback, and counts their bytes."""

    def __init__(self, origin: str):
        host, port = origin.removeprefix("http://").split(":")
        self.server = (host, int(port))
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        self.sent = self.received = self.connections = 0
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            self.connections += 1
            server = socket.create_connection(self.server)
            for source, target, name in [(client, server, "sent"), (server, client, "received")]:
                threading.Thread(target=self._pass, args=(source, target, name), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, name: str):
        try:
            while piece := source.recv(1 << 16):
                with self.lock:
                    setattr(self, name, getattr(self, name) + len(piece))
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # One side is gone, so the other one has to go as well.
            for end in (source, target):
                end.close()


def script(turns: int, searches: bool) -> dict:
    """The answers of every turn: a call and a final answer, each preceded by faults. The turn number selects the faults.

    In turns that search, there are two rounds of the proxy's tools before the call.
    """
    answers = []
    names = list(FAULTS)
    for turn in range(turns):
        asked = {"last_role": "user", "last_contains": f"(turn {turn})"}
        answered = {"last_role": "tool", "last_contains": f"output-{turn}-end"}
        call = {"index": 0, "id": f"call_{turn}", "name": "exec_command", "pieces": 3}
        call["arguments"] = json.dumps({"cmd": f"echo output-{turn}-end"})
        answers += [{"when": asked} | fault for fault in FAULTS[names[turn % len(names)]]]
        if searches and turn % SEARCH_EVERY == 0:
            for number, (name, key, value) in enumerate((("web_search", "query", f"search-{turn}-end"), ("open_page", "url", page_url(turn)))):
                search = {"index": 0, "id": f"call_{name}_{turn}", "name": name, "arguments": json.dumps({key: value}), "pieces": 2}
                answers.append(good(asked, turn + number, [{"text": "I look."}, {"call": search}]))
                # What was asked for is in the next request; how its result reads depends on what failed.
                asked = {"body_contains": value}
                answers += [{"when": asked} | fault for fault in FAULTS[names[(turn // SEARCH_EVERY + number) % len(names)]]]
        answers.append(good(asked, turn, [{"reasoning": "A command tells."}, {"call": call}]))
        answers += [{"when": answered} | fault for fault in FAULTS[names[turn * 3 // 2 % len(names)]]]
        answers.append(good(answered, turn + 2, [{"text": "Answer "}, {"text": f"{turn}."}]))
    return {"answers": answers}


def page_url(turn: int) -> str:
    return f"http://{web.SERVER}/{turn}-end"


def web_of(turns: int) -> web.Web:
    """What the turns search and open."""
    numbers = range(0, turns, SEARCH_EVERY)
    pages = {f"/{turn}-end": PAGES[turn // SEARCH_EVERY % len(PAGES)] for turn in numbers}
    results = [{"url": path, "title": "Numbers", "content": "One after another."} for path in pages]
    return web.Web({"results": results[:5], "pages": pages, "refuses": 5})


def unbroken_script(shares: list[range]) -> dict:
    """The answers of sessions that run all their commands in one turn: each call is made after the output of the one before."""
    answers = []
    names = list(FAULTS)
    for share in shares:
        when = {"last_role": "user", "last_contains": f"(turn {share[0]})"}
        for turn in share:
            call = {"index": 0, "id": f"call_{turn}", "name": "exec_command", "pieces": 3}
            call["arguments"] = json.dumps({"cmd": f"echo output-{turn}-end"})
            answers += [{"when": when} | fault for fault in FAULTS[names[turn % len(names)]]]
            answers.append(good(when, turn, [{"reasoning": "A command tells."}, {"call": call}]))
            when = {"last_role": "tool", "last_contains": f"output-{turn}-end"}
        answers.append(good(when, 0, [{"text": f"Answer {share[0]}."}]))
    return {"answers": answers}


def good(when: dict, turn: int, steps: list) -> dict:
    """An answer without a fault, with delays and splits selected by the turn number."""
    timing = dict(TIMINGS[turn % len(TIMINGS)])
    pause = timing.pop("pause", None)
    if pause:
        steps = [*steps[:1], {"delay_ms": pause}, *steps[1:]]
    return {"when": when, "steps": steps} | timing


def work(proxy: kit.Proxy, folder: Path, turns: list[list[int]], provider: dict) -> list[tuple[int, str | None, list[str]]]:
    """Plays one session of these turns, each with the numbers of its commands. Returns for each: (first number, failure,
    errors that were shown)."""
    folder.mkdir()
    session = codex.Session(proxy, folder, {"provider": provider, "web_search": "live"})
    seen = []
    for numbers in turns:
        number = numbers[0]
        try:
            turn = session.turn(f"Run the command. (turn {number})", 240 + 15 * len(numbers))
        except kit.Failure as reason:
            seen.append((number, str(reason), []))
            continue
        outputs = "".join(item.get("aggregated_output", "") for item in turn.items)
        ran = all(f"output-{number}-end" in outputs for number in numbers)
        if turn.code != 0 or turn.failure is not None:
            wrong = f"exit code {turn.code}: {turn.failure}"
        elif not ran:
            wrong = "the command did not run"
        elif turn.message != f"Answer {number}.":
            wrong = f"the answer was {turn.message!r}"
        else:
            wrong = None
        seen.append((number, wrong, turn.errors))
    return seen


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--turns", type=int, default=120)
    options.add_argument("--sessions", type=int, default=4)
    options.add_argument("--strict", metavar="PRESET", help="a preset of fixtures/strict: its dialect, and what it refuses")
    options.add_argument("--wire", choices=kit.UPSTREAMS, default="chat", help="the kind of upstream, which refuses what that kind refuses")
    options.add_argument("--websocket", action="store_true", help="Codex sends its turns over a WebSocket")
    options.add_argument("--unbroken", action="store_true", help="each session runs all its commands in one turn")
    chosen = options.parse_args()
    # An upstream that takes every tool of the Responses API searches itself.
    searches = not chosen.unbroken and chosen.wire != "responses"
    if searches and "SEARCHES" not in os.environ:
        try:
            argv = [*loopback.namespace(), sys.executable, *sys.argv]
            os.execvpe(argv[0], argv, os.environ | {"SEARCHES": ""})
        except kit.Skip as reason:
            print(f"SKIPPED searches: {reason}")
            searches = False
    provider = {"supports_websockets": True} if chosen.websocket else {}
    kinds = {"scripted": chosen.wire}
    if chosen.wire != "chat":
        # Only Chat Completions has a finish reason that promises a call.
        del FAULTS["no call"]
    shares = [range(first, chosen.turns, chosen.sessions) for first in range(chosen.sessions)]
    played = (unbroken_script(shares) if chosen.unbroken else script(chosen.turns, searches)) | {"refuse": kit.UPSTREAMS[chosen.wire]["refuse"]}
    if chosen.strict:
        played |= kit.strict(chosen.strict)
    refused = []
    folder = Path(tempfile.mkdtemp(prefix="respondent-long-"))
    start = time.monotonic()
    try:
        kit.need(codex.CODEX, "the Codex CLI")
        with contextlib.ExitStack() as stack:
            if searches:
                loopback.bring_up()
                stack.enter_context(web_of(chosen.turns))
            player = stack.enter_context(kit.Player(played, folder))
            proxy = stack.enter_context(kit.Proxy(folder, player.base_url, kinds=kinds, more=web.CONFIG))
            relay = Relay(proxy.origin)
            provider["base_url"] = f"http://127.0.0.1:{relay.port}/v1"
            with concurrent.futures.ThreadPoolExecutor(chosen.sessions) as pool:
                turns = [[list(share)] if chosen.unbroken else [[number] for number in share] for share in shares]
                runs = [pool.submit(work, proxy, folder / f"session-{n}", share, provider) for n, share in enumerate(turns)]
                seen = sorted(turn for run in runs for turn in run.result())
            asked = chosen.turns + chosen.sessions if chosen.unbroken else 2 * chosen.turns
            posts = proxy.settled_turns(asked)
            retries = proxy.counted("respondent_upstream_retries_total")
            healed = proxy.counted("respondent_healed_total")
            ran = proxy.counted("respondent_tool_calls_total")
            ran_well = proxy.counted('respondent_tool_calls_total{tool="web_search",result="completed",client="local"}')
            ran_well += proxy.counted('respondent_tool_calls_total{tool="open_page",result="completed",client="local"}')
            if not chosen.strict:
                refused = [request["refusal"] for request in player.requests() if request["refusal"]]
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    shown = collections.Counter(error for _, _, errors in seen for error in errors)
    for error, count in shown.most_common():
        print(f"shown {count} times: {error}")
    failed = [(number, wrong) for number, wrong, _ in seen if wrong]
    for number, wrong in failed:
        print(f"turn {number}: {wrong}")
    for refusal in refused[:10]:
        print(f"refused by the upstream: {kit.brief(refusal)}")
    print(
        f"{len(seen)} turns in {chosen.sessions} sessions, {time.monotonic() - start:.0f} s: "
        f"{len(seen) - len(failed)} well, {len(failed)} failed, {sum(shown.values())} errors shown, "
        f"{posts} requests ({posts - asked} more than needed), {retries} retries and {healed} healed turns by the proxy, {ran} searches and pages, {ran - ran_well} of them failed"
    )
    for name, count in ("sent", relay.sent), ("received", relay.received):
        print(f"{name} by the client: {count / 1e6:.2f} MB, {count / 1e3 / chosen.turns:.1f} KB for each command")
    print(f"connections: {relay.connections}")
    return 1 if failed or refused else 0


if __name__ == "__main__":
    sys.exit(main())
