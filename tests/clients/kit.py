"""Shared by all client cases: the processes of the proxy and the scripted upstream, comparison of results, metrics.

The cases are data (cases/<client>/*.json). The module named after a client runs its real program.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV_PYTHON = HERE / ".venv/bin/python"
NODE_MODULES = HERE / "node_modules"
API_KEY = "sk-upstream-of-the-client-tests"
# The details of turns, which tests look for in the log.
LOG = {"RESPONDENT_LOG": "info,respondent::turn=debug"}

# The kinds of upstream that a case can run on: the wire and the quirks in the provider's table, and the
# rules by which the scripted upstream refuses requests. `functions` is a server that speaks the Responses
# API and has no other tools than functions and no encrypted reasoning, as local servers do. The models of
# `text` write their calls into the text.
UPSTREAMS = {
    "chat": {"wire": "chat", "quirks": {}, "refuse": []},
    "text": {"wire": "chat", "quirks": {"tool_call_tags": True}, "refuse": []},
    "responses": {"wire": "responses", "quirks": {}, "refuse": ["invalid_responses_request"]},
    "functions": {
        "wire": "responses",
        "quirks": {"tools": [], "encrypted_reasoning": False, "reasoning_text": True, "phase": False},
        "refuse": ["beyond_functions"],
    },
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}


class Failure(Exception):
    """The program ran, and its behaviour differs from the case."""


class Skip(Exception):
    """This machine cannot run the case, whatever is installed."""


class NotInstalled(Exception):
    """The program that the case needs is not installed."""


def target() -> Path:
    """The target folder of this checkout."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def release_build() -> Path:
    """Where cargo puts the release build of this checkout."""
    return (target() / "release/respondent").resolve()


def binary() -> Path:
    """The proxy under test: $RESPONDENT_BIN, else the release build."""
    return Path(os.environ.get("RESPONDENT_BIN", release_build())).resolve()


def kit_program() -> Path:
    """The program of tests/kit. A build of the workspace creates it in the folder of the proxy."""
    program = binary().with_name("respondent-kit")
    if not program.exists():
        raise Failure(f"{program} is missing: build the workspace, as with cargo build --release --workspace")
    return program


def need(path: Path, what: str) -> Path:
    """Skips the case if the path of an installed program does not exist."""
    if not path.exists():
        raise NotInstalled(f"{what} is not installed, run tests/clients/install.sh")
    return path


class Process:
    """A child process in its own process group, whose output goes to a file. close() ends the whole group."""

    def __init__(self, argv, log: Path, env=None, cwd=None):
        self.log = log
        self.out = open(log, "wb")
        self.argv, self.env, self.cwd = [str(argument) for argument in argv], env, cwd
        self.start()

    def start(self):
        self.child = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=subprocess.STDOUT,
            env=self.env,
            cwd=self.cwd,
            start_new_session=True,
        )

    def restart(self):
        """Kills the child and starts it again."""
        self.child.kill()
        self.child.wait()
        self.start()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, seconds: float) -> re.Match:
        """Waits for a match of `pattern` in the output of the child, and returns it."""
        return self.wait_until(lambda: re.search(pattern, self.text()), f"no line like {pattern!r}", seconds)

    def wait_for_url(self, url: str, seconds: float):
        """Waits until `url` answers with status 200."""

        def answers():
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(url, timeout=5) as reply:
                    return reply.status == 200

        return self.wait_until(answers, f"no answer from {url}", seconds)

    def wait_until(self, probe, complaint, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = probe()
            if found:
                return found
            if self.child.poll() is not None:
                raise Failure(f"{self.child.args[0]} exited with {self.child.returncode}:\n{self.text()}")
            time.sleep(0.05)
        raise Failure(f"{complaint} within {seconds} s:\n{self.text()}")

    def close(self):
        for sig, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 5)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, sig)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(patience)
                break
        kill_group(self.child)
        self.out.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Player(Process):
    """The scripted upstream: `respondent-kit player`, the program of tests/kit."""

    def __init__(self, script: dict, folder: Path, listen="127.0.0.1:0"):
        path = folder / "script.json"
        path.write_text(json.dumps(expanded(script)))
        argv = [kit_program(), "player", "--script", path, "--listen", listen]
        super().__init__(argv, folder / "player.log", env=plain_env(folder), cwd=folder)
        self.base_url = self.wait_for(r"player listening on (http://\S+)", 10)[1]

    def requests(self) -> list[dict]:
        """The POST requests so far, each with its path, its body as text and as JSON, and the refusal if it broke a rule."""
        with urllib.request.urlopen(f"{self.base_url}/requests", timeout=30) as reply:
            return json.load(reply)


def expanded(script: dict) -> dict:
    """The script with each `{"times": N, "answers": […]}` among its answers replaced by N copies of them.

    In the strings of a copied answer, `#n#` is its number, counted from 1, `#backwards#` the digits of that
    number in reverse order, and `#before#` the number of the answer before it.
    """
    answers = []
    for answer in script["answers"]:
        copies = answer["answers"] * answer["times"] if "times" in answer else []
        answers += [numbered(copy, n) for n, copy in enumerate(copies, 1)] or [answer]
    return script | {"answers": answers}


def numbered(value, n: int):
    if isinstance(value, dict):
        return {key: numbered(inner, n) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbered(inner, n) for inner in value]
    if isinstance(value, str):
        return value.replace("#n#", str(n)).replace("#before#", str(n - 1)).replace("#backwards#", str(n)[::-1])
    return value


class Proxy(Process):
    """The proxy on its own port, with its own home, in front of one upstream.

    Without `base_url` it has no configuration and no key, so it serves the embedded sandbox. `kinds` are the
    kinds of upstream by name of the provider; all of them are at `base_url`.
    """

    # Sent by get().
    headers: dict[str, str] = {}

    def __init__(self, folder: Path, base_url: str | None = None, models=("scripted",), provider="scripted", more="", key=API_KEY, kinds=None, blind=(), env=None):
        port = free_port()
        self.flags = ["--listen", f"127.0.0.1:{port}", "--data-dir", folder / "data"]
        if base_url:
            config = folder / "proxy-config.toml"
            kinds = kinds or {provider: "chat"}
            config.write_text("".join(provider_table(name, kind, base_url, key, models, blind) for name, kind in kinds.items()) + more)
            config.chmod(0o600)
            self.flags += ["--config", config]
        super().__init__([binary(), *self.flags], folder / "proxy.log", env=plain_env(folder) | LOG | (env or {}), cwd=folder)
        self.origin = f"http://127.0.0.1:{port}"
        self.base_url = f"{self.origin}/v1"
        self.wait_for_url(f"{self.origin}/healthz", 15)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(urllib.request.Request(self.origin + path, headers=self.headers), timeout=10) as reply:
            return reply.read().decode()

    def first_model(self) -> str:
        return json.loads(self.get("/v1/models"))["data"][0]["id"]

    def counted(self, metric: str) -> int:
        """The sum of a counter over all its labels."""
        lines = self.get("/metrics").splitlines()
        return round(sum(float(line.split()[-1]) for line in lines if line.startswith(metric)))

    def turns(self) -> int:
        """The number of turns that the proxy has finished, of every kind and outcome."""
        return self.counted("respondent_turns_total")

    def settled_turns(self, at_least: int) -> int:
        """The number of turns, after waiting until it is `at_least`: a turn is counted shortly after its last byte."""
        end = time.monotonic() + 3
        while (count := self.turns()) < at_least and time.monotonic() < end:
            time.sleep(0.05)
        return count


def provider_table(name: str, kind: str, base_url: str, key: str, models, blind=()) -> str:
    """The table of a provider with this kind of upstream, and its models. Those of `blind` take no images."""
    upstream = UPSTREAMS[kind]
    return (
        f"[providers.{name}]\n"
        f'wire = "{upstream["wire"]}"\n'
        f'base_url = "{base_url}"\n'
        f'api_key = "{key}"\n'
        + (f"quirks = {toml(upstream['quirks'])}\n" if upstream["quirks"] else "")
        + "".join(f'[[providers.{name}.models]]\nid = "{model}"\nimages = {json.dumps(model not in blind)}\n' for model in models)
    )


def toml(value) -> str:
    """A string, number, boolean, list or table, as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


def plain_env(home: Path) -> dict:
    """An environment without the keys, proxies and settings of the user who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(home), "NO_PROXY": "127.0.0.1,localhost", "XDG_CONFIG_HOME": str(home / ".config")}


# Sockets that do not listen, so that no other program gets the port of one by chance.
RESERVED: list[socket.socket] = []


def free_port() -> int:
    """A port for a server of the tests, which has to reuse addresses, as nearly all do. It stays reserved."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    RESERVED.append(reserved)
    return reserved.getsockname()[1]


def answers(origin: str) -> bool:
    """Whether a server listens there."""
    host, port = origin.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def processes_with(text: str) -> list[str]:
    """The command lines of the processes whose command line or environment has this text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            if text.encode() in line + (folder / "environ").read_bytes():
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


@contextlib.contextmanager
def refused_url():
    """A base URL whose port is reserved and does not listen."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


@contextlib.contextmanager
def proxy_for(case: dict, folder: Path):
    """The proxy with the upstream of the case: its script, the embedded sandbox, or a closed port."""
    upstream = case.get("upstream", "script")
    if upstream == "sandbox":
        with Proxy(folder) as proxy:
            yield proxy
    elif upstream == "refused":
        with refused_url() as url, Proxy(folder, url) as proxy:
            yield proxy
    else:
        kinds = case.get("providers") or {"scripted": case.get("wire", "chat")}
        rules = [rule for kind in kinds.values() for rule in UPSTREAMS[kind]["refuse"]]
        script = case["script"] | ({"refuse": rules} if rules else {})
        script |= strict(case["strict"]) if "strict" in case else {}
        key = case.get("key", API_KEY)
        models, more = case.get("models", ["scripted"]), case.get("config", "")
        with Player(script, folder) as player, Proxy(folder, player.base_url, key=key, kinds=kinds, models=models, more=more, blind=case.get("blind", ())) as proxy:
            proxy.upstream = player
            yield proxy
            check_requests(player.requests(), kinds, "strict" in case)


def check_requests(requests: list[dict], kinds: dict[str, str], refusals_are_expected: bool):
    """Fails if a request broke a rule of the upstream, even if the proxy adapted to it, or was on another wire."""
    paths = {PATHS[UPSTREAMS[kind]["wire"]] for kind in kinds.values()}
    for number, request in enumerate(requests, 1):
        if request["path"] not in paths:
            raise Failure(f"request {number} was sent to {request['path']}, not to {' or '.join(paths)}")
        if request["refusal"] and not refusals_are_expected:
            raise Failure(f"request {number} was refused: {brief(request['refusal'])}")


def strict(name: str) -> dict:
    """The part of a strict preset (fixtures/strict) that belongs into a script: the dialect and the refusal rules."""
    preset = json.loads((ROOT / f"fixtures/strict/{name}.json").read_text())
    return {key: preset[key] for key in ("dialect", "refuse")}


def check_streams(streams: list[Path]):
    """Judges whole streams by every rule of the strict checker."""
    if not streams:
        return
    checked = subprocess.run([kit_program(), "check", *streams], capture_output=True, text=True, timeout=60)
    if checked.returncode != 0:
        raise Failure(f"the strict checker refuses a stream: {checked.stderr}")


def kill_group(child: subprocess.Popen):
    """Kills the group of processes that a child leads, and returns when all of them have ended.

    Their ports and locks are free then. Processes of the group whose parent has ended are waited for as well.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-child.pid, 0)


def adopt_orphans():
    """Makes processes whose parent has ended children of this one, so that they can be waited for."""
    set_child_subreaper = 36
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


adopt_orphans()
# A script that is told to end does so with its servers, which are in groups of their own.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run_program(argv, folder: Path, env: dict, seconds: float, name="client", cwd: Path | None = None):
    """Runs a client to its end, in the folder `work` or in `cwd`, and returns (exit code, stdout, stderr)."""
    out, err = folder / f"{name}.out", folder / f"{name}.err"
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        child = subprocess.Popen(
            [str(argument) for argument in argv],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd or folder / "work",
            start_new_session=True,
        )
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill_group(child)
    texts = out.read_text(errors="replace"), err.read_text(errors="replace")
    if code is None:
        raise Failure(f"{Path(argv[0]).name} was not done after {seconds} s\n{texts[0]}{texts[1]}")
    return code, *texts


def mismatch(expected, actual, where="result") -> str | None:
    """A description of how `actual` differs from `expected`; None if it matches.

    Objects need the given keys. Lists need the given elements in this order, with others in between;
    an empty list must be empty. A string that starts with "~" is a regular expression to search for.
    Everything else must be equal.
    """
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return f"{where} is {actual!r}, no object"
        for key, value in expected.items():
            if key not in actual:
                return f"{where} has no {key!r}: {brief(actual)}"
            if wrong := mismatch(value, actual[key], f"{where}.{key}"):
                return wrong
        return None
    if isinstance(expected, list):
        if not isinstance(actual, list) or (actual and not expected):
            return f"{where} is {brief(actual)}, not a list of {brief(expected)}"
        rest = iter(actual)
        for element in expected:
            if not any(mismatch(element, candidate) is None for candidate in rest):
                return f"{where} lacks {brief(element)} at its place: {brief(actual)}"
        return None
    if isinstance(expected, str) and expected.startswith("~"):
        found = isinstance(actual, str) and re.search(expected[1:], actual, re.S)
        return None if found else f"{where} is {brief(actual)}, nothing like /{expected[1:]}/"
    return None if expected == actual else f"{where} is {brief(actual)}, not {brief(expected)}"


def brief(value) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 1500 else f"{text[:1000]} … {text[-400:]}"


def check(wrong: str | None):
    if wrong:
        raise Failure(wrong)


def python() -> str:
    """A Python interpreter for helpers that need only the standard library."""
    return shutil.which("python3.11") or shutil.which("python3") or "python3"
