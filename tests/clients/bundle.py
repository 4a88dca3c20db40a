"""Bundles the captured turns of a client, replays them from the file alone, and searches the bundle for secrets.

A case contains canaries as `@name@`, or in other encodings as `@name:base64@` and `@name:percent@`.
"""

import base64
import io
import re
import subprocess
import tarfile
from pathlib import Path
from urllib.parse import quote

import kit

# Every canary looks like a key, because nothing else can be recognised as a secret in a prompt.
CANARIES = {
    "key": "sk-canary-key/+7Qw2Zr8Lm5Xv1Nd9Hc4Tb",
    "token": "sk-canary-token-3Pf6Gj2Wk8Ys5Vn1Rm7Dq",
    "header": "sk-canary-header-9Bx4Ft7Lc2Zh6Kp3Sw8",
    "prompt": "sk-canary-prompt-5Mv8Jd1Rq4Tg7Xn2Yc6",
    "error": "sk-canary-error-2Kz7Wp4Hs9Lb3Vf6Qt8",
}

UNPACK = "import sys, zstandard; zstandard.ZstdDecompressor().copy_stream(open(sys.argv[1], 'rb'), sys.stdout.buffer)"

FORMS = {
    "": lambda secret: secret,
    ":base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    ":percent": lambda secret: quote(secret, safe=""),
}


def planted(value):
    """The case with its placeholders replaced by canaries."""
    if isinstance(value, dict):
        return {key: planted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [planted(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"@(\w+)(:\w+)?@", lambda found: FORMS[found[2] or ""](CANARIES[found[1]]), value)
    return value


def check(wanted: dict, proxy: kit.Proxy, folder: Path, shown_error: str):
    """Bundles the failed turn and all turns, replays them, and searches everything for secrets."""
    for name, turns, *selection in (("failed", 1), ("all", wanted["turns"], "--since", "1h")):
        file = replayed(proxy, folder, name, turns, *selection)
        shown = command(folder, "show-" + name, "bundle", "show", file)
        for part, content in unpacked(file).items():
            free_of_canaries(f"{part} of {name}", content)
        free_of_canaries(f"what `bundle show` prints of {name}", shown.encode())
    free_of_canaries("the log", proxy.text().encode())
    free_of_canaries("the error that the user sees", shown_error.encode())
    for path in (folder / "data").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if content.startswith(b"\x28\xb5\x2f\xfd"):
                content = b"".join(unpacked(path).values())
            free_of_canaries(str(path), content)


def replayed(proxy: kit.Proxy, folder: Path, name: str, turns: int, *selection: str) -> Path:
    """Bundles so many turns and replays them from the file alone; the replays must be equal. Returns the file."""
    (folder / "nowhere").mkdir(exist_ok=True)
    file = folder / f"{name}.bundle"
    command(folder, "create-" + name, "bundle", "create", *selection, "--output", file, *proxy.flags)
    output = command(folder, "replay-" + name, "replay", file)
    if (equal := len(re.findall(r"^turn \d+.*: equal$|^equal$", output, re.M))) != turns:
        raise kit.Failure(f"{equal} of {turns} turns are equal:\n{output}")
    return file


def command(folder: Path, name: str, *arguments) -> str:
    """Runs a command of the proxy in an empty folder, with an empty home, and returns its output."""
    home = folder / "nowhere"
    done = subprocess.run(
        [str(argument) for argument in (kit.binary(), *arguments)],
        cwd=home,
        env=kit.plain_env(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (folder / f"{name}.out").write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        raise kit.Failure(f"{name} exited with {done.returncode}")
    return done.stdout


def unpacked(file: Path) -> dict[str, bytes]:
    """The files in a bundle."""
    python = kit.need(kit.VENV_PYTHON, "zstandard")
    packed = subprocess.run([python, "-c", UNPACK, file], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def free_of_canaries(where: str, content: bytes):
    """Fails if the content contains a canary in any encoding."""
    for name, secret in CANARIES.items():
        for form in forms(secret):
            if form in content:
                raise kit.Failure(f"the canary {name} is in {where}, as {form.decode()}")


def forms(secret: str) -> set[bytes]:
    """The secret in plain, percent-encoded, and as base64 at any offset of a longer text."""
    plain = secret.encode()
    every_byte = "".join(f"%{byte:02X}" for byte in plain)
    found = {plain, quote(secret, safe="").encode(), every_byte.encode(), every_byte.lower().encode()}
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # The first and last characters hold bits of the surrounding text.
            inner = encode(b"\0" * before + plain).rstrip(b"=")[4 if before else 0 : -2]
            found.add(inner)
    return found
