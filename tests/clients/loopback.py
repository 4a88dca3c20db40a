"""Cases in a network with nothing but loopback, and a gate in it that stands in for the hosts of providers.

In such a network the usual ports are free, and nothing else can be reached. It belongs to a process, so each case
runs in a process of its own.
"""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import kit


# Where the server listens unless told otherwise.
SERVER = "http://127.0.0.1:9797"


def run_in_namespace(module: str, case: dict, folder: Path):
    """Runs the file of a module, which calls `main`, in a network of its own."""
    kit.need(kit.NODE_MODULES / ".bin/codex", "the Codex CLI")
    (folder / "work").mkdir()
    (folder / "case.json").write_text(json.dumps(case))
    web = case.get("web", {})
    argv = [*namespace(own_mounts="hosts" in web), sys.executable, module, folder]
    code, stdout, stderr = kit.run_program(argv, folder, dict(os.environ), case.get("seconds", 180), "case")
    if code != 0:
        raise kit.Failure((stdout + stderr).strip())


def main(run_alone):
    """Runs the case of the folder that the command line names with `run_alone(case, folder)`."""
    folder = Path(sys.argv[1])
    bring_up()
    try:
        run_alone(json.loads((folder / "case.json").read_text()), folder)
    except kit.Failure as reason:
        sys.exit(str(reason))


def user(folder: Path) -> tuple[Path, Path, dict]:
    """A new home, a project in it, and an environment in which `respondent` is the program under test.

    In it `cargo` is `programs/cargo.py`, and `codex` and `python3` are those of the client tests. Where the program
    under test is the release build of this checkout, that `cargo` can use the real one.
    """
    home, programs = folder / "home", folder / "bin"
    project = home / "project"
    project.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", project], check=True)
    programs.mkdir()
    (programs / "respondent").symlink_to(kit.binary())
    (programs / "cargo").symlink_to(kit.HERE / "programs/cargo.py")
    env = kit.plain_env(home)
    path = [programs, kit.NODE_MODULES / ".bin", kit.VENV_PYTHON.parent, env["PATH"]]
    env |= {"PATH": ":".join(map(str, path)), "REPOSITORY": str(kit.ROOT), "PROXY": str(kit.binary())}
    if kit.binary() == kit.release_build():
        env |= real_cargo(home)
    return home, project, env


def real_cargo(home: Path) -> dict:
    """What an environment needs besides, so that the real cargo builds with the crates and the toolchain of whoever
    runs the tests, as they build, and installs into this home."""
    cargo = shutil.which("cargo")
    if not cargo:
        raise kit.NotInstalled("cargo is not installed")
    kept = {name: value for name, value in os.environ.items() if name.startswith(("CARGO_", "RUST"))}
    own = {"CARGO_HOME": str(Path.home() / ".cargo"), "RUSTUP_HOME": str(Path.home() / ".rustup")}
    # There is no network, and cargo need not look for one.
    return own | kept | {"CARGO": cargo, "CARGO_INSTALL_ROOT": str(home / ".cargo"), "CARGO_NET_OFFLINE": "true"}


def namespace(own_mounts=False) -> list[str]:
    """The command that runs another one in a network of its own, and if wanted with mounts of its own; skips the case
    where there are none."""
    argv = ["unshare", "--net", *(["--mount"] if own_mounts else [])]
    if os.geteuid() != 0:
        argv.append("--map-root-user")
    probe = ["mount", "--bind", "/etc/hosts", "/etc/hosts"] if own_mounts else ["true"]
    if not shutil.which("unshare") or subprocess.run([*argv, *probe], capture_output=True).returncode != 0:
        raise kit.Skip(f"a network of its own cannot be made here ({' '.join([*argv, *probe])})")
    return argv


def bring_up():
    """Turns on the loopback interface of this network."""
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, get_flags, request))
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))


class Gate:
    """An HTTPS proxy that answers for `hosts` itself, with a certificate of its own.

    It passes their requests to `upstream` and keeps the host, path, key and model of each in `requests`. A
    connection to any other host is refused, as by a company's proxy. `env` makes a program use it and trust it.
    """

    def __init__(self, hosts: list[str], upstream: str, folder: Path):
        self.requests: list[dict] = []
        self.certificate = make_certificate(hosts, folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler(hosts, upstream))
        self.server.daemon_threads = True
        port = self.server.server_address[1]
        self.env = {"HTTPS_PROXY": f"http://127.0.0.1:{port}", "SSL_CERT_FILE": str(self.certificate)}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def _handler(gate, hosts, upstream):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(gate.certificate)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            host = None

            def do_CONNECT(self):
                host, _, port = self.path.rpartition(":")
                if host not in hosts or port != "443":
                    self.send_error(403, f"{self.path} cannot be reached")
                    return
                self.send_response(200)
                self.end_headers()
                self.connection = context.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)
                self.host = host

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                model = json.loads(body).get("model")
                key = self.headers["authorization"]
                gate.requests.append({"host": self.host, "path": self.path, "key": key, "model": model})
                target = http.client.HTTPConnection(urlsplit(upstream).netloc)
                with contextlib.closing(target):
                    headers = {"content-type": "application/json", "authorization": key or ""}
                    target.request("POST", self.path, body, headers)
                    reply = target.getresponse()
                    self.send_response(reply.status)
                    self.send_header("content-type", reply.headers["content-type"])
                    self.send_header("connection", "close")
                    self.end_headers()
                    self.wfile.write(reply.read())
                self.close_connection = True

            def log_message(self, *_):
                pass

        return Handler


def make_certificate(hosts: list[str], folder: Path) -> Path:
    """A file with a new key and a certificate for these hosts, which is its own authority."""
    if not shutil.which("openssl"):
        raise kit.NotInstalled("openssl is not installed")
    file, names = folder / "gate.pem", ",".join(f"DNS:{host}" for host in hosts)
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "2", "-subj", "/CN=gate", "-keyout", file, "-out", folder / "gate.crt"]
    argv += ["-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(argv, check=True, capture_output=True)
    with open(file, "a") as both:
        both.write((folder / "gate.crt").read_text())
    return file
