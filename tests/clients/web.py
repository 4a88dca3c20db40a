"""A web with one search engine and one server, in a network that has nothing else.

The server has a public address, which is that of the loopback interface of such a network: pages of other addresses
are not read. A web has the `results` of every search, without which the engine refuses, and the `pages` by path: their
HTML, the status of one that fails, or the list of a sentence, how often it is repeated, and the last sentence. With
`refuses` the engine refuses one of so many searches. With `hosts` these names lead to the server, which also speaks
HTTPS then, with the certificate of `env`, and is an MCP server at `/mcp`.
"""

import fcntl
import http.server
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from pathlib import Path

import kit
import loopback

# The search engine speaks as SearXNG does, at the address that the configuration of a case names.
ENGINE = ("127.0.0.1", 8888)
SERVER = "93.184.215.14"
CONFIG = f'[search]\norder = ["searxng"]\n[search.searxng]\nbase_url = "http://{ENGINE[0]}:{ENGINE[1]}"\n'


class Web:
    """Runs both. `asked` has the path of each request, without its query; what `hosts` need is written to `folder`."""

    def __init__(self, web: dict | str, folder: Path | None = None):
        if isinstance(web, str):
            web = json.loads((kit.HERE / web).read_text())
        add_address()
        self.asked: list[str] = []
        self.refuses = web.get("refuses")
        found = {}
        if "results" in web:
            results = [
                result | {"url": f"http://{SERVER}{result['url']}" if result["url"].startswith("/") else result["url"]}
                for result in web["results"]
            ]
            found["/search"] = (200, "application/json", json.dumps({"results": results}))
        pages = {}
        for path, page in web["pages"].items():
            if isinstance(page, list):
                sentence, times, end = page
                page = f"<html><body><article><p>{sentence * times}</p><p>{end}</p></article></body></html>"
            pages[path] = (page, "text/plain", "") if isinstance(page, int) else (200, "text/html; charset=utf-8", page)
        self.servers = [self._start(ENGINE, found, 429), self._start((SERVER, 80), pages, 404)]
        self.env: dict[str, str] = {}
        if folder and "hosts" in web:
            name_server(web["hosts"], folder)
            certificate = loopback.make_certificate(web["hosts"], folder)
            self.env["SSL_CERT_FILE"] = str(certificate)
            self.servers.append(self._start((SERVER, 443), pages, 404, certificate))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def _start(web, address, answers, other, certificate=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                if self.path != "/mcp":
                    return self.do_GET()
                web.asked.append(self.path)
                message = self.rfile.read(int(self.headers["content-length"]))
                argv = [sys.executable, kit.HERE / "programs/mcp_server.py"]
                reply = subprocess.run(argv, input=message, capture_output=True, check=True).stdout
                self.answer(200 if reply else 202, "application/json", reply)

            def do_GET(self):
                path = self.path.split("?")[0]
                web.asked.append(path)
                status, kind, body = answers.get(path, (other, "text/plain", ""))
                if web.refuses and path == "/search" and web.asked.count(path) % web.refuses == 0:
                    status = 429
                self.answer(status, kind, body.encode())

            def answer(self, status, kind, body):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(address, Handler)
        server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def run_with(case: dict, folder: Path, run_alone):
    """Runs a case in this process, whose network has nothing but the web of the case."""
    os.chdir(folder)
    (folder / "work").rmdir()
    expect = dict(case["expect"])
    asked = expect.pop("web", None)
    with Web(case["web"]) as served:
        run_alone(case | {"expect": expect, "config": case.get("config", "") + CONFIG}, folder)
        if asked is not None and served.asked != asked:
            raise kit.Failure(f"the web was asked for {served.asked}, not {asked}")


def add_address():
    """Gives the loopback interface of this network the public address of the server as a second one."""
    set_address, family = 0x8916, struct.pack("H", socket.AF_INET)
    request = struct.pack("16s2s2x4s8x", b"lo:web", family, socket.inet_aton(SERVER))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_address, request)


def name_server(names: list[str], folder: Path):
    """Lets these names lead to the server, for the processes of this namespace alone."""
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{SERVER} {name}\n" for name in names))
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
