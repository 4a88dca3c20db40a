"""A scripted model that speaks Chat Completions: the upstream of the suites.

It echoes, remembers, calculates, calls the tools that a question is about, fills in JSON schemas, reasons if it
is asked to, and stops at the limit of tokens. It refuses what Chat Completions refuses, and keeps the refusals.
"""

import base64
import http.server
import json
import re
import threading

PARAMETERS = """messages model stream stream_options tools tool_choice parallel_tool_calls response_format temperature top_p n stop
max_tokens max_completion_tokens presence_penalty frequency_penalty logprobs top_logprobs user metadata store seed
reasoning_effort verbosity service_tier prompt_cache_key safety_identifier prediction modalities audio logit_bias""".split()
PARTS = {"text", "image_url", "input_audio", "file", "refusal"}
COMMON = set("what whats when where which with from that this your have about into then tool tools call using given return returns current string".split())


def words(text: str) -> set[str]:
    found = re.findall(r"[a-z]+|[*+]", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())
    return {word for word in found if (len(word) > 3 or word in "*+") and word not in COMMON}


def text_of(content) -> str:
    """The text of a message with that of its text files, and a line for each part that is none."""

    def text(part):
        head, _, data = part.get("file", {}).get("file_data", "").partition(";base64,")
        return part.get("text") or (base64.b64decode(data).decode() if head.startswith("data:text/") else f"({part['type']})")

    return "\n".join(map(text, content)) if isinstance(content, list) else content or ""


def refusal(body: dict) -> str | None:
    """What a strict provider says about a request that the proxy got wrong, or None."""
    messages, waiting, before = body.get("messages"), [], set()
    if unknown := set(body) - set(PARAMETERS):
        return f"Unrecognized request arguments: {sorted(unknown)}"
    if not messages or not any(message["role"] in ("user", "tool") for message in messages):
        return "messages must have a message of the user"
    for number, message in enumerate(messages):
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls") or []
        ids = [call["id"] for call in calls]
        wrong = {
            "a tool message must follow the call with its id": role == "tool" and message.get("tool_call_id") not in waiting,
            f"the calls {waiting} have no results": role != "tool" and waiting,
            f"there is no role {role!r}": role not in ("system", "developer", "user", "assistant", "tool"),
            "content is empty": not calls and content in (None, "", []),
            "a part has an unknown type": isinstance(content, list) and any(part.get("type") not in PARTS for part in content),
            "the id of a call was used before": before & set(ids) or len(set(ids)) != len(ids),
        }
        if found := next((what for what, is_wrong in wrong.items() if is_wrong), None):
            return f"messages[{number}]: {found}"
        waiting = [one for one in waiting if one != message.get("tool_call_id")] + ids
        before |= set(ids)
    if waiting:
        return f"the calls {waiting} have no results"
    names = [tool["function"]["name"] for tool in body.get("tools") or []]
    if len(set(names)) != len(names) or not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names):
        return f"the names of the tools are not valid: {names}"
    choice = body.get("tool_choice")
    if choice and not names or isinstance(choice, dict) and choice["function"]["name"] not in names:
        return "tool_choice names no tool of the request"
    return None


def has_open_schema(body: dict) -> bool:
    """Whether a strict schema, which is the client's, is not strict."""
    form = body.get("response_format", {}).get("json_schema", {})
    return bool(form.get("strict")) and any(map(lacks_strictness, walk(form["schema"])))


def walk(value):
    """The value and all values in it."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from walk(inner)


def lacks_strictness(schema) -> bool:
    properties = schema.get("properties") if isinstance(schema, dict) and schema.get("type") == "object" else None
    return properties is not None and (schema.get("additionalProperties") is not False or set(properties) != set(schema.get("required", [])))


class Filler:
    """Fills in a JSON schema with what the question has: its numbers and its names in their order."""

    def __init__(self, question: str, root: dict):
        self.root = root
        self.numbers = iter(re.findall(r"-?\d+", question))
        quoted = re.findall(r"['\"]([^'\"]{2,})['\"]", question)
        self.names = iter(quoted + re.findall(r"\b(?:in|for|of|at|to) ([A-Z]\w+(?: [A-Z]\w+)*)", question))

    def value(self, schema: dict, name: str):
        if "$ref" in schema:
            target = self.root
            for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
                target = target[step] if step else target
            return self.value(target, name)
        if "const" in schema or schema.get("enum"):
            return schema.get("const") or schema["enum"][0]
        for several in ("anyOf", "oneOf", "allOf"):
            if several in schema:
                return self.value(next(one for one in schema[several] if one.get("type") != "null"), name)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = next(one for one in kind if one != "null") if isinstance(kind, list) else kind
        if kind == "object":
            return {key: self.value(inner, key) for key, inner in schema.get("properties", {}).items()}
        if kind == "array":
            return [self.value(schema.get("items", {}), name)]
        if kind in ("integer", "number"):
            return int(next(self.numbers, 7))
        return True if kind == "boolean" else next(self.names, f"some {name}")


def chosen(body: dict, question: str, called: set[str]) -> dict | None:
    """The tool to call: the one that is forced, else the one that shares most words with the question."""
    tools = [tool["function"] for tool in body.get("tools") or []]
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        return next(tool for tool in tools if tool["name"] == choice["function"]["name"])
    open_tools = [tool for tool in tools if tool["name"] not in called]
    if choice == "none" or not open_tools:
        return None
    asked = words(question)

    def shared(tool):
        search = 0.5 if "tool_search" in tool["name"] or "the tool" in question.lower() else 0
        return search + len(asked & (words(tool["name"]) | words(tool.get("description") or "")))

    best = max(open_tools, key=shared)
    return best if shared(best) or (choice == "required" and not called) else None


def think(body: dict) -> dict:
    """The answer: reasoning, text, call (or None), and the reason of its end."""
    messages = body["messages"]
    users = [n for n, message in enumerate(messages) if message["role"] == "user"]
    start = users[-1] if users else 0
    question = text_of(messages[start].get("content"))
    called = {call["function"]["name"] for message in messages[start:] for call in message.get("tool_calls") or []}
    tool = chosen(body, question, called)
    effort = body.get("reasoning_effort") or "none"
    depth = {"none": 0, "minimal": 0, "low": 1, "medium": 2}.get(effort, 4)
    reasoning = "".join(f"Step {n} about it. " for n in range(1, depth + 1))
    wanted = body.get("response_format", {"type": "text"})
    earlier = " ".join(text_of(message.get("content")) for message in messages[:start] if message["role"] == "user")
    remembered = re.findall(r"[Mm]y \w+ is (\w+)", earlier)
    sum_of = re.search(r"(\d+) *([*+]) *(\d+)", question)
    if tool:
        schema = tool.get("parameters") or {}
        text = "I look it up." if "state your answer" in question.lower() else ""
        arguments = json.dumps(Filler(question, schema).value({"type": "object"} | schema, ""), ensure_ascii=False)
        return {"reasoning": reasoning, "text": text, "call": (tool["name"], arguments), "reason": "tool_calls"}
    if wanted["type"] == "json_schema":
        schema = wanted["json_schema"]["schema"]
        text = json.dumps(Filler(question, schema).value(schema, ""), ensure_ascii=False)
    elif wanted["type"] == "json_object":
        text = json.dumps({key: f"some {key}" for key in re.findall(r"'(\w+)'", question) or ["answer"]})
    elif messages[-1]["role"] == "tool":
        text = f"The result is {text_of(messages[-1]['content'])}"
    elif length := re.search(r"(\d+) word", question):
        text = "word " * int(length[1])
    elif remembered and re.search(r"\b([Ww]hich|[Ww]hat)\b", question):
        text = f"It was {remembered[-1]}."
    elif sum_of:
        left, right = int(sum_of[1]), int(sum_of[3])
        text = f"It is {left * right if sum_of[2] == '*' else left + right}."
    else:
        text = f"You said: {question}"
    tokens = re.findall(r"\S+\s*|\s+", text)
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(tokens)
    return {"reasoning": reasoning, "text": "".join(tokens[:limit]), "call": None, "reason": "length" if len(tokens) > limit else "stop"}


class Brain(http.server.ThreadingHTTPServer):
    """The server, in threads of this process. `requests` counts its requests, `refusals` are those that it refused."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.refusals = 0, []
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(200, {"object": "list", "data": []})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests += 1
        number = self.server.requests
        wrong = refusal(body)
        if wrong:
            self.server.refusals.append(f"{wrong}: {json.dumps(body)[:600]}")
        elif has_open_schema(body):
            wrong = "Invalid schema: 'additionalProperties' must be false and 'required' must have every property"
        if wrong:
            return self.reply(400, {"error": {"message": wrong, "type": "invalid_request_error", "param": None, "code": None}})
        answer = think(body)
        prompt, output = len(json.dumps(body["messages"])) // 4 + 3, len(answer["reasoning"].split()) + len(answer["text"].split()) + 3
        usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
        usage |= {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": len(answer["reasoning"].split())}}
        head = {"id": f"chatcmpl-{number}", "created": 1, "model": body["model"], "service_tier": "default"}
        call = answer["call"] and {"id": f"call_{number:08}", "type": "function", "function": dict(zip(("name", "arguments"), answer["call"]))}

        def scores(text):
            one = {"token": text, "logprob": -0.25, "bytes": list(text.encode())}
            return {"logprobs": {"content": [one | {"top_logprobs": [one] * bool(body.get("top_logprobs"))}]}} if body.get("logprobs") else {}

        if not body.get("stream"):
            message = {"role": "assistant", "content": answer["text"] or None, "reasoning_content": answer["reasoning"] or None}
            message |= {"tool_calls": [call]} if call else {}
            choice = {"index": 0, "message": message, "finish_reason": answer["reason"]} | (scores(answer["text"]) if answer["text"] else {})
            return self.reply(200, head | {"object": "chat.completion", "choices": [choice], "usage": usage})
        pieces = [{"delta": {"reasoning_content": piece}} for piece in re.findall(r"\S+\s*", answer["reasoning"])]
        pieces += [{"delta": {"content": piece}} | scores(piece) for piece in re.findall(r"\S+\s*|\s+", answer["text"])]
        if call:
            pieces.append({"delta": {"tool_calls": [call | {"index": 0, "function": {"name": answer["call"][0], "arguments": ""}}]}})
            parts = re.findall(r"(?s).{1,9}", answer["call"][1])
            pieces += [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}} for part in parts]
        pieces.append({"delta": {}, "finish_reason": answer["reason"]})
        head["object"] = "chat.completion.chunk"
        chunks = [head | {"choices": [{"index": 0, "finish_reason": None} | piece]} for piece in pieces]
        chunks += [head | {"choices": [], "usage": usage}] if (body.get("stream_options") or {}).get("include_usage") else []
        self.reply(200, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")

    def reply(self, status: int, body):
        kind = "text/event-stream" if isinstance(body, str) else "application/json"
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(data))), ("x-ratelimit-limit-requests", "500"), ("x-ratelimit-remaining-requests", "499")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
