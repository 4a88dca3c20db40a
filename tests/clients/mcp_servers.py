#!/usr/bin/env python3
"""Real MCP servers behind the proxy, for the OpenAI SDK: mcp_servers.py [--keep] [filter]

Installs pinned servers from npm and PyPI into one folder ($MCP_PACKAGES, else .venv/mcp beside this file), which the next
run uses again. Starts the proxy ($RESPONDENT_BIN, else target/release/respondent) before a scripted model, which calls
one tool after another: of programs on standard input and output, and of one that listens on loopback. Each case runs
on both wires, streamed, as a whole and in the background. Prints a line for each; exits with 1 when one failed.
"""

import argparse
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import kit

FOLDER = Path(os.environ.get("MCP_PACKAGES", kit.HERE / ".venv/mcp")).resolve()
NODE = ["@modelcontextprotocol/server-filesystem@2026.8.31", "@modelcontextprotocol/server-everything@2026.8.31"]
PYTHON = ["mcp-server-time==2026.10.19", "mcp-server-fetch==2026.10.24"]

# What the model is told of arguments that do not fit.
MISTAKE = "is a required property"
# The server, its tool, the arguments, and what the model has to get of it. {folder}, {web} and so on are filled in.
CASES = {
    "files_read": ("files", "read_text_file", {"path": "{folder}/note.txt"}, "The key is below the mat."),
    "files_write": ("files", "write_file", {"path": "{folder}/new.txt", "content": "green"}, "Successfully wrote"),
    "files_outside": ("files", "read_text_file", {"path": "/etc/hostname"}, "Access denied"),
    "time": ("time", "convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}, "21:30"),
    "fetch": ("fetch", "fetch", {"url": "{web}/page"}, "Herons fish at dawn."),
    "everything_program": ("everything", "echo", {"message": "over a pipe"}, "over a pipe"),
    "everything_http": ("remote", "echo", {"message": "over HTTP"}, "over HTTP"),
    "everything_image": ("remote", "get-tiny-image", {}, "image"),
    "mistake": ("time", "convert_time", {"source_timezone": "UTC"}, MISTAKE),
}
PAGE = b"<html><head><title>Herons</title></head><body><article><h1>Herons</h1><p>Herons fish at dawn.</p></article></body></html>"


def install():
    """The servers, as they are pinned. Does nothing if they are there."""
    wanted = json.dumps([NODE, PYTHON])
    done = FOLDER / "installed"
    if done.exists() and done.read_text() == wanted:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    quiet = {"check": True, "cwd": FOLDER, "stdout": subprocess.DEVNULL}
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", ".", *NODE], **quiet)
    subprocess.run([sys.executable, "-m", "venv", "venv"], **quiet)
    subprocess.run(["venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON], **quiet)
    done.write_text(wanted)


class Page(http.server.BaseHTTPRequestHandler):
    """A small web: one page, and no rules for robots."""

    def do_GET(self):
        self.send_response(200 if self.path == "/page" else 404)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE if self.path == "/page" else b"")

    def log_message(self, *_):
        pass


def configuration(folder: Path, port: int) -> str:
    """The servers that the proxy starts, and the one that requests may name by its address."""
    modules = FOLDER / "node_modules/@modelcontextprotocol"
    node, python = shutil.which("node"), FOLDER / "venv/bin/python"
    programs = {
        "files": [node, modules / "server-filesystem/dist/index.js", folder],
        "everything": [node, modules / "server-everything/dist/index.js", "stdio"],
        "time": [python, "-m", "mcp_server_time", "--local-timezone", "UTC"],
        "fetch": [python, "-m", "mcp_server_fetch", "--allow-private-ips"],
    }
    tables = [f'[tools.mcp]\nallowed_hosts = ["127.0.0.1:{port}"]']
    for label, (command, *args) in programs.items():
        tables.append(f"[tools.mcp.servers.{label}]\ncommand = {kit.toml(str(command))}\nargs = {json.dumps([str(arg) for arg in args])}")
    return "\n".join(tables) + "\n"


def script(cases: dict) -> dict:
    """A model that makes the call that the user's message names, and then says what came back."""
    answers = []
    for name, (label, tool, arguments, _) in cases.items():
        call = {"index": 0, "id": f"call_{name}", "name": f"{label}__{tool}", "arguments": json.dumps(arguments), "pieces": 2}
        answers.append({"when": {"last_role": "user", "last_contains": f"case {name}."}, "repeat": True, "steps": [{"call": call}]})
    answers.append({"when": {"last_role": "tool"}, "repeat": True, "steps": [{"text": "Done."}]})
    return {"answers": answers}


def ask(client, mode: str, name: str, tools: list) -> dict:
    """The final response to a request for one case."""
    asked = {"model": "scripted", "input": f"Run the case {name}.", "tools": tools}
    if mode == "streamed":
        with client.responses.stream(**asked) as stream:
            return stream.until_done().get_final_response().model_dump()
    response = client.responses.create(**asked, background=mode == "background")
    while response.status in ("queued", "in_progress"):
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response.model_dump()


def check(proxy, response: dict, case: tuple):
    """What the client sees of the call, and what the model got."""
    label, tool, _, expected = case
    listed, *calls, _ = output = response["output"]
    kinds = [item["type"] for item in output]
    # A call whose arguments do not fit the tool is not made. The model alone is told.
    wanted = ["mcp_list_tools", "message"] if expected == MISTAKE else ["mcp_list_tools", "mcp_call", "message"]
    if kinds != wanted or response["status"] != "completed" or tool not in [one["name"] for one in listed["tools"]]:
        raise kit.Failure(f"{response['status']} {kinds}: {json.dumps(output)[:2000]}")
    texts = {"the model's request": json.dumps(proxy.upstream.requests()[-1]["json"])}
    for call in calls:
        if (call["server_label"], call["name"]) != (label, tool):
            raise kit.Failure(f"another call: {call}")
        texts["the call"] = json.dumps(call["error"] or call["output"])
    for where, text in texts.items():
        if expected not in text:
            raise kit.Failure(f"{where} has no '{expected}': {text[-600:]}")


def run(kind: str, cases: dict, folder: Path) -> int:
    """Runs the cases on an upstream of this kind. Returns how many failed."""
    import openai

    (folder / "note.txt").write_text("The key is below the mat.\n")
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    filled = {"{folder}": str(folder), "{web}": f"http://127.0.0.1:{web.server_port}"}
    text = json.dumps(cases)
    for mark, value in filled.items():
        text = text.replace(mark, value)
    cases = json.loads(text)
    port, failed = kit.free_port(), 0
    everything = FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    remote = kit.Process([shutil.which("node"), everything, "streamableHttp"], folder / "remote.log", env=kit.plain_env(folder) | {"PORT": str(port)}, cwd=folder)
    case = {"wire": kind, "script": script(cases), "config": configuration(folder, port)}
    with remote, kit.proxy_for(case, folder) as proxy:
        remote.wait_until(lambda: kit.answers(f"http://127.0.0.1:{port}"), "the server did not start", 20)
        client = openai.OpenAI(base_url=proxy.base_url, api_key="local", max_retries=0, timeout=60)
        for name, one in cases.items():
            address = {"server_url": f"http://127.0.0.1:{port}/mcp"} if one[0] == "remote" else {}
            tools = [{"type": "mcp", "server_label": one[0], "require_approval": "never"} | address]
            for mode in ["streamed", "whole", "background"]:
                try:
                    check(proxy, ask(client, mode, name, tools), one)
                    print(f"ok    {name} {mode} @{kind}")
                except Exception as reason:
                    failed += 1
                    print(f"FAIL  {name} {mode} @{kind}: {reason}")
    web.shutdown()
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the folder of the run in place")
    parser.add_argument("filter", nargs="?", default="", help="only the cases whose name contains this")
    args = parser.parse_args()
    install()
    cases = {name: case for name, case in CASES.items() if args.filter in name}
    folder = Path(tempfile.mkdtemp(prefix="mcp-"))
    failed = 0
    # An upstream that speaks the whole Responses API would connect to the servers itself.
    for kind in ["chat", "functions"]:
        subfolder = folder / kind
        subfolder.mkdir()
        failed += run(kind, cases, subfolder)
    if args.keep:
        print(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
