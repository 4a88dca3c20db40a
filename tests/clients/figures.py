#!/usr/bin/env python3
"""Bills of long sessions of the real Codex CLI, with and without shortening:
figures.py [--quick] [--commands N ...] [--window TOKENS ...] [--repository NAME ...] [--jobs N] [--json FILE]

A scripted model works in a real repository through Codex's own tools, and later asks for lines of earlier outputs. If
such a line is not in the request, it reads the artifact; if there is none, it runs the command again. The provider has a
prompt cache, so each token is billed as read from the cache, or as new. Prints a table, and where the bill goes. Exits with 1
when a session fails, when a request is refused, or when such a line cannot be had with shortening, unless Codex has
compacted the session since.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import http.server
import json
import re
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import agent_work
import codex
import kit

REPOSITORIES = ("respondent", "crate:tokio@1.47.1", "pypi:django@5.2.7")
WINDOWS = (64_000, 200_000, 1_000_000)
COMMANDS = (40, 120, 300)
POLICIES = {"forwarded": "whole", "shortened": "adaptive"}
SEED = 5

# Bytes per token of what Codex sends, as o200k_base counts it.
BYTES_PER_TOKEN = 3.7
BLOCK = int(128 * BYTES_PER_TOKEN)
# Prices in relation to a token of input: one that is read from the cache, one that is written to it, and one of output.
PRICES = {"reads": (0.1, 1.0, 5.0), "writes": (0.1, 1.25, 5.0)}
# Where a fact is found after so many searches of artifacts.
FOUND = ("in the request", "one read", "two reads")
ARTIFACT = re.compile(r"art_[0-9a-f]{32}")
NAMESPACE = "mcp__respondent__"


def tokens(size: float) -> int:
    return round(size / BYTES_PER_TOKEN)


@dataclass
class Totals:
    """What a session has cost so far."""

    commands: int = 0
    requests: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    largest: int = 0
    compactions: int = 0
    refused: int = 0
    seconds: float = 0.0
    # Where the facts that the script asked for were found, and where the bill went: by part of the request, cached
    # tokens as a tenth.
    found: collections.Counter = field(default_factory=collections.Counter)
    parts: collections.Counter = field(default_factory=collections.Counter)


class Provider:
    """A Chat Completions provider with a window and a prompt cache, whose model plays a plan."""

    def __init__(self, window: int, plan: agent_work.Plan, count: int):
        self.window, self.steps, self.count = window, plan.steps[:count], count
        self.next = 0
        self.ends_at = 0
        # How a fact was looked for, and the call that ran its command again.
        self.looks: list[str] = []
        self.again: str | None = None
        self.known: set[bytes] = set()
        self.totals, self.marks = Totals(), {}
        self.start = time.monotonic()
        self.lock = threading.Lock()
        self.lost: list[str] = []
        self.calls = 0
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with provider.lock:
                    status, answer = provider.answer(json.loads(body))
                self.send_response(status)
                self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    # ------------------------------------------------------------ what a request costs

    def answer(self, request: dict) -> tuple[int, bytes]:
        segments = prompt(request)
        total = sum(len(text) for _, text in segments)
        if tokens(total) > self.window:
            self.totals.refused += 1
            message = f"This model's maximum context length is {self.window} tokens. However, your request has {tokens(total)} tokens."
            return 400, json.dumps({"error": {"message": message, "code": "context_length_exceeded"}}).encode()
        cached = self.cached(b"".join(text for _, text in segments))
        delta = self.model(request)
        said = tokens(len(json.dumps(delta)))
        totals = self.totals
        totals.requests += 1
        totals.input += tokens(total)
        totals.cached += tokens(cached)
        totals.output += said
        totals.largest = max(totals.largest, tokens(total))
        at = 0
        for part, text in segments:
            of_cache = min(max(cached - at, 0), len(text))
            totals.parts[part] += tokens(of_cache * 0.1)
            totals.parts[part + " (new)"] += tokens(len(text) - of_cache)
            at += len(text)
        usage = {"prompt_tokens": tokens(total), "completion_tokens": said, "total_tokens": tokens(total) + said, "prompt_tokens_details": {"cached_tokens": tokens(cached)}}
        finish = "tool_calls" if "tool_calls" in delta[-1] else "stop"
        chunks = [{"choices": [{"index": 0, "delta": part, "finish_reason": None}]} for part in delta]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": usage}]
        return 200, b"".join(b"data: " + json.dumps({"id": "c", "model": "m"} | chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"

    def cached(self, text: bytes) -> int:
        """How many bytes of this prompt begin an earlier one, in whole blocks; the prompt is known from now on."""
        chain, known, missed = hashlib.blake2b(digest_size=12), 0, False
        for at in range(0, len(text) - BLOCK + 1, BLOCK):
            chain.update(text[at : at + BLOCK])
            digest = chain.digest()
            missed = missed or digest not in self.known
            known += 0 if missed else BLOCK
            self.known.add(digest)
        return known

    # ------------------------------------------------------------ what the model does

    def model(self, request: dict) -> list[dict]:
        """The parts of the answer."""
        if not request.get("tools") or request.get("tool_choice") == "none":
            self.totals.compactions += 1
            return [{"content": f"## Progress\n{agent_work.sentence(agent_work.random.Random(self.next), 350)}\n## Next step\nStep {self.next} of the task."}]
        if request["messages"][-1]["role"] == "user" and self.next == self.ends_at:
            self.ends_at = min(self.count, self.next + agent_work.COMMANDS_PER_PROMPT)
        if self.next > 0 and (look := self.look(request)) is not None:
            return look
        self.totals.commands = self.next
        self.totals.seconds = time.monotonic() - self.start
        self.marks[self.next] = json.loads(json.dumps(vars(self.totals)))
        if self.next == self.ends_at:
            return [{"reasoning_content": "The task is done."}, {"content": agent_work.sentence(agent_work.random.Random(self.next), 60)}]
        step = self.steps[self.next]
        self.next += 1
        said = [{"reasoning_content": step.reasoning}] + ([{"content": step.text}] if step.text else [])
        arguments = {"input": step.input} if step.tool == "apply_patch" else {"cmd": step.input}
        return [*said, self.call(step.tool, arguments, f"call_{self.next - 1}")]

    def call(self, name: str, arguments: dict, call_id: str) -> dict:
        return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]}

    def look(self, request: dict) -> list[dict] | None:
        """The call that looks for what the last step asks for; None if it is found, or lost."""
        fact = self.steps[self.next - 1].asks
        if fact is None:
            return None
        messages = request["messages"]
        # What the model wrote itself is no evidence.
        if any(fact.line in text(message) for message in messages if message["role"] != "assistant"):
            return self.settle("command again" if "again" in self.looks else FOUND[len(self.looks)])
        shown = {message.get("tool_call_id"): text(message) for message in messages}
        output = shown.get(self.again or f"call_{fact.step}")
        ids = ARTIFACT.findall(output or "")
        tool = next((name for name in (f"{NAMESPACE}artifact_search", "artifact_search") if name in offers(request)), None)
        # After a compaction it searches all artifacts of the session.
        searchable = tool is not None and (ids or output is None and any(ARTIFACT.search(text(message)) for message in messages))
        tried = self.looks[self.looks.index("again") + 1 :] if "again" in self.looks else self.looks
        if searchable and len(tried) < 2:
            query = fact.line if tried else fact.word
            self.looks.append("search")
            name, arguments = tool, {"query": query} | ({"id": ids[0]} if ids else {})
        elif "again" not in self.looks:
            self.looks.append("again")
            name, arguments = "exec_command", {"cmd": self.steps[fact.step].input}
        else:
            self.lost.append(f"{fact.line!r} of step {fact.step}, {self.steps[fact.step].input!r}")
            return self.settle("lost")
        self.calls += 1
        if name == "exec_command":
            self.again = f"look_{self.calls}"
        return [{"reasoning_content": "That was in an earlier output."}, self.call(name, arguments, f"look_{self.calls}")]

    def settle(self, where: str):
        self.totals.found[where] += 1
        self.looks, self.again = [], None
        self.steps[self.next - 1] = agent_work.Step(**{**vars(self.steps[self.next - 1]), "asks": None})


def offers(request: dict) -> set[str]:
    return {tool["function"]["name"] for tool in request["tools"]}


def text(message: dict) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def prompt(request: dict) -> list[tuple[str, bytes]]:
    """The prompt as a chat template makes it of the request, in named parts."""
    parts = [("tool schemas", json.dumps(request.get("tools", []), ensure_ascii=False).encode())]
    outputs = set()
    for message in request["messages"]:
        role = message["role"]
        parts.append(("frames", f"<|{role}|>".encode()))
        if thought := message.get("reasoning_content"):
            parts.append(("reasoning", thought.encode()))
        content = text(message)
        if role == "tool":
            body = content.split("\nOutput:\n", 1)[-1]
            name = "repeated outputs" if len(body) > 400 and body in outputs else "outputs"
            outputs.add(body)
        else:
            name = {"assistant": "the model's texts", "system": "instructions", "developer": "instructions"}.get(role, "user")
        parts.append((name, content.encode()))
        for call in message.get("tool_calls", []):
            parts.append(("calls", (call["function"]["name"] + call["function"]["arguments"]).encode()))
    return parts


# ---------------------------------------------------------------- sessions


def session(repository: Path, plan: agent_work.Plan, window: int, policy: str, count: int, folder: Path) -> dict:
    """Plays the first `count` steps, and returns the totals after each step."""
    folder.mkdir()
    # Like Kimi, the provider refuses calls without their reasoning.
    more = (
        'quirks = { reasoning_replay = "reasoning_content", reasoning_required = "calls" }\n'
        f'[[providers.scripted.models]]\nid = "scripted"\nwindow = {window}\n'
        "price = { input = 1.0, cached_input = 0.1, output = 5.0 }\n"
        f'[context]\noutputs = "{POLICIES[policy]}"\n[search]\nmode = "off"\n'
    )
    with Provider(window, plan, count) as provider, kit.Proxy(folder, provider.base_url, models=(), more=more) as proxy:
        agent = codex.Session(proxy, folder, {"setup": ["--default"]})
        shutil.copytree(repository, agent.work, symlinks=True, dirs_exist_ok=True)
        for prompt in plan.prompts(count):
            turn = agent.turn(prompt, 900)
            if turn.code != 0 or turn.failure:
                raise kit.Failure(f"Codex failed after {provider.next} commands: {turn.failure or turn.message}\n{proxy.text()[-2000:]}")
        if provider.next != count:
            raise kit.Failure(f"{provider.next} commands were run, not {count}")
        return {"marks": {str(at): provider.marks[at] for at in provider.marks}, "lost": provider.lost, "refused": provider.totals.refused}


def played(names, windows, policies, count: int, jobs: int, folder: Path, results: dict, file: Path | None) -> dict:
    """The totals of each session by its name, those in `results` first: only the others are played."""
    wanted = [(name, window, policy) for name in names for window in windows for policy in policies]
    missing = [one for one in wanted if " ".join(map(str, one)) not in results]
    repositories = {name: agent_work.clone(name, folder) for name in dict.fromkeys(name for name, _, _ in missing)}
    plans = {name: agent_work.plan(path, folder, count, SEED) for name, path in repositories.items()}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {}
        for number, (name, window, policy) in enumerate(missing):
            home = folder / f"session-{number}"
            runs[pool.submit(session, repositories[name], plans[name], window, policy, count, home)] = f"{name} {window} {policy}"
        for done in concurrent.futures.as_completed(runs):
            results[runs[done]] = done.result()
            print(f"{runs[done]}: {done.result()['marks'][str(count)]['seconds']:.0f} s", file=sys.stderr, flush=True)
            if file:
                file.write_text(json.dumps(results))
    return results


def run(case: dict, folder: Path) -> str:
    """A client case: short sessions with and without shortening."""
    kit.need(codex.CODEX, "the Codex CLI")
    count, window, name = case["commands"], case["window"], case["repository"]
    results = played([name], [window], POLICIES, count, 2, folder, {}, None)
    forwarded, shortened = (results[f"{name} {window} {policy}"] for policy in POLICIES)
    last = [result["marks"][str(count)] for result in (forwarded, shortened)]
    bills = [bill(totals, "reads") for totals in last]
    seen = {
        "lost": shortened["lost"],
        "refused": [result["refused"] for result in (forwarded, shortened)],
        "compacts": last[0]["compactions"] > 0,
        "saves": bills[1] < case["share"] * bills[0],
        "asked": sum(last[1]["found"].values()),
    }
    kit.check(kit.mismatch(case["expect"], seen, "the sessions"))
    return f"{bills[1] / bills[0]:.0%} of the bill"


def bill(totals: dict, prices: str) -> float:
    """The bill in tokens of new input."""
    read, write, out = PRICES[prices]
    return totals["cached"] * read + (totals["input"] - totals["cached"]) * write + totals["output"] * out


def report(names, windows, commands, results: dict) -> int:
    """Prints the tables; both sides of each session are there. Returns the exit code."""
    code = 0
    print("| window | commands | tokens in, million | compactions | bill | with cache writes | each repository | read or run again |")
    print("|---|---|---|---|---|---|---|---|")
    for window in windows:
        for count in commands:
            sides = {policy: [results[f"{name} {window} {policy}"]["marks"][str(count)] for name in names] for policy in POLICIES}
            forwarded, shortened = sides.values()
            sums = {key: [sum(totals[key] for totals in side) for side in (forwarded, shortened)] for key in ("input", "compactions", "refused")}
            shares = {prices: ratio(shortened, forwarded, prices) for prices in PRICES}
            each = [ratio([one], [other], "reads") for one, other in zip(shortened, forwarded)]
            found = [sum((collections.Counter(totals["found"]) for totals in side), collections.Counter()) for side in (forwarded, shortened)]
            again = " to ".join(f"{one.total() - one['in the request']} of {one.total()}" for one in found)
            print(
                f"| {window // 1000}k | {count} | {sums['input'][0] / 1e6:.1f} to {sums['input'][1] / 1e6:.1f} | {sums['compactions'][0]} to {sums['compactions'][1]} "
                f"| {shares['reads'] - 1:+.0%} | {shares['writes'] - 1:+.0%} | {', '.join(f'{share - 1:+.0%}' for share in each)} | {again} |"
            )
            if sum(sums["refused"]) or any(totals["found"].get("lost") and not totals["compactions"] for totals in shortened):
                code = 1
    count = max(commands)
    names_of_parts = ("outputs", "repeated outputs", "reasoning", "calls", "the model's texts", "tool schemas", "instructions", "user", "frames")
    print(f"\n| part of the input's bill, {count} commands | " + " | ".join(f"{window // 1000}k" for window in windows) + " |\n|---|" + "---|" * len(windows))
    for part in names_of_parts:
        cells = []
        for window in windows:
            sides = []
            for policy in POLICIES:
                sums = sum((collections.Counter(results[f"{name} {window} {policy}"]["marks"][str(count)]["parts"]) for name in names), collections.Counter())
                sides.append(f"{(sums[part] + sums[part + ' (new)']) / sums.total():.0%}")
            cells.append(" to ".join(sides))
        print(f"| {part} | " + " | ".join(cells) + " |")
    for name, result in results.items():
        marks = result["marks"][str(count)]
        print(f"{name}: {marks['input'] / 1e6:.2f} M tokens in, {marks['cached'] / marks['input']:.1%} cached, {marks['output']} out, {marks['seconds']:.0f} s, {marks['found']}", file=sys.stderr)
        for lost in result["lost"]:
            print(f"{name} lost {lost}", file=sys.stderr)
    return code


def ratio(shortened: list[dict], forwarded: list[dict], prices: str) -> float:
    return sum(bill(totals, prices) for totals in shortened) / sum(bill(totals, prices) for totals in forwarded)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="40 commands in this repository, with one window")
    options.add_argument("--commands", type=int, nargs="+", default=COMMANDS)
    options.add_argument("--window", type=int, nargs="+", default=WINDOWS)
    options.add_argument("--repository", nargs="+", default=REPOSITORIES)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--json", type=Path, help="keep the totals in this file; sessions that are in it are not played again")
    options.add_argument("--policy", nargs="+", choices=POLICIES, help="play these sessions alone, and print no table")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.commands, chosen.window, chosen.repository = (40,), (64_000,), ("respondent",)
    results = json.loads(chosen.json.read_text()) if chosen.json and chosen.json.exists() else {}
    folder = Path(tempfile.mkdtemp(prefix="respondent-figures-"))
    try:
        kit.need(codex.CODEX, "the Codex CLI")
        played(chosen.repository, chosen.window, chosen.policy or POLICIES, max(chosen.commands), chosen.jobs, folder, results, chosen.json)
    except (kit.Failure, kit.NotInstalled) as reason:
        print(reason)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if chosen.policy else report(chosen.repository, chosen.window, chosen.commands, results)


if __name__ == "__main__":
    sys.exit(main())
