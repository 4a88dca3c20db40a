"""Cases in which llmock is the upstream and checks the proxy as its client.

A case has the faults (`behaviors` of llmock's scenario, `serve` with flags of its server) and the expected
end of each turn: an HTTP status, or the status of the response. With `again`, a failed turn is repeated,
as clients do when an answer breaks off. At the end `llmock report` must find no errors.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path

import kit

LLMOCK = kit.VENV_PYTHON.parent / "llmock"


def run(case: dict, folder: Path):
    kit.need(LLMOCK, "llmock")
    with Llmock(folder, case.get("serve", [])) as llmock, kit.Proxy(folder, f"{llmock.origin}/v1", more=case.get("provider", "")) as proxy:
        if case["behaviors"]:
            llmock.call("POST", "scenario", {"behaviors": case["behaviors"]})
        ends = [end for _ in range(case.get("turns", 1)) for end in turn(llmock, proxy, case.get("again", False))]
        kit.check(kit.mismatch(case["expect"]["ends"], ends, "ends"))
        verdict = llmock.call("GET", "verdict")
        seen = {"attempts": verdict["attempts"], "faults": verdict["faults_injected"]}
        kit.check(kit.mismatch({key: case["expect"][key] for key in seen if key in case["expect"]}, seen))
        (folder / "work").mkdir()
        argv = [LLMOCK, "report", "--strict", "--url", llmock.origin]
        code, stdout, stderr = kit.run_program(argv, folder, kit.plain_env(folder), 60, "report")
        if code != 0:
            raise kit.Failure(f"the verdict is not clean:\n{stdout}{stderr}")
        return f"{seen['attempts']} attempts, {seen['faults']} faults"


class Llmock(kit.Process):
    def __init__(self, folder: Path, flags: list):
        port = kit.free_port()
        # An echoed answer is long enough for every fault; the default answers vary in length.
        argv = [LLMOCK, "serve", "--port", port, "--log-level", "warning", "--response-style", "echo", *flags]
        super().__init__(argv, folder / "llmock.log", env=kit.plain_env(folder), cwd=folder)
        self.origin = f"http://127.0.0.1:{port}"
        self.wait_for_url(f"{self.origin}/_llmock/requests", 30)

    def call(self, method: str, path: str, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.origin}/_llmock/{path}", data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)


def turn(llmock: Llmock, proxy: kit.Proxy, again: bool) -> list:
    """Plays a turn and its repetitions, and returns how each of them ended."""
    ends = []
    while True:
        ends.append(send_turn(proxy))
        if not again or ends[-1] == "completed" or len(ends) > 3:
            return ends
        # Wait until no request is in progress: llmock counts a request that overlaps with the one before
        # as another request, not as its repetition.
        llmock.call("GET", "verdict")


def send_turn(proxy: kit.Proxy):
    """Sends a turn, and returns the status of the response, or the HTTP status of an error."""
    body = json.dumps({"model": proxy.first_model(), "input": "Tell me a story.", "stream": True}).encode()
    headers = {"content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{proxy.base_url}/responses", body, headers), timeout=60) as reply:
            lines = reply.read().decode().splitlines()
    except urllib.error.HTTPError as error:
        return error.code
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return events[-1]["response"]["status"]
