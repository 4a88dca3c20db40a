#!/usr/bin/env python3
"""The suites of other projects on the proxy: suites.py [--keep] [filter]; not in CI

Installs pinned packages from their registries into one folder ($SUITES_PACKAGES, else suites/.venv), which the next
run uses again, starts the proxy ($RESPONDENT_BIN, else target/release/respondent) before a scripted model
(suites/brain.py), and runs the tests that the packages ship, or short programs on their public API where they ship
none. Prints the tests that were left out, each with its reason, what failed, and a table. Exits with 1 when a test
failed, a suite had no test that passed, or the model refused a request.
"""

import argparse
import html
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import xml.etree.ElementTree as xml
from pathlib import Path

import kit

HERE = kit.HERE / "suites"
sys.path.insert(0, str(HERE))
from brain import Brain  # noqa: E402

PACKAGES = Path(os.environ.get("SUITES_PACKAGES", HERE / ".venv")).resolve()
PYTEST = ["pytest==9.2.0", "pytest-asyncio==1.5.0", "anyio==4.16.0"]
OPENAI = "openai==3.57.0"
LANGCHAIN = ["langchain-openai==1.7.4", "langchain-tests==1.1.9", "langchain==1.5.2", OPENAI]
SOURCES = PACKAGES / "langchain/sources/libs/langchain_openai-1.7.4"
IN_LANGCHAIN = SOURCES / "tests/integration_tests/chat_models"

# What is installed for each suite that pytest runs, and the tests.
PYTHON = {
    "langchain-tests": (LANGCHAIN, f"{IN_LANGCHAIN}/test_responses_standard.py::TestOpenAIResponses"),
    "langchain-openai": (LANGCHAIN, f"{IN_LANGCHAIN}/test_responses_api.py"),
    "openai-agents": (["openai-agents==0.24.0", OPENAI], "test_agents.py"),
    "pydantic-ai": (["pydantic-ai-slim[openai]==2.68.0", OPENAI], "test_pydantic_ai.py"),
    "haystack": (["haystack-ai==3.4.1", OPENAI], "test_haystack.py"),
    "strands": (["strands-agents[openai]==1.62.0"], "test_strands.py"),
    "llamaindex": (["llama-index-llms-openai==0.8.3"], "test_llamaindex.py"),
    "semantic-kernel": (["semantic-kernel==1.45.0", OPENAI], "test_semantic_kernel.py"),
}
# Suites in JavaScript, on the packages of package.json.
NODE = {"agents-js": "agents.test.mjs", "ai-sdk": "ai_sdk.test.mjs"}

# The provider is like OpenAI: what it takes, and which of its models reason.
REASONING = "gpt-5 gpt-5-nano gpt-5.1 gpt-5.2 gpt-5.4 gpt-5.6-luna gpt-6-astra o4-mini".split()
PROVIDER = """[providers.brain.quirks]
max_tokens_field = "max_completion_tokens"
reasoning_control = "effort"
verbosity = true
strict_tools = true
service_tier = true
files = true
""" + "".join(f'[[providers.brain.models]]\nid = "{model}"\nimages = true\nreasoning = ["low", "medium", "high"]\n' for model in REASONING)

# Requests whose answers are read with the types of async-openai and judged by the strict checker.
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather in a city.", "parameters": CITY, "strict": True}
ASK = "How is the weather in Ghent?"
ASYNC_OPENAI = {
    "text": {"input": "Hello"},
    "messages": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}], "instructions": "Be brief."},
    "reasoning": {"input": "Why?", "reasoning": {"effort": "low", "summary": "auto"}},
    "encrypted": {"input": "Why?", "reasoning": {"effort": "low"}, "store": False, "include": ["reasoning.encrypted_content"]},
    "length": {"input": "Tell me 100 words.", "max_output_tokens": 16},
    "logprobs": {"input": "Hello", "top_logprobs": 2, "include": ["message.output_text.logprobs"]},
    "function": {"input": ASK, "tools": [WEATHER], "metadata": {"a": "b"}},
    "forced": {"input": "Hello", "tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}},
    "custom": {"input": "Use the tool.", "tools": [{"type": "custom", "name": "exec", "description": "Runs code.", "format": {"type": "text"}}]},
    "shell": {"input": "Use the tool.", "tools": [{"type": "local_shell"}]},
    "schema": {"input": "In Ghent", "text": {"format": {"type": "json_schema", "name": "city", "strict": True, "schema": CITY}}},
    "search": {"input": ASK, "tools": [WEATHER | {"defer_loading": True}, {"type": "tool_search"}]},
}


def venv_of(suite: str) -> Path:
    return PACKAGES / ("langchain" if suite.startswith("langchain") else suite)


def install(suite: str, packages: list[str]):
    """The packages in a venv of their own, because those of different suites need different versions of each other."""
    venv = venv_of(suite)
    wanted = " ".join([*PYTEST, *packages])
    stamp = venv / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {' '.join(packages)}", flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([kit.python(), "-m", "venv", venv], check=True)
    pip = [venv / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--prefer-binary", *PYTEST, *packages], check=True)
    if packages is LANGCHAIN:
        subprocess.run([*pip, "download", "--no-deps", "--no-binary", ":all:", "-d", venv / "sources", packages[0]], check=True)
        for archive in (venv / "sources").glob("*.tar.gz"):
            with tarfile.open(archive) as packed:
                packed.extractall(SOURCES.parent, filter="data")
        # One of its tests asks about the README of the repository that the sources are taken from.
        (venv / "README.md").write_text("A framework for programs with language models.\n" * 50)
    stamp.write_text(wanted)


def run(argv, report: Path, folder: Path, env: dict, cwd: Path) -> list[xml.Element]:
    """Runs a program that writes a JUnit report, and returns its test cases."""
    _, out, err = kit.run_program(argv, folder, env, 900, report.stem, cwd)
    cases = list(xml.parse(report).iter("testcase")) if report.exists() else []
    if not cases:
        raise kit.Failure(f"no test ran:\n{out[-2000:]}{err[-2000:]}")
    return cases


def run_python(suite: str, folder: Path, env: dict) -> list[xml.Element]:
    packages, tests = PYTHON[suite]
    install(suite, packages)
    report = folder / f"{suite}.xml"
    argv = [venv_of(suite) / "bin/python", "-m", "pytest", "-q", "-c", HERE / "pytest.ini", "--noconftest", "-p", "no:cacheprovider"]
    argv += ["-p", "no:recording", "-p", "no:socket", "-p", "left_out", f"--junitxml={report}", tests]
    if suite.startswith("langchain"):
        argv += ["-p", "offline", "--rootdir", SOURCES]
    return run(argv, report, folder, env | {"PYTHONPATH": str(HERE), "SUITE": suite}, SOURCES if suite.startswith("langchain") else HERE)


def run_node(suite: str, folder: Path, env: dict) -> list[xml.Element]:
    """A copy of the tests beside their packages, where node looks for them."""
    packages = PACKAGES / "node"
    stamp, wanted = packages / "installed", (kit.HERE / "package-lock.json").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print("installing the packages of package.json", flush=True)
        packages.mkdir(parents=True, exist_ok=True)
        for name in (".npmrc", "package.json", "package-lock.json"):
            shutil.copy(kit.HERE / name, packages)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=packages, check=True)
        stamp.write_text(wanted)
    report = folder / f"{suite}.xml"
    node = kit.need(Path(shutil.which("node") or "/node"), "node")
    argv = [node, "--test", "--test-reporter=junit", f"--test-reporter-destination={report}", shutil.copy(HERE / NODE[suite], packages)]
    return run(argv, report, folder, env, packages)


def run_async_openai(proxy: kit.Proxy, folder: Path) -> list[xml.Element]:
    """Each request whole, read again, streamed, and in the background, as the client in Rust reads them."""
    cases = []
    for name, body in ASYNC_OPENAI.items():
        for way in ("whole", "streamed", "background"):
            more = {"stream": way != "whole", "background": way == "background"} | ({"store": True} if way == "background" else {})
            request = urllib.request.Request(f"{proxy.base_url}/responses", json.dumps({"model": "gpt-4o"} | body | more).encode(), {"content-type": "application/json"})
            case = xml.Element("testcase", name=f"{name}, {way}")
            cases.append(case)
            answer = folder / f"{name}-{way}.answer"
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    answer.write_bytes(reply.read())
            except OSError as error:
                xml.SubElement(case, "failure", message=str(error))
                continue
            checked = subprocess.run([kit.kit_program(), "check", answer], capture_output=True, text=True, timeout=60, env=kit.plain_env(folder))
            if checked.returncode:
                xml.SubElement(case, "failure", message=checked.stderr)
    return cases


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("filter", nargs="?", default="")
    options.add_argument("--keep", action="store_true", help="leave the folder with the outputs and reports")
    chosen = options.parse_args()
    suites = [suite for suite in [*PYTHON, *NODE, "async-openai"] if chosen.filter in suite]
    if not suites:
        options.error(f"no suite has {chosen.filter!r} in its name")
    folder = Path(tempfile.mkdtemp(prefix="respondent-suites-"))
    failed, left_out, rows = [], [], []
    brain = Brain()
    with kit.Proxy(folder, brain.base_url, provider="brain", more=PROVIDER) as proxy:
        env = kit.plain_env(folder) | dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), proxy.base_url) | {
            "OPENAI_API_KEY": "any",
            # Whatever would reach the internet fails at once.
            **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9"),
            **dict.fromkeys(("HAYSTACK_TELEMETRY_ENABLED", "LANGSMITH_TRACING"), "false"),
        }  # fmt: skip
        for suite in suites:
            cases = []
            try:
                if suite == "async-openai":
                    cases = run_async_openai(proxy, folder)
                else:
                    cases = (run_python if suite in PYTHON else run_node)(suite, folder, env)
            except (kit.Failure, kit.NotInstalled) as error:
                failed.append(f"{suite}: {error}")
            wrong = [(case, child) for case in cases for child in case if child.tag in ("failure", "error")]
            left = [(case, child) for case in cases for child in case if child.tag == "skipped"]
            failed += [f"{suite}: {case.get('name')}: {html.unescape(child.get('message') or child.text or '')[:1200]}" for case, child in wrong]
            left_out += [f"{suite}: {case.get('name')}: {child.get('message')}" for case, child in left]
            passed = len(cases) - len(wrong) - len(left)
            failed += [f"{suite}: none of its {len(cases)} tests passed"] if cases and not passed else []
            rows.append((suite, len(cases), passed, len(left), len(wrong)))
            print(f"{suite}: {passed} passed, {len(left)} left out, {len(wrong)} failed", flush=True)
    refused = [f"the model refused a request: {refusal}" for refusal in brain.refusals]
    print("\nLeft out:", *left_out, sep="\n  ")
    print("\nFailed:", *failed, *refused, sep="\n  ")
    print(f"\n{'suite':18} {'tests':>6} {'passed':>7} {'left out':>9} {'failed':>7}")
    for suite, *numbers in rows:
        print("{:18} {:6} {:7} {:9} {:7}".format(suite, *numbers))
    print(f"{brain.requests} requests to the model, {len(refused)} refused")
    if chosen.keep:
        print(f"the outputs are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed or refused else 0


if __name__ == "__main__":
    sys.exit(main())
