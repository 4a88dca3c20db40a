"""Runs the reverse proxies of docs/deployment.md, with the configuration that the page shows, in front of a server.

A case names the program. Each event of a stream must reach the client before the provider sends the next one: the
provider of these cases waits in the middle of its answer until the client has read the first half. The request is
larger than what a proxy takes unless it is told otherwise.
"""

import contextlib
import http.client
import http.server
import json
import re
import shutil
import socket
import ssl
import threading
from pathlib import Path

import kit
import loopback

PAGE = kit.ROOT / "docs/deployment.md"
HOST = "respondent.example.com"
TOKEN = "a-token-of-the-deployment-tests"
# How long the client waits for anything, in seconds.
PATIENCE = 60
# What a complete configuration has around the lines of the page.
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:443 ssl;
        server_name {host};
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
{lines}
    }}
}}
"""
CADDY = """
{{
    admin off
    local_certs
    skip_install_trust
    auto_https disable_redirects
    storage file_system {folder}/caddy
}}
{lines}
"""
PROGRAMS = {
    "nginx": (r"^location .*?^\}\n", NGINX, ["nginx", "-c"]),
    "caddy": (rf"^{re.escape(HOST)} .*?^\}}\n", CADDY, ["caddy", "run", "--adapter", "caddyfile", "--config"]),
}


def run(case: dict, folder: Path):
    """Runs the case in a network of its own, in another process."""
    if not shutil.which(case["program"]):
        raise kit.Skip(f"{case['program']} is not installed, so what the page says of it was not tried")
    loopback.run_in_namespace(__file__, case, folder)


# Promise: The reverse proxies of the deployment guide pass each event of a stream on before the
# next one is sent, and take large requests.
def run_alone(case: dict, folder: Path):
    """Runs the case in this process, whose network has nothing but loopback."""
    _, project, env = loopback.user(folder)
    env |= {"RESPONDENT_TOKEN": TOKEN}
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Provider())
        config = folder / "proxy-config.toml"
        models = 'models = [{ id = "m1", window = 4000000 }]'
        config.write_text(f'[providers.mine]\nbase_url = "{provider.base_url}"\n{models}\n')
        argv = [kit.binary(), "--config", config]
        server = stack.enter_context(kit.Process(argv, folder / "server.log", env=env, cwd=project))
        server.wait_for_url(f"{loopback.SERVER}/healthz", 30)
        front = stack.enter_context(kit.Process(command(case["program"], folder), folder / "front.log", env=env))
        front.wait_until(lambda: kit.answers("http://127.0.0.1:443"), "nothing listens", PATIENCE)
        status, _ = ask("not-the-token", provider)
        kit.check(kit.mismatch(401, status, "the status with a wrong token"))
        status, text = ask(TOKEN, provider)
        kit.check(kit.mismatch(200, status, "the status"))
        kit.check(kit.mismatch('~"delta":"first".*"delta":"second".*response.completed', text, "the stream"))


def command(program: str, folder: Path) -> list:
    """The command that runs the proxy with the lines of the page."""
    pattern, around, argv = PROGRAMS[program]
    shown = re.findall(pattern, PAGE.read_text(), re.M | re.S)
    if len(shown) != 1:
        raise kit.Failure(f"{PAGE.name} shows {len(shown)} configurations of {program}")
    file = folder / "front.conf"
    certificate = loopback.make_certificate([HOST], folder)
    file.write_text(around.format(folder=folder, host=HOST, certificate=certificate, lines=shown[0]))
    return [*argv, file]


def ask(token: str, provider) -> tuple[int, str]:
    """Sends a large turn through the proxy, and tells the provider when the first half of the answer has arrived."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPConnection(HOST)
    plain = socket.create_connection(("127.0.0.1", 443), PATIENCE)
    connection.sock = context.wrap_socket(plain, server_hostname=HOST)
    body = {"model": "m1", "stream": True, "input": "words " * 500_000}
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    status, text = None, ""
    with contextlib.closing(connection):
        connection.request("POST", "/v1/responses", json.dumps(body), headers)
        try:
            reply = connection.getresponse()
            status = reply.status
            for line in reply:
                text += line.decode()
                if '"delta":"first"' in text:
                    provider.first_has_arrived.set()
        except (TimeoutError, http.client.HTTPException):
            raise kit.Failure(f"the proxy holds the answer back; the client has {status}, {text!r}") from None
    return status, text


class Provider:
    """A provider whose answer has two parts; it sends the second when the client has the first."""

    def __init__(self):
        self.first_has_arrived = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def _handler(provider):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.send({"content": "first"}, None)
                if provider.first_has_arrived.wait(2 * PATIENCE):
                    self.send({"content": "second"}, "stop")
                    self.wfile.write(b"data: [DONE]\n\n")

            def send(self, delta: dict, finish_reason: str | None):
                chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

            def log_message(self, *_):
                pass

        return Handler


if __name__ == "__main__":
    loopback.main(run_alone)
