#!/usr/bin/env python3
"""Generates registry/providers/*.toml: each is a handwritten head, followed by models from
public data.

    registry/import/import.py
    registry/import/import.py --check
    pip download --no-deps litellm==1.109.1 --dest /tmp/litellm
    registry/import/import.py --litellm /tmp/litellm/litellm-*.whl --models-dev api.json

heads/ID.toml     everything except the models, with the source of each quirk
models/ID.toml    the selection of models and manual corrections:
    models_dev    the provider's key in models.dev
    litellm       the provider's prefix in LiteLLM's price file
    prefer        the source to use if both differ (default "litellm")
    ids           the models, in this order
    switch        the effort levels of models whose reasoning is only on or off
    prices        false for a subscription
    [set."PATTERN"]  values for the models that match; false removes a value

The file of models.dev is its api.json. Prices are US dollars per million tokens. Without the
two files, models that are taken from them stay as they are.
The same input always gives the same bytes. The table in docs/providers.md is written, too.
--check reads no data. It checks that each provider file begins with its head and that the
table agrees with the files.
"""

import argparse
import fnmatch
import hashlib
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROVIDERS = HERE.parent / "providers"
DOCS = HERE.parent.parent / "docs" / "providers.md"
PRICES = "litellm/model_prices_and_context_window_backup.json"
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
# What the models of a file begin with.
MODELS_NOTE = "\n# Models: "
# The keys of a model in the order in which they are written.
KEYS = ["id", "name", "description", "window", "max_output", "images", "audio", "reasoning",
        "default_reasoning", "sampling", "price", "bytes_per_token"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litellm", type=Path, help="the wheel of litellm")
    parser.add_argument("--models-dev", type=Path, help="api.json of models.dev")
    parser.add_argument("--check", action="store_true", help="compare heads, write nothing")
    options = parser.parse_args()
    if options.check:
        return check()
    if bool(options.litellm) != bool(options.models_dev):
        parser.error("give both --litellm and --models-dev, or neither")
    sources = Sources(options.litellm, options.models_dev) if options.litellm else None
    for head in sorted((HERE / "heads").glob("*.toml")):
        text = head.read_text()
        selection = HERE / "models" / head.name
        if selection.exists():
            selected = tomllib.loads(selection.read_text())
            if sources or not {"models_dev", "litellm"} & selected.keys():
                text += models_text(selected, sources, head.stem)
            else:
                text += current_models_text(head.stem)
        tomllib.loads(text)
        (PROVIDERS / head.name).write_text(text)
    DOCS.write_text(docs_with_table())
    return check()


def check():
    """Checks that every provider file begins with its head and lists the selected models."""
    heads = {path.name for path in (HERE / "heads").glob("*.toml")}
    files = {path.name for path in PROVIDERS.glob("*.toml")}
    problems = [f"{name}: there is a head or a provider file alone" for name in heads ^ files]
    for name in sorted(heads & files):
        text = (PROVIDERS / name).read_text()
        if not text.startswith((HERE / "heads" / name).read_text()):
            problems.append(f"{name}: it does not begin with its head")
        selection = HERE / "models" / name
        if selection.exists():
            wanted = tomllib.loads(selection.read_text())["ids"]
            found = [model["id"] for model in tomllib.loads(text)["models"]]
            if wanted != found:
                problems.append(f"{name}: its models are not the selected ones")
    if DOCS.read_text() != docs_with_table():
        problems.append("docs/providers.md: its table is not the one of the files")
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


class Sources:
    """Both data files and their versions."""

    def __init__(self, wheel, models_dev):
        with zipfile.ZipFile(wheel) as archive:
            self.litellm = json.loads(archive.read(PRICES))
        version = re.match(r"litellm-([^-]+)-", wheel.name)
        if not version:
            sys.exit(f"{wheel.name} is not a wheel of litellm")
        raw = models_dev.read_bytes()
        data = json.loads(raw)
        self.models_dev = data.get("providers", data)
        stamp = data.get("commit") if "providers" in data else hashlib.sha256(raw).hexdigest()[:9]
        self.names = {
            "litellm": f"litellm {version[1]}",
            "models_dev": f"models.dev {stamp}",
        }

    def facts(self, selection, model):
        """The facts of models.dev and of LiteLLM about a model, with the keys of the registry."""
        provider = self.models_dev.get(selection.get("models_dev"), {})
        dev = provider.get("models", {}).get(model)
        prefix = selection.get("litellm")
        entry = None
        if prefix is not None:
            entry = self.litellm.get(f"{prefix}/{model}") or self.litellm.get(model)
            if entry and entry.get("mode") != "chat":
                entry = None
        return (from_models_dev(dev, selection) if dev else {},
                from_litellm(entry, selection) if entry else {})


def current_models_text(provider):
    """The TOML text of the models in the file of a provider."""
    path = PROVIDERS / f"{provider}.toml"
    if not path.exists():
        sys.exit(f"{provider}: its models need --litellm and --models-dev")
    _, begin, models = path.read_text().partition(MODELS_NOTE)
    return begin + models


def models_text(selection, sources, provider):
    """The TOML text of the models of a provider. Without sources, all of it is in the selection."""
    used, blocks = set(), []
    for model in selection["ids"]:
        dev, entry = sources.facts(selection, model) if sources else ({}, {})
        used |= {name for name, found in (("models_dev", dev), ("litellm", entry)) if found}
        first, second = (dev, entry) if selection.get("prefer") == "models_dev" else (entry, dev)
        # LiteLLM fills an unknown output limit with the size of the window.
        if "max_output" in dev and entry.get("max_output", 0) >= entry.get("window", 1):
            entry.pop("max_output")
        facts = {"id": model, **second, **first}
        # models.dev has names written by people and lists the effort levels of each model.
        for key in ("name", "reasoning"):
            if dev.get(key) and dev[key] != model:
                facts[key] = dev[key]
        if not selection.get("prices", True):
            facts.pop("price", None)
        for pattern, values in selection.get("set", {}).items():
            if fnmatch.fnmatchcase(model, pattern):
                facts |= values
        facts = {key: value for key, value in facts.items()
                 if value is not False or key == "sampling"}
        if not facts.get("window"):
            sys.exit(f"{provider}: nothing tells the window of {model}")
        if facts.get("name", model) == model:
            facts["name"] = title(model)
        choose_default_level(facts)
        blocks.append(model_block(facts))
    names = " and ".join(sources.names[name] for name in sorted(used))
    by = f"{names}, with the corrections of" if used else "by hand, from"
    return f"{MODELS_NOTE}{by} registry/import/models/{provider}.toml.\n" + "".join(blocks)


def choose_default_level(facts):
    """Sorts the effort levels and chooses the default from those that exist."""
    levels = [level for level in EFFORTS if level in facts.get("reasoning", [])]
    levels += [level for level in facts.get("reasoning", []) if level not in EFFORTS]
    facts["reasoning"] = levels
    wanted = [facts.get("default_reasoning"), "medium", "high", *reversed(levels)]
    facts["default_reasoning"] = next((level for level in wanted if level in levels), None)


def docs_with_table():
    """The text of docs/providers.md with the current table."""
    before, rest = DOCS.read_text().split(BEGIN, 1)
    _, after = rest.split(END, 1)
    builtin = (HERE.parent / "src/builtin.rs").read_text()
    order = re.findall(r'"([^"]+)"', re.search(r"provider_files!\[(.*?)\]", builtin, re.S)[1])
    rows = [row(name, tomllib.loads((PROVIDERS / f"{name}.toml").read_text())) for name in order
            if name not in ("sandbox", "openai-compatible")]
    head = "| id | address | key | models | what differs |\n|---|---|---|---|---|\n"
    return before + BEGIN + "\n" + head + "\n".join(rows) + "\n" + END + after


def row(name, file):
    keys = file.get("api_key_env", [])
    keys = [keys] if isinstance(keys, str) else keys
    listed = str(len(file.get("models", []))) if file.get("models") else ""
    passthrough = "any" if file.get("passthrough") else ""
    parts = differences(file.get("quirks", {}))
    if "key_header" in file:
        parts.append(f"key in the header `{file['key_header']}`")
    parts += [f"sends `{field}`" for field in file.get("body", {})]
    for family in file.get("families", []):
        matches = ", ".join(f"`{pattern}`" for pattern in family["match"])
        wire = [f"wire `{family['wire']}`"] if "wire" in family else []
        own = wire + differences(family.get("quirks", {})) + [f"sends `{field}`" for field in family.get("body", {})]
        parts.append(f"{matches}: {', '.join(own)}")
    cells = [f"`{name}`", f"`{file['base_url']}`", " or ".join(f"`{key}`" for key in keys) or "none",
             ", ".join(filter(None, [listed, passthrough])), "; ".join(parts)]
    return "| " + " | ".join(cells) + " |"


def differences(quirks):
    """Descriptions of quirks; a quirk without a description appears by its name."""
    parts = []
    for key, value in quirks.items():
        text = DESCRIPTIONS.get((key, value) if isinstance(value, (str, bool)) else key)
        if text is None:
            text = DESCRIPTIONS.get(key, f"{key} {value}")
        if text:
            listed = ", ".join(["auto", *value]) if isinstance(value, list) else value
            parts.append(text.format(listed))
    return parts


BEGIN = "<!-- table: registry/import/import.py -->"
END = "<!-- end -->"
DESCRIPTIONS = {
    ("max_tokens_field", "max_completion_tokens"): "`max_completion_tokens`",
    ("system_role", "developer"): "`developer` role",
    ("system_role", "user"): "no system role",
    ("system_role", "system"): "`system` role",
    "system_place": "",
    ("merge_user", True): "user messages joined",
    ("merge_user", False): "",
    "answer_after_tool": "an answer between tool and user",
    "call_content": "no content beside calls",
    "tool_names": "tool messages carry names",
    ("call_ids", "nine_alphanumeric"): "call ids of nine letters and digits",
    ("call_ids", "word"): "call ids of letters, digits, `_`, `-`",
    "image_urls": "images as data only",
    "image_needs_text": "text beside images",
    "files": "takes files",
    "tool_choice": "tool_choice: {}",
    ("web_search", "echoed_call"): "searches by `$web_search`",
    ("web_search", "request_tool"): "searches by the tool `web_search`",
    ("web_search", "server_tool"): "searches by a tool of its own",
    ("web_search", "none"): "no search of its own",
    ("parallel_tool_calls", False): "no `parallel_tool_calls`",
    ("parallel_tool_calls", True): "`parallel_tool_calls`",
    "strict_tools": "`strict` tools",
    "schema": "schemas rewritten",
    "response_format": "response_format: {}",
    "default_max_tokens": "asks for {} tokens of output",
    "max_temperature": "temperature up to {}",
    "penalties": "no penalties",
    "logprobs": "no logprobs",
    "verbosity": "`verbosity`",
    "service_tier": "`service_tier`",
    "stream_usage": "usage unasked",
    "prompt_cache_key": "`prompt_cache_key`",
    "cache_control": "cache marks",
    ("reasoning_control", "none"): "thinking not steered",
    ("reasoning_control", "effort"): "`reasoning_effort`",
    ("reasoning_control", "thinking"): "`thinking` on or off",
    ("reasoning_control", "thinking_and_effort"): "`thinking` and `reasoning_effort`",
    ("reasoning_control", "enable_thinking"): "`enable_thinking`",
    ("reasoning_control", "reasoning"): "`reasoning.effort`",
    ("reasoning_control", "template_switch"): "`chat_template_kwargs.enable_thinking`",
    ("reasoning_replay", "none"): "reasoning does not go back",
    "reasoning_replay": "reasoning goes back as `{}`",
    ("reasoning_required", "calls"): "and must with calls",
    ("reasoning_required", "always"): "and must always",
    ("reasoning_required", "never"): "",
    ("call_extra", "kept"): "thought signatures kept",
    ("call_extra", "required"): "thought signatures required",
    "think_tags": "`<think>` in text is reasoning",
    "usage_apart": "usage lacks reasoning tokens",
}


def from_models_dev(model, selection):
    limit = model.get("limit", {})
    facts = {
        "name": model.get("name"),
        # Input and output share the context. If an input limit is listed, it is reached first.
        "window": limit.get("input") or limit.get("context"),
        "max_output": limit.get("output"),
        "images": "image" in model.get("modalities", {}).get("input", []),
        "audio": "audio" in model.get("modalities", {}).get("input", []),
        "price": price(models_dev_prices(model.get("cost", {}))),
    }
    if model.get("temperature") is False:
        facts["sampling"] = False
    facts["reasoning"] = models_dev_levels(model, selection)
    return {key: value for key, value in facts.items() if value or key == "sampling"}


def models_dev_levels(model, selection):
    options = {option["type"]: option for option in model.get("reasoning_options") or []}
    if "effort" in options:
        levels = options["effort"]["values"]
        off = "toggle" in options and "none" not in levels and "none" in selection.get("switch", [])
        return ["none", *levels] if off else levels
    return selection.get("switch", []) if "toggle" in options else []


def models_dev_prices(cost):
    tiers = [(tier["tier"]["size"], tier) for tier in cost.get("tiers", [])]
    names = {"input": "input", "cached_input": "cache_read",
             "cache_write": "cache_write", "output": "output"}
    read = lambda table: {ours: table.get(theirs) for ours, theirs in names.items()}
    return read(cost), [(above, read(tier)) for above, tier in tiers]


def from_litellm(model, selection):
    facts = {
        "window": model.get("max_input_tokens"),
        "max_output": model.get("max_output_tokens"),
        "images": model.get("supports_vision"),
        "audio": model.get("supports_audio_input"),
        "price": price(litellm_prices(model)),
        "reasoning": litellm_levels(model, selection),
    }
    if model.get("supports_sampling_params") is False:
        facts["sampling"] = False
    return {key: value for key, value in facts.items()
            if value or (value is False and key in ("sampling", "images"))}


def litellm_levels(model, selection):
    if model.get("reasoning_effort_levels"):
        return model["reasoning_effort_levels"]
    if not model.get("supports_reasoning"):
        return []
    listed = {level for level in EFFORTS if model.get(f"supports_{level}_reasoning_effort")}
    if listed:
        return sorted(listed | {"low", "medium", "high"}, key=EFFORTS.index)
    return selection.get("switch", [])


def litellm_prices(model):
    names = {"input": "input_cost_per_token", "cached_input": "cache_read_input_token_cost",
             "cache_write": "cache_creation_input_token_cost", "output": "output_cost_per_token"}

    def read(table, suffix=""):
        found = {ours: table.get(theirs + suffix) for ours, theirs in names.items()}
        return {name: None if cost is None else cost * 1e6 for name, cost in found.items()}

    pricing = model.get("tiered_pricing")
    if pricing:
        return read(pricing[0]), [(int(tier["range"][0]), read(tier)) for tier in pricing[1:]]
    ends = {re.fullmatch(r"input_cost_per_token(_above_(\d+)k_tokens)", key) for key in model}
    ends = sorted((int(end[2]) * 1000, end[1]) for end in ends if end)
    return read(model), [(above, read(model, end)) for above, end in ends]


def price(prices):
    """A price table; None if the price of input or output is unknown or both are free."""
    base, tiers = prices
    if base["input"] is None or base["output"] is None:
        return None
    if not base["input"] and not base["output"]:
        return None
    table = {key: rounded(value) for key, value in base.items() if value is not None}
    # A cached price of zero is an unknown one, and cache writes cost more than input.
    if not table.get("cached_input"):
        table.pop("cached_input", None)
    if table.get("cache_write", 0) <= table["input"]:
        table.pop("cache_write", None)
    tiers = [
        {"above": above, "input": rounded(tier["input"]),
         **({"cached_input": rounded(tier["cached_input"])} if tier["cached_input"] else {}),
         "output": rounded(tier["output"])}
        for above, tier in tiers
        if tier["input"] is not None and tier["output"] is not None
    ]
    # Drop tiers with the base price.
    tiers = [tier for tier in tiers
             if (tier["input"], tier["output"]) != (table["input"], table["output"])]
    return {**table, **({"tiers": tiers} if tiers else {})}


def rounded(value):
    return float(f"{value:.6g}")


def title(model):
    """A readable name made from an id."""
    last = model.rsplit("/", 1)[-1]
    return " ".join(word if any(c.isupper() for c in word) else word.upper() if word == "gpt" else word.capitalize()
                    for word in re.split(r"[-_ ]", last))


def model_block(facts):
    lines = [f"{key} = {toml(facts[key])}" for key in KEYS
             if facts.get(key) not in (None, [], "") and (facts[key] is not False or key == "sampling")]
    return "\n[[models]]\n" + "\n".join(lines) + "\n"


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0") + ("0" if value == int(value) else "")
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + " }"
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
