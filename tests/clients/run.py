#!/usr/bin/env python3
"""Acceptance tests with real client programs: run.py [--jobs N] [--strict] [--keep] [filter]

Needs the proxy ($RESPONDENT_BIN, else target/release/respondent) with respondent-kit beside it, and the
programs that install.sh installs. Prints a line for each case, and last the time of each client and the
totals. Exits with 1 when a case failed, or with --strict when its program is not installed. Each case has
its own temporary folder, which --keep leaves in place.
"""

import argparse
import collections
import concurrent.futures
import json
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import ai_sdk
import codex
import deadprovider
import deployment
import doctor
import figures
import judged
import kit
import llamacpp
import open_responses
import openai_python
import openapi
import packages
import readme
import search
import stored
import trouble

CLIENTS = {
    "ai_sdk": ai_sdk,
    "codex": codex,
    "deadprovider": deadprovider,
    "deployment": deployment,
    "doctor": doctor,
    "figures": figures,
    "judged": judged,
    "llamacpp": llamacpp,
    "open_responses": open_responses,
    "openai": openai_python,
    "openapi": openapi,
    "packages": packages,
    "readme": readme,
    "search": search,
    "stored": stored,
    "trouble": trouble,
}


def load(filter_text: str) -> list[tuple[str, dict]]:
    """The names and contents of the cases. A file has one case, or an object with several.

    A case runs on each of its `wires`; the name of the case on another than chat ends with that one.
    """
    found = []
    for path in sorted((kit.HERE / "cases").glob("*/*.json")):
        name = f"{path.parent.name}/{path.stem}"
        content = json.loads(path.read_text())
        if "expect" in content:
            found.append((name, content))
        else:
            found += [(f"{name}/{key}", case) for key, case in content.items()]
    on_wires = [(name, case | {"wire": wire}) for name, case in found for wire in case.get("wires", ["chat"])]
    named = [(name if case["wire"] == "chat" else f"{name}@{case['wire']}", case) for name, case in on_wires]
    return [(name, case) for name, case in named if filter_text in name]


def run_case(name: str, case: dict, keep: bool) -> tuple[str, str, str, float]:
    """Runs a case and returns (name, verdict, detail, seconds)."""
    start = time.monotonic()
    verdict, detail = verdict_of(name, case, keep)
    seconds = time.monotonic() - start
    return name, verdict, detail or f"{seconds:.1f} s", seconds


def verdict_of(name: str, case: dict, keep: bool) -> tuple[str, str | None]:
    folder = Path(tempfile.mkdtemp(prefix="respondent-"))
    try:
        return "ok", CLIENTS[name.split("/")[0]].run(case, folder)
    except kit.Skip as reason:
        return "SKIPPED", str(reason)
    except kit.NotInstalled as reason:
        return "MISSING", str(reason)
    except kit.Failure as reason:
        return "FAILED", f"{reason}\n{outputs(folder)}"
    except Exception:
        return "FAILED", f"{traceback.format_exc()}\n{outputs(folder)}"
    finally:
        if keep:
            print(f"     {name} left {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def outputs(folder: Path) -> str:
    """The last output of each program of the case."""
    parts = []
    printed = [path for kind in ("out", "err", "log") for path in folder.glob(f"**/*.{kind}")]
    for path in sorted(printed):
        text = path.read_text(errors="replace")[-3000:].strip()
        if text:
            parts.append(f"--- {path.name}\n{text}")
    return "\n".join(parts)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("filter", nargs="?", default="")
    options.add_argument("--jobs", type=int, default=4)
    options.add_argument("--strict", action="store_true", help="a program that is not installed is a failure")
    options.add_argument("--keep", action="store_true", help="leave the folders of the cases")
    chosen = options.parse_args()
    if not kit.binary().exists():
        print(f"{kit.binary()} is missing: build it, or name it in RESPONDENT_BIN")
        return 2
    cases = load(chosen.filter)
    if not cases:
        print(f"no case is named like {chosen.filter!r}")
        return 2
    # The longest cases first, so that no worker starts one of them last.
    cases.sort(key=lambda named: -named[1].get("seconds", 60))
    spent = collections.Counter()
    totals = {"ok": 0, "FAILED": 0, "SKIPPED": 0, "MISSING": 0}
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        runs = [pool.submit(run_case, name, case, chosen.keep) for name, case in cases]
        for finished in concurrent.futures.as_completed(runs):
            name, verdict, detail, seconds = finished.result()
            spent[name.split("/")[0]] += seconds
            totals[verdict] += 1
            print(f"{verdict:7} {name}: {detail}", flush=True)
    print("spent: " + ", ".join(f"{client} {seconds:.0f} s" for client, seconds in spent.most_common()))
    skipped = totals["SKIPPED"] + totals["MISSING"]
    print(f"{totals['ok']} passed, {totals['FAILED']} failed, {skipped} skipped")
    return 1 if totals["FAILED"] or (chosen.strict and totals["MISSING"]) else 0


if __name__ == "__main__":
    sys.exit(main())
