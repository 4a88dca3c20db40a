"""Cases of the real Codex CLI.

A case has the prompts (the first for `codex exec`, the others for `codex exec resume --last`), the files
of the working directory, and the expected results: exit code, final message, items, usage, the number
of POSTs that reached the proxy (`posts`) and of requests that reached the upstream (`asked`), and the
seconds.
"""

import base64
import collections
import contextlib
import json
import os
import pty
import select
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable

import bundle
import kit
import loopback
import tasks
import web

CODEX = Path(os.environ.get("CODEX_BIN", kit.NODE_MODULES / ".bin/codex"))
MCP_SERVER = kit.HERE / "programs/mcp_server.py"


def run(case: dict, folder: Path):
    kit.need(CODEX, "the Codex CLI")
    if "web" in case:
        return loopback.run_in_namespace(__file__, case, folder)
    return run_alone(case, folder)


def run_alone(case: dict, folder: Path):
    if "run" in case:
        return run_wrapped(case, folder)
    case = bundle.planted(case)
    with proxy_for(case, folder) as proxy:
        session = Session(proxy, folder, case.get("codex", {}))
        if "terminal" in case:
            session.terminal(case["terminal"], lambda: len(proxy.upstream.requests()) >= case["expect"]["asked"][0], case.get("seconds", 60))
        for prompt in case.get("prompts", [] if "terminal" in case else ["Do what the script says."]):
            asked = prompt if isinstance(prompt, dict) else {"prompt": prompt}
            with restarted(proxy, session.work / case["restart"]) if "restart" in case else contextlib.nullcontext():
                session.turn(asked["prompt"], case.get("seconds", 60), asked.get("model"))
        turn, expect = session.last, case["expect"]
        if "wall_s" in expect and session.seconds > expect["wall_s"]:
            raise kit.Failure(f"took {session.seconds:.1f} s, more than {expect['wall_s']}")
        posts = proxy.settled_turns(min(expect["posts"])) if "posts" in expect else None
        for name, content in expect.get("files", {}).items():
            path = session.work / name
            kit.check(kit.mismatch(content, path.read_text() if path.exists() else None, name))
        seen = {"code": turn.code, "message": turn.message, "items": session.items, "usage": turn.usage, "errors": session.errors}
        named = {key: expect[key] for key in seen if key in expect}
        kit.check(kit.mismatch(named, seen, "codex"))
        if "counts" in expect:
            kinds = collections.Counter(item["type"] for item in session.items)
            counted = {kind: kinds[kind] for kind in expect["counts"]}
            kit.check(kit.mismatch(expect["counts"], counted, "the number of items"))
        if "upstream" in expect:
            check_upstream(expect["upstream"], proxy.upstream.requests(), case)
        for pattern in expect.get("log", []):
            kit.check(kit.mismatch(f"~{pattern}", proxy.text(), "log"))
        if posts is not None and not expect["posts"][0] <= posts <= expect["posts"][-1]:
            raise kit.Failure(f"{posts} POSTs reached the proxy, expected {expect['posts']}")
        if "asked" in expect:
            asked = len(proxy.upstream.requests())
            if not expect["asked"][0] <= asked <= expect["asked"][-1]:
                raise kit.Failure(f"the upstream was asked {asked} times, expected {expect['asked']}")
        if session.is_set_up:
            session.undo_setup()
        if "bundle" in case:
            bundle.check(case["bundle"], proxy, folder, turn.message or "")
        failure = "" if turn.failure is None else f", {turn.failure!r}"
        return f"{posts} POSTs, {session.seconds:.1f} s{failure}" if posts is not None else None


def run_wrapped(case: dict, folder: Path):
    """Runs `respondent run codex` with the arguments `run`; `server` says whether a server runs already.

    Nothing may be left of it: no file of Codex's is changed, no file names respondent, nothing runs.
    """
    (folder / "work").mkdir()
    home, private = folder / "codex", folder / "tmp"
    home.mkdir()
    private.mkdir()
    own_files = {"config.toml": f"{QUIET_KEYS}\n{QUIET_TABLES}\n", "AGENTS.md": "Be brief.\n"}
    for name, content in own_files.items():
        (home / name).write_text(content)
    with proxy_for(case, folder) as proxy:
        if not case["server"]:
            proxy.close()
        env = kit.plain_env(folder) | {"CODEX_HOME": str(home), "TMPDIR": str(private), "PATH": f"{CODEX.parent}:{kit.plain_env(folder)['PATH']}"}
        argv = [kit.binary(), "run", "codex", *proxy.flags, *case["run"]]
        code, stdout, stderr = kit.run_program(argv, folder, env, 60, "codex-1")
        turn = Turn(code, stdout)
        expect = case["expect"]
        seen = {"code": code, "message": turn.message, "errors": turn.errors, "stderr": stderr}
        kit.check(kit.mismatch({key: expect[key] for key in seen if key in expect}, seen, "codex"))
        if kit.answers(proxy.origin) != case["server"]:
            raise kit.Failure("the server does not run" if case["server"] else "the server still runs")
        if (requests := len(proxy.upstream.requests())) != expect["requests"]:
            raise kit.Failure(f"{requests} requests reached the upstream, not {expect['requests']}")
    for name, content in own_files.items():
        if (left := (home / name).read_text()) != content:
            raise kit.Failure(f"{name} was changed:\n{left}")
    left = [path.name for path in home.rglob("*") if "respondent" in path.name or path.name == "models_cache.json"]
    left += [path.name for path in private.iterdir() if "respondent" in path.name]
    if left or (processes := kit.processes_with(str(folder))):
        raise kit.Failure(f"left behind: {left or processes}")
    return f"{requests} requests"


def check_upstream(expect: dict, requests: list[dict], case: dict):
    """Compares what the upstream got.

    `grows`: the history of each request begins with that of the request before. `last`: for each kind of
    upstream, how often each type of item, or each role of a message, is in the last request; `ids` is the
    number of items that have an id.
    `requests`: what is in the requests, in this order. `first_bytes`: the least and the most bytes of the
    first one.
    """
    histories = [request["json"].get("input") or request["json"].get("messages") for request in requests]
    if expect.get("grows"):
        for number, (earlier, later) in enumerate(zip(histories, histories[1:]), 2):
            if later[: len(earlier)] != earlier:
                raise kit.Failure(f"request {number} changes the history of the one before")
    if "last" in expect:
        seen = collections.Counter(item.get("type") or item["role"] for item in histories[-1])
        seen["ids"] = sum("id" in item for item in histories[-1])
        kit.check(kit.mismatch(expect["last"][case.get("wire", "chat")], seen, "the last request"))
    if "first_bytes" in expect:
        size = len(json.dumps(requests[0]["json"], separators=(",", ":"), ensure_ascii=False).encode())
        if not expect["first_bytes"][0] <= size <= expect["first_bytes"][1]:
            raise kit.Failure(f"the first request has {size} bytes, expected {expect['first_bytes']}")
    kit.check(kit.mismatch(expect.get("requests", []) or requests, requests, "the requests"))


@contextlib.contextmanager
def restarted(proxy: kit.Proxy, file: Path):
    """Kills the proxy and starts it again as soon as there is this file."""
    is_over = threading.Event()

    def watch():
        while not is_over.wait(0.02):
            if file.exists():
                return proxy.restart()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


@contextlib.contextmanager
def proxy_for(case: dict, folder: Path):
    """Like kit.proxy_for, but the upstream of a case with "agent" is the agent of tasks.py with that task."""
    if "agent" not in case:
        with kit.proxy_for(case, folder) as proxy:
            yield proxy
        return
    with tasks.Upstream(262_144) as upstream, kit.Proxy(folder, upstream.base_url) as proxy:
        upstream.agent = tasks.Agent(case["agent"])
        yield proxy


class Turn:
    """The output of one run of the CLI."""

    def __init__(self, code: int, stdout: str):
        events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        self.code = code
        self.items = [event["item"] for event in events if event["type"] == "item.completed"]
        self.errors = [event["message"] for event in events if event["type"] == "error"]
        ends = [event for event in events if event["type"] in ("turn.completed", "turn.failed")]
        self.usage = ends[-1].get("usage") if ends else None
        self.failure = ends[-1]["error"]["message"] if ends and ends[-1]["type"] == "turn.failed" else None
        texts = [item["text"] for item in self.items if item["type"] == "agent_message"]
        self.message = self.failure if self.failure is not None else (texts[-1] if texts else None)


class Session:
    """One thread of the CLI with its own home, configured for the proxy."""

    def __init__(self, proxy: kit.Proxy, folder: Path, options: dict):
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.args = options.get("args", [])
        self.items: list[dict] = []
        self.errors: list[str] = []
        self.seconds = 0.0
        self.runs = 0
        self.last = Turn(0, "")
        for name, content in options.get("files", {}).items():
            (self.work / name).write_text(content)
        for name, content in options.get("files_base64", {}).items():
            (self.work / name).write_bytes(base64.b64decode(content))
        home = folder / "codex"
        home.mkdir()
        self.env = kit.plain_env(folder) | {"CODEX_HOME": str(home), "PROXY_KEY": options.get("token", "any")}
        self.proxy, self.config, self.is_set_up = proxy, home / "config.toml", "setup" in options
        provider = "" if self.is_set_up else own_provider(proxy, options)
        keys = QUIET_KEYS.replace("disabled", options.get("web_search", "disabled"))
        self.user_config = "\n".join([keys, provider, QUIET_TABLES, mcp(options), options.get("config", "").replace("%work%", str(self.work))])
        for name, content in options.get("home", {}).items():
            (home / name).write_text(content)
        self.config.write_text(self.user_config)
        if self.is_set_up:
            self.proxy_command("codex", "setup", *options["setup"])
            if "--default" not in options["setup"]:
                self.args = ["-p", "respondent", *self.args]

    def proxy_command(self, *arguments: str):
        env = self.env | {"PATH": f"{CODEX.parent}:{self.env['PATH']}"}
        argv = [kit.binary(), *arguments, *self.proxy.flags]
        code, _, _ = kit.run_program(argv, self.folder, env, 60, "-".join(arguments[:2]))
        if code != 0:
            raise kit.Failure(f"{' '.join(arguments)} exited with {code}")

    def undo_setup(self):
        """Undoes the setup; nothing may be left of it."""
        self.proxy_command("codex", "remove")
        if (left := self.config.read_text()) != self.user_config:
            raise kit.Failure(f"config.toml is not as it was:\n{left}")
        if left := [path.name for path in self.config.parent.glob("*respondent*")]:
            raise kit.Failure(f"the setup left {left}")

    def turn(self, prompt: str, seconds: float, model: str | None = None) -> Turn:
        # Some tests have a dead upstream, so the client must not wait for the network without a limit.
        # The commands come from the scripts of the tests, so they do not need the client's sandbox.
        argv = [CODEX, "exec", "--skip-git-repo-check", "--json", "--disable", "unbounded_connection_retries"]
        argv += ["--dangerously-bypass-approvals-and-sandbox"]
        argv += [*self.args] if self.runs == 0 else ["resume", "--last"]
        argv += ["--model", model, prompt] if model else [prompt]
        self.runs += 1
        start = time.monotonic()
        code, stdout, _ = kit.run_program(argv, self.folder, self.env, seconds, f"codex-{self.runs}")
        self.seconds += time.monotonic() - start
        self.last = Turn(code, stdout)
        self.items += self.last.items
        self.errors += self.last.errors
        return self.last

    def terminal(self, prompt: str, is_over: Callable[[], bool], seconds: float):
        """Runs the terminal interface in a terminal of its own until `is_over`, and ends it."""
        ours, theirs = pty.openpty()
        argv = ["setsid", "--ctty", CODEX, "--dangerously-bypass-approvals-and-sandbox", *self.args, prompt]
        env = self.env | {"TERM": "xterm-256color"}
        child = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=self.work)
        end = time.monotonic() + seconds
        try:
            while not is_over():
                if child.poll() is not None or time.monotonic() > end:
                    raise kit.Failure("the terminal interface did not get that far")
                if select.select([ours], [], [], 0.1)[0]:
                    asked = os.read(ours, 65536)
                    # Where the cursor is, and what kind of terminal it is.
                    os.write(ours, b"\x1b[1;1R" * asked.count(b"\x1b[6n") + b"\x1b[?1;2c" * asked.count(b"\x1b[c"))
        finally:
            kit.kill_group(child)
            os.close(ours)
            os.close(theirs)


# Settings that keep the client from connecting to anything but the proxy.
QUIET_KEYS = 'check_for_update_on_startup = false\nweb_search = "disabled"'
QUIET_TABLES = "[analytics]\nenabled = false\n[features]\nplugins = false\napps = false"


def own_provider(proxy: kit.Proxy, options: dict) -> str:
    """A provider table as a user would write it; a null in the case leaves a key out."""
    provider = {
        "name": "proxy",
        "base_url": proxy.base_url,
        "wire_api": "responses",
        "env_key": "PROXY_KEY",
        "model_catalog_url": f"{proxy.base_url}/models",
    } | options.get("provider", {})
    lines = [f'model = "{proxy.first_model()}"', 'model_provider = "proxy"', "[model_providers.proxy]"]
    return "\n".join(lines + [f"{key} = {kit.toml(value)}" for key, value in provider.items() if value is not None])


SUBJECTS = ["tickets", "invoices", "calendars", "wikis", "metrics", "deploys", "mails", "contacts", "orders", "reviews"]


def mcp(options: dict) -> str:
    """The tables of the MCP servers: `demo` with one tool, or that many with twelve tools each."""
    subjects = SUBJECTS[: options.get("mcp_servers", 0)]
    servers = {"demo": []} if options.get("mcp") else {subject: [subject, "12"] for subject in subjects}
    # On a busy machine Codex would begin without the tools of a server that is still starting.
    table = '[mcp_servers.{}]\nrequired = true\ncommand = "{}"\nargs = {}\n'
    return "".join(table.format(name, kit.python(), json.dumps([str(MCP_SERVER), *args])) for name, args in servers.items())


if __name__ == "__main__":
    loopback.main(lambda case, folder: web.run_with(case, folder, run_alone))
