"""Installs the packages of `packaging/build.sh` where nothing is installed, and plays a user's first hour there.

The wheel goes into a new virtual environment, the Debian package into a new Debian system, and an image is made there
by the steps of the Dockerfile: there is no Docker in this. `installers.py` has npm, install.sh and Homebrew. The services are started by the commands in their files.
Each case runs in a network in which there is only loopback.
"""

import configparser
import contextlib
import json
import os
import plistlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import debian
import installers
import kit
import loopback
from packed import DEMO, PACKAGES, PACKAGING, PATIENCE, block, check_program, gone, package, play, run_as_user


def run(case: dict, folder: Path) -> str | None:
    """Runs the case in a network of its own, in another process. Returns what could not be tried."""
    if case["kind"] in ("deb", "image"):
        debian.need()
    loopback.run_in_namespace(__file__, case, folder)
    if case.get("file") == "systemd/respondent.service" and not shutil.which("systemd-analyze"):
        return "the program was started, but systemd is not installed and has NOT judged its unit"
    return None


def run_alone(case: dict, folder: Path):
    """Runs the case in this process, whose network has nothing but loopback."""
    KINDS[case["kind"]](case, folder)


# Promise: The wheel has the program under test and the licences of its libraries. Installed into a
# new virtual environment, it shows an answer of the demo model in an empty home; the doctor
# measures a provider of which only the address and a key are known, and on the file that it writes
# a tool call of Codex runs without a refusal. The setup and the package can be removed.
def wheel(case: dict, folder: Path):
    """The first hour with the wheel, in a new virtual environment and a new home."""
    venv = folder / "venv"
    subprocess.run([kit.python(), "-m", "venv", venv], check=True)
    _, project, env = loopback.user(folder)
    # What is installed is what runs.
    (folder / "bin/respondent").unlink()
    env["PATH"] = f"{venv}/bin:{env['PATH']}"
    shutil.copy(package("respondent-*.whl"), project)
    run_as_user(["bash", "-ec", block(case["block"])], folder, env, project, "install")
    check_program(venv / "bin/respondent")
    notices = list(venv.glob("lib/*/site-packages/respondent-*.dist-info/licenses/third-party-licences"))
    kit.check(kit.mismatch(1, len(notices), "the number of files with licences"))

    def hour(variables: dict) -> str:
        return run_as_user(["bash", kit.HERE / "programs/hour.sh"], folder, env | variables, project, "hour")

    play(case, folder, project, hour)
    run_as_user(["pip", "uninstall", "--yes", "respondent"], folder, env, project, "remove")
    gone(list(venv.rglob("*respondent*")))


# Promise: The Debian package shows an answer to a user of a new Debian system, and has the
# licences, manual pages, completions and a unit of systemd. When it is removed, nothing of it is
# left.
def deb(case: dict, folder: Path):
    """The first hour with the Debian package, in a new Debian system, as a user who is not root."""
    system = debian.Debian(folder)
    before = files(system.root)
    home = system.install(package("respondent_*.deb"), block(case["block"]))
    project = home / "project"
    subprocess.run(["git", "init", "--quiet", project], check=True)
    check_program(system.root / "usr/bin/respondent")
    for name in case["expect"]["installed"]:
        if not (system.root / name).exists():
            raise kit.Failure(f"the package has no {name}")

    vendor = next(kit.NODE_MODULES.glob("@openai/codex-*/vendor/*"))
    shared = {vendor.resolve(): "/opt/codex", kit.HERE / "programs": "/opt/programs"}

    def hour(variables: dict) -> str:
        env = {"HOME": "/home/user", "PATH": f"{debian.PATH}:/opt/codex/bin"} | variables
        script = ["bash", "-c", "cd ~/project && . /opt/programs/hour.sh"]
        subprocess.run(["chown", "-R", "--reference", home, home], check=True)
        return system.run(script, env, "hour", user="user", shared=shared)

    play(case, folder, project, hour)
    system.run(["apt-get", "remove", "--purge", "respondent"], debian.AS_ROOT, "remove")
    gone([path for path in files(system.root) - before if "respondent" in path.name])


def files(root: Path) -> set[Path]:
    """The files of a system outside of the homes."""
    kept = (root / name for name in ("usr", "etc", "opt", "var/lib/systemd"))
    return {path for folder in kept for path in folder.rglob("*")}


# Promise: The steps of the Dockerfile, in a new Debian system, make a server that answers at the
# port that the compose file maps, under any host name, with its token alone; Codex on the host is
# set up by one command, and the server ends in order.
def image(case: dict, folder: Path):
    """A server in what the Dockerfile makes, with the port, the variables and the token of the compose file."""
    _, project, env = loopback.user(folder)
    env["RESPONDENT_TOKEN"] = case["token"]
    service = compose(PACKAGING / "docker/compose.yaml", env)
    build = service["build"]
    context = (PACKAGING / "docker" / build["context"]).resolve()
    kit.check(kit.mismatch(str((kit.ROOT / "target/packages").resolve()), str(context), "the context of the image"))
    package("respondent_*.deb")
    built = debian.Image(context / build["dockerfile"], PACKAGES, folder)
    check_program(built.system.root / "usr/bin/respondent")
    (mapped,) = service["ports"]
    address, outer, inner = mapped.rsplit(":", 2)
    kit.check(kit.mismatch([int(inner)], built.ports, "the port of the image"))
    kit.check(kit.mismatch([path.split(":")[1] for path in service["volumes"]], built.volumes, "the volumes"))
    url = f"http://{address}:{outer}"
    with contextlib.ExitStack() as stack:
        # The container has a network of its own.
        argv = ["unshare", "--net", *built.command(service["environment"])]
        server = stack.enter_context(kit.Process(argv, folder / "server.log"))
        server.wait_for("Ctrl-C to stop", PATIENCE)
        listener = stack.enter_context(socket.create_server((address, int(outer))))
        inside = ["nsenter", f"--net=/proc/{server.child.pid}/ns/net", sys.executable, "-c", FORWARD]
        arguments = [str(listener.fileno()), inner]
        forwarder = subprocess.Popen([*inside, *arguments], pass_fds=[listener.fileno()], cwd=kit.HERE)
        stack.callback(forwarder.wait)
        stack.callback(forwarder.kill)
        server.wait_for_url(f"{url}/healthz", PATIENCE)
        for host in case["hosts"]:
            kit.check(kit.mismatch(401, status(f"{url}/v1/models", host, "not-the-token"), f"a wrong token at {host}"))
            kit.check(kit.mismatch(200, status(f"{url}/v1/models", host, case["token"]), f"the token at {host}"))
        run_as_user(["respondent", "codex", "setup"], folder, env, project, "setup")
        printed = run_as_user(["codex", "exec", "-p", "respondent", "Say hello."], folder, env, project, "codex")
        kit.check(kit.mismatch(DEMO, printed.splitlines(), "the output"))
        stop(server)
    data = built.system.root / built.volumes[0][1:]
    kit.check(kit.mismatch([0o700, 1000], [data.stat().st_mode & 0o777, data.stat().st_uid], "the data directory"))
    if not list(data.iterdir()):
        raise kit.Failure("there is no data in the volume")


# The program forward.py, in a network whose loopback interface is still down.
FORWARD = "import loopback, runpy; loopback.bring_up(); runpy.run_path('programs/forward.py')"


def compose(file: Path, env: dict) -> dict:
    """The only service of a compose file, with the variables of this environment."""
    read = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda name: env[name[1]], file.read_text())
    done = subprocess.run([kit.VENV_PYTHON, "-c", read], input=text, capture_output=True, text=True, check=True)
    (service,) = json.loads(done.stdout)["services"].values()
    passed = {name: value or env.get(name) for name, value in service["environment"].items()}
    service["environment"] = {name: value for name, value in passed.items() if value}
    return service


def status(url: str, host: str, token: str) -> int:
    """The status of an answer to a request with this host and token."""
    request = urllib.request.Request(url, headers={"host": host, "authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def stop(server: kit.Process):
    """Ends a server as systemd, launchd and Docker do: it must end with exit code 0."""
    first = server.child.pid
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    os.kill(int(children[0]) if children else first, signal.SIGTERM)
    kit.check(kit.mismatch(0, server.child.wait(PATIENCE), "the exit code of the server"))


# Promise: The unit of systemd and the job of launchd start the program that a user has installed,
# with the keys of `keys.env`, and stopping it is no failure.
def service(case: dict, folder: Path):
    """A service starts the program that a user has installed, with the keys of its file, and can be stopped."""
    home, _, _ = loopback.user(folder)
    installed = home / case["installed"]
    installed.parent.mkdir(parents=True)
    shutil.copy(kit.binary(), installed)
    keys = home / ".config/respondent/keys.env"
    keys.parent.mkdir(parents=True)
    keys.write_text("MOONSHOT_API_KEY=sk-of-the-service\n")
    argv, env = SERVICES[case["file"]](PACKAGING / case["file"], home)
    with kit.Process(argv, folder / "server.log", env=env, cwd=home) as server:
        server.wait_for_url(f"{loopback.SERVER}/healthz", PATIENCE)
        with urllib.request.urlopen(f"{loopback.SERVER}/v1/models") as reply:
            listed = [model["id"] for model in json.load(reply)["data"]]
        kit.check(kit.mismatch(["kimi-k3"], listed, "the models"))
        stop(server)
    for name in case.get("leaves", []):
        if not (home / name).exists():
            raise kit.Failure(f"there is no {name}")


def systemd(file: Path, home: Path) -> tuple[list, dict]:
    """The command of a unit of systemd, and its environment. systemd itself judges the file, if it is installed."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(file)
    settings = {key: value.replace("%h", str(home)) for key, value in unit["Service"].items()}
    program = shutil.which(settings["ExecStart"], path=settings["ExecSearchPath"])
    if not program:
        raise kit.Failure(f"{file} does not lead to the program")
    keys = Path(settings["EnvironmentFile"].removeprefix("-"))
    env |= dict(line.split("=", 1) for line in keys.read_text().splitlines())
    if shutil.which("systemd-analyze"):
        judged = ["systemd-analyze", "--user", "verify", "--man=no", file]
        judge = env | {"XDG_RUNTIME_DIR": str(home)}
        said = subprocess.run(judged, env=judge, capture_output=True, text=True).stderr.splitlines()
        # It looks for the program in the folders of the system alone, whatever the unit says.
        missing = "Command respondent is not executable: No such file or directory"
        kit.check(kit.mismatch([], [line for line in said if missing not in line], "what systemd says of the unit"))
    return [program], env


def launchd(file: Path, home: Path) -> tuple[list, dict]:
    """The command of a job of launchd, and the environment that launchd gives it."""
    job = plistlib.loads(file.read_bytes())
    return job["ProgramArguments"], {"HOME": str(home), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}


SERVICES = {"systemd/respondent.service": systemd, "launchd/respondent.plist": launchd}
KINDS = {"wheel": wheel, "deb": deb, "image": image, "service": service} | installers.KINDS

if __name__ == "__main__":
    loopback.main(run_alone)
