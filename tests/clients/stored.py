"""Cases of stored responses, conversations and background responses, with the SDKs and the Agents SDKs.

The key `program` of a case says with which program its scenario runs. Its `upstreams` are run one after another:
the script, the sandbox, and llama.cpp (`llamacpp`). The streams that a program leaves are judged by the strict checker.
"""

import base64
import contextlib
import http.server
import json
import shutil
import threading
from pathlib import Path

import kit
import llamacpp
import sdk

PROGRAMS = {
    "openai-python": "stored_client.py",
    "openai-node": "stored_client.mjs",
    "agents-python": "agents_client.py",
    "agents-node": "stored_client.mjs",
}


WEBHOOK_SECRET = "whsec_" + base64.b64encode(b"signs the events of the tests").decode()


def run(case: dict, folder: Path):
    kit.need(kit.VENV_PYTHON, "the OpenAI SDK for Python")
    kit.need(kit.NODE_MODULES / "openai", "the OpenAI SDK for JavaScript")
    program = PROGRAMS[case["program"]]
    starter = kit.VENV_PYTHON if program.endswith(".py") else kit.need(Path(shutil.which("node") or "/node"), "node")
    for upstream in case.get("upstreams", ["script"]):
        subfolder = folder / upstream
        streams = subfolder / "streams"
        streams.mkdir(parents=True)
        expect = case["expect"] | case.get("also", {}).get(upstream, {})
        try:
            more = configured(case, subfolder, streams)
            with more as config, upstream_of(case | {"upstream": upstream, "expect": expect, "config": config}, subfolder) as (one, proxy):
                sdk.run_with(one, subfolder, proxy, [starter, kit.HERE / "programs" / program], case["program"], [streams])
            kit.check_streams(sorted(streams.glob("*.sse")))
        except kit.Failure as reason:
            raise kit.Failure(f"{upstream}: {reason}") from None


def configured(case: dict, folder: Path, streams: Path):
    """What the case needs of the configuration."""
    if case.get("webhook"):
        return webhook_to(streams)
    if "workflow" in case:
        workflows = folder / "workflows"
        workflows.mkdir()
        (workflows / "wf_release.toml").write_text("\n".join(case["workflow"]))
        return contextlib.nullcontext(f"[workflows]\nfolder = {json.dumps(str(workflows))}\n")
    return contextlib.nullcontext(mcp_server() if case.get("mcp") else "")


def mcp_server() -> str:
    """The configuration of an MCP server that the proxy starts."""
    program = json.dumps(str(kit.HERE / "programs/mcp_server.py"))
    return f"[tools.mcp.servers.demo]\ncommand = {json.dumps(str(kit.VENV_PYTHON))}\nargs = [{program}]\n"


@contextlib.contextmanager
def webhook_to(folder: Path):
    """A receiver of webhooks, which leaves an event in the folder as it came, and the configuration that sends events to it."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            event = {"headers": dict(self.headers), "body": body, "secret": WEBHOOK_SECRET}
            unfinished = folder / "event.unfinished"
            unfinished.write_text(json.dumps(event))
            unfinished.rename(folder / "event.json")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'[webhooks.here]\nurl = "http://127.0.0.1:{server.server_port}/hook"\nsecret = "{WEBHOOK_SECRET}"\n'
        server.shutdown()


@contextlib.contextmanager
def upstream_of(case: dict, folder: Path):
    """The case and the proxy in front of its upstream."""
    if case["upstream"] == "llamacpp":
        with llamacpp.engine("smollm2", folder) as proxy:
            yield case | {"model": "smollm2"}, proxy
    else:
        with kit.proxy_for(case, folder) as proxy:
            yield case, proxy
