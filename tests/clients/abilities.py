#!/usr/bin/env python3
"""What Codex can do with which class of model: abilities.py [--jobs N]; not in CI, whose run.py has the same cases

Runs the cases that abilities.json names, each on the kinds of upstream that it has, and prints a table: `chat` is a model
over Chat Completions, `responses` one over the whole Responses API, `functions` one over a Responses API that has
functions alone. A dash is a kind on which the case has nothing of its own to show. Needs what run.py needs. Exits with
1 when a case failed or does not exist.
"""

import argparse
import collections
import concurrent.futures
import json
import sys

import kit
import run

KINDS = ["chat", "responses", "functions"]
MARKS = {"ok": "yes", "FAILED": "NO", "SKIPPED": "skipped", "MISSING": "skipped"}


def kind_of(case: dict) -> str:
    """The column of a case. One with several providers, or of one by name, counts as chat."""
    return case["wire"] if case["wire"] in KINDS else "chat"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--jobs", type=int, default=2)
    jobs = options.parse_args().jobs
    abilities = json.loads((kit.HERE / "abilities.json").read_text())
    by_name = collections.defaultdict(list)
    for name, case in run.load("codex/"):
        by_name[name.split("@")[0]].append((name, case))
    wanted = {name for names in abilities["shown"].values() for name in names}
    if unknown := sorted(wanted - set(by_name)):
        print(f"no case is named {', '.join(unknown)}")
        return 1
    cases = [found for name in sorted(wanted) for found in by_name[name]]
    verdicts, failed = collections.defaultdict(dict), 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(run.run_case, name, case, False): (name, case) for name, case in cases}
        for finished in concurrent.futures.as_completed(runs):
            (name, case), (_, verdict, detail, _) = runs[finished], finished.result()
            verdicts[name.split("@")[0]][kind_of(case)] = verdict
            if verdict == "FAILED":
                failed += 1
                print(f"FAILED  {name}: {detail}", flush=True)
    print(f"| Codex {codex_version()} | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
    for ability, names in abilities["shown"].items():
        of_kinds = [{verdicts[name][kind] for name in names if kind in verdicts[name]} for kind in KINDS]
        marks = [", ".join(sorted(MARKS[verdict] for verdict in found)) or "-" for found in of_kinds]
        print(f"| {ability} | {' | '.join(marks)} |")
    for ability, why in abilities["not_allowed_by_codex"].items():
        print(f"| {ability} | {why} |" + " |" * (len(KINDS) - 1))
    print(f"{len(abilities['shown'])} abilities in {len(cases)} cases, {failed} failed")
    return 1 if failed else 0


def codex_version() -> str:
    return json.loads((kit.HERE / "package.json").read_text())["dependencies"]["@openai/codex"]


if __name__ == "__main__":
    sys.exit(main())
