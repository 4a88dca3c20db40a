"""Generates long outputs of every kind for tasks.py: lines with needles at given positions, the same in every run."""

import base64
import hashlib
import json
import random

WORDS = "cache queue shard token route batch frame index probe pool lease quota trace merge flush guard retry window stream vector".split()


def output(step: dict):
    """The output of the command or tool of a step: a string, or a list of parts."""
    content = body(step)
    form = step.get("form", "plain")
    if form == "plain":
        return content
    if form == "exec":
        return f"{HEADER.format(tokens=len(content.encode()) // 4)}{content}"
    if form == "codex":
        return codex_cut(content)
    if form == "mcp":
        return [{"type": "input_text", "text": "Wall time: 0.0478 seconds\nOutput:"}, {"type": "input_text", "text": content}]
    raise ValueError(form)


HEADER = "Chunk ID: 0652e2\nWall time: 0.4000 seconds\nProcess exited with code 0\nOriginal token count: {tokens}\nOutput:\n"


def codex_cut(content: str, limit=40_000) -> str:
    """Truncates the output of a command as Codex 0.169 does: half of the bytes from each end."""
    data = content.encode()
    if len(data) <= limit:
        return HEADER.format(tokens=len(data) // 4) + content
    head, tail = data[: limit // 2].decode(errors="ignore"), data[-limit // 2 :].decode(errors="ignore")
    tokens = len(data) // 4
    lines = len(content.splitlines())
    warning = f"Warning: truncated output (original token count: {tokens})\nTotal output lines: {lines}\n\n"
    return f"{HEADER.format(tokens=tokens)}{warning}{head}…{tokens - limit // 4} tokens truncated…{tail}"


def body(step: dict) -> str:
    """Lines of the step's fill up to its size; each needle replaces the line at its fraction of the whole."""
    fill, size = FILLS[step["fill"]], step["size"]
    rng = random.Random(f"{step['fill']} {size} {step.get('seed', 0)}")
    lines, reached = [], 0
    while reached < size:
        line = fill(rng, len(lines))
        lines.append(line)
        reached += len(line) + 1
    for needle in step.get("needles", []):
        lines[int(len(lines) * needle["at"])] = needle["text"]
    before, between, after = FRAMES.get(step["fill"], ("", "\n", "\n"))
    return before + between.join(lines) + after


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def log(rng, at):
    level = rng.choice(["INFO", "INFO", "INFO", "DEBUG", "WARN"])
    return f"2026-03-{at // 2000 % 28 + 1:02}T{at // 60 % 24:02}:{at % 60:02}:{rng.randrange(60):02}Z {level} {rng.choice(WORDS)}.{rng.choice(WORDS)}: {words(rng, 6)} id={rng.randrange(10**8)}"


def build(rng, at):
    name = f"{rng.choice(WORDS)}-{rng.choice(WORDS)}"
    return f"   Compiling {name} v{rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(20)} (/src/crates/{name})"


def tests(rng, at):
    return f"test {rng.choice(WORDS)}::{rng.choice(WORDS)}::case_{at:05} ... ok"


def grep(rng, at):
    return f"src/{rng.choice(WORDS)}/{rng.choice(WORDS)}.rs:{rng.randrange(1, 900)}:    let {rng.choice(WORDS)} = {rng.choice(WORDS)}::{rng.choice(WORDS)}({rng.randrange(999)});"


def source(rng, at):
    return f"    fn {rng.choice(WORDS)}_{at}(&self, {rng.choice(WORDS)}: u32) -> u32 {{ self.{rng.choice(WORDS)} + {rng.randrange(9999)} }}"


def record(rng, at):
    return json.dumps({"id": at, "name": words(rng, 2), "state": rng.choice(["ready", "queued", "done"]), "score": rng.randrange(10**6), "tags": words(rng, 3).split()})


def row(rng, at):
    return f"{at},{rng.choice(WORDS)},{rng.randrange(10**6)},{rng.random():.6f},{words(rng, 2)},2026-0{rng.randrange(1, 9)}-1{rng.randrange(9)}"


def html(rng, at):
    return f'<li class="{rng.choice(WORDS)}-item"><a href="https://example.org/{rng.choice(WORDS)}/{at}">{words(rng, 5)}</a><p>{words(rng, 9)}</p></li>'


def results(rng, at):
    return f"[{at + 1}] {words(rng, 6).title()}\nhttps://{rng.choice(WORDS)}.example.org/{rng.choice(WORDS)}/{at}\n{words(rng, 30)}.\n"


def minified(rng, at):
    name = rng.choice("abcdefghijklm") + str(at)
    return f"function {name}(e,t){{return e.{rng.choice(WORDS)}?t[{rng.randrange(999)}]:{rng.choice('nopqrst')}(e,{rng.randrange(99)})}}"


def prose(rng, at):
    return f"{'## ' if at % 12 == 0 else ''}{words(rng, 22)}."


def chinese(rng, at):
    return "第" + str(at) + "行：" + "".join(rng.choice("系统日志缓存队列请求响应连接超时模型窗口令牌上游下游") for _ in range(30))


def stack(rng, at):
    return f"\tat org.example.{rng.choice(WORDS)}.{rng.choice(WORDS).title()}.{rng.choice(WORDS)}({rng.choice(WORDS).title()}.java:{rng.randrange(1, 999)})"


def diff(rng, at):
    if at % 20 == 0:
        return f"diff --git a/src/{rng.choice(WORDS)}.py b/src/{rng.choice(WORDS)}.py\n@@ -{at},7 +{at},7 @@"
    return f"{rng.choice([' ', ' ', '+', '-'])}    {rng.choice(WORDS)} = {rng.choice(WORDS)}({rng.randrange(999)})"


def yaml(rng, at):
    return f"service_{at}:\n  image: registry.example.org/{rng.choice(WORDS)}:{rng.randrange(9)}.{rng.randrange(40)}\n  replicas: {rng.randrange(9)}\n  {rng.choice(WORDS)}: {rng.randrange(9999)}"


def xml(rng, at):
    return f'  <entry key="{rng.choice(WORDS)}.{at}" kind="{rng.choice(WORDS)}"><value>{rng.randrange(10**6)}</value></entry>'


def sql(rng, at):
    return f"INSERT INTO {rng.choice(WORDS)} VALUES ({at}, '{words(rng, 2)}', {rng.randrange(10**6)}, NULL);"


def windows(rng, at):
    return f"{rng.randrange(1, 28):02}.03.2026  1{rng.randrange(9)}:{rng.randrange(10, 59)}  {rng.randrange(10**7):>12,} C:\\work\\{rng.choice(WORDS)}\\{rng.choice(WORDS)}_{at}.dll"


def hexdump(rng, at):
    return f"{at * 16:08x}  " + " ".join(f"{rng.randrange(256):02x}" for _ in range(16))


def opaque(rng, at):
    return base64.b64encode(hashlib.sha512(f"{rng.random()}".encode()).digest()).decode().rstrip("=")


FILLS = {function.__name__: function for function in (log, build, tests, grep, source, record, row, html, results, minified, prose, chinese, stack, diff, yaml, xml, sql, windows, hexdump, opaque)}
FILLS |= {"array": record, "one_line": record}
# The text before, between and after the lines.
FRAMES = {
    "array": ("[\n", ",\n", "\n]\n"),
    "one_line": ('{"total":1,"items":[', ",", "]}"),
    "minified": ("/*! v4 */", ";", ""),
    "opaque": ("", "", ""),
    "html": ("<!doctype html>\n<html><body><ul>\n", "\n", "\n</ul></body></html>\n"),
    "stack": ("Exception in thread main java.lang.IllegalStateException: broken\n", "\n", "\n"),
}
