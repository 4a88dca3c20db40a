"""A web with one search engine and one server, in a network that has nothing else.

The server has a public address, which is that of the loopback interface of such a network: pages of other addresses
are not read. A web has the `results` of every search, without which the engine refuses, and the `pages` by path: their
HTML, or the status of one that fails. With `refuses` the engine refuses one of so many searches.
"""

import fcntl
import http.server
import json
import os
import socket
import struct
import threading
from pathlib import Path

import kit

# The search engine speaks as SearXNG does, at the address that the configuration of a case names.
ENGINE = ("127.0.0.1", 8888)
SERVER = "93.184.215.14"
CONFIG = f'[search]\norder = ["searxng"]\n[search.searxng]\nbase_url = "http://{ENGINE[0]}:{ENGINE[1]}"\n'


class Web:
    """Runs both. `asked` has the path of each request, without its query."""

    def __init__(self, web: dict | str):
        if isinstance(web, str):
            web = json.loads((kit.HERE / web).read_text())
        add_address()
        self.asked: list[str] = []
        self.refuses = web.get("refuses")
        found = {}
        if "results" in web:
            results = [result | {"url": f"http://{SERVER}{result['url']}"} for result in web["results"]]
            found["/search"] = (200, "application/json", json.dumps({"results": results}))
        pages = {}
        for path, page in web["pages"].items():
            pages[path] = (page, "text/plain", "") if isinstance(page, int) else (200, "text/html; charset=utf-8", page)
        self.servers = [self._start(ENGINE, found, 429), self._start((SERVER, 80), pages, 404)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def _start(web, address, answers, other):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0]
                web.asked.append(path)
                status, kind, body = answers.get(path, (other, "text/plain", ""))
                if web.refuses and path == "/search" and web.asked.count(path) % web.refuses == 0:
                    status = 429
                self.send_response(status)
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(address, Handler)
        server.daemon_threads = True
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
