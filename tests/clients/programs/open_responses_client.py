"""The tests of the Open Responses compliance suite: open_responses_client.py BASE_URL MODEL SCENARIO STREAMS

Each function in `TESTS` is one test and has the name of the test in that suite, with underscores. SCENARIO is
`suite` or the name of one test. The last line of the output is a JSON object with the names of the tests
that passed and the complaints of those that did not. Every whole stream is left in the folder STREAMS.

All documents are judged by the types of the specification (openresponses-types), without conversions. Those
take null where the specification wants a key to be absent, so `NEVER_NULL` is looked at here.
"""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import openresponses_types as spec
import pydantic
from websockets.sync.client import connect

NEVER_NULL = {"content", "encrypted_content", "obfuscation", "phase"}
TERMINAL = {"response.completed", "response.failed", "response.incomplete"}
WEATHER_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
# A picture of one red pixel.
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


class Complaint(Exception):
    """What a test has against an answer."""


def types_of_events() -> dict:
    """The types of all events of a stream, by the `type` of the event."""
    found = {}
    for name, kind in vars(spec).items():
        if name.endswith("StreamingEvent"):
            literal = pydantic.TypeAdapter(kind.model_fields["type"].annotation).json_schema()
            found[literal.get("const") or literal["enum"][0]] = kind
    return found


EVENTS = types_of_events()


def check(kind, document, place: str):
    """Complains about a document that is not of this type."""
    try:
        kind.model_validate_json(json.dumps(document), strict=True)
    except pydantic.ValidationError as wrong:
        raise Complaint(f"{place}: {wrong}") from None
    check_nulls(document, place)


def check_nulls(value, place: str):
    if isinstance(value, list):
        for inner in value:
            check_nulls(inner, place)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if inner is None and key in NEVER_NULL:
                raise Complaint(f"{place}: {key} is null")
            check_nulls(inner, place)


def expect(actual, wanted, what: str):
    if actual != wanted:
        raise Complaint(f"{what} is {actual!r}, not {wanted!r}")


class Server:
    """The server under test."""

    def __init__(self, base_url: str, model: str, streams: Path):
        self.base_url, self.model, self.streams = base_url, model, streams
        self.count = 0

    def post(self, path: str, body: dict):
        """The open reply to a request, whatever its status."""
        headers = {"content-type": "application/json", "authorization": "Bearer any"}
        request = urllib.request.Request(self.base_url + path, json.dumps(body).encode(), headers)
        try:
            return urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as error:
            return error

    def respond(self, input, **more) -> dict:
        """The response to a request, which is completed and has output."""
        with self.post("/responses", {"model": self.model, "input": input} | more) as reply:
            expect(reply.status, 200, "the status")
            return completed(json.load(reply))

    def stream(self, input, **more) -> dict:
        """The response at the end of a stream."""
        with self.post("/responses", {"model": self.model, "input": input, "stream": True} | more) as reply:
            expect(reply.status, 200, "the status")
            text = reply.read().decode()
        self.leave(text)
        frames = text.split("\n\n")
        expect(frames[-2:], ["data: [DONE]", ""], "the end of the stream")
        events = []
        for frame in frames[:-2]:
            name, data = frame.removeprefix("event: ").split("\ndata: ")
            events.append(json.loads(data))
            expect(events[-1]["type"], name, "the type in an event of this name")
        return ended(events)

    def compact(self, input, **more) -> dict:
        with self.post("/responses/compact", {"model": self.model, "input": input} | more) as reply:
            expect(reply.status, 200, "the status")
            compacted = json.load(reply)
        check(spec.CompactResource, compacted, "the compaction")
        return compacted

    def socket(self):
        return Socket(self)

    def leave(self, stream: str):
        self.count += 1
        (self.streams / f"{self.count}.sse").write_text(stream)


class Socket:
    """A WebSocket to the server under test, whose responses are not stored."""

    def __init__(self, server: Server):
        self.server = server
        url = server.base_url.replace("http", "ws", 1) + "/responses"
        self.connection = connect(url, additional_headers={"authorization": "Bearer any"}, proxy=None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def turn(self, input, **more) -> list[dict]:
        """The events of a turn, which ends with an error or with its response."""
        create = {"type": "response.create", "model": self.server.model, "store": False, "input": input} | more
        self.connection.send(json.dumps(create))
        events = []
        while not events or events[-1]["type"] not in TERMINAL | {"error"}:
            events.append(json.loads(self.connection.recv(30)))
        return events

    def respond(self, input, **more) -> dict:
        events = self.turn(input, **more)
        if events[-1]["type"] == "error":
            raise Complaint(f"a turn has the error {events[-1]}")
        frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self.server.leave("".join(frames) + "data: [DONE]\n\n")
        return ended(events)

    def expect_unknown(self, input, **more):
        """A turn whose previous response is unknown."""
        expect(failure(self.turn(input, **more)), "previous_response_not_found", "the code of the error")


def completed(response: dict) -> dict:
    check(spec.ResponseResource, response, "the response")
    expect(response["status"], "completed", "the status of the response")
    if not response["output"]:
        raise Complaint("the response has no output")
    return response


def ended(events: list[dict]) -> dict:
    """The response at the end of these events, each of which is as specified."""
    for number, event in enumerate(events):
        kind = EVENTS.get(event["type"])
        if kind is None:
            raise Complaint(f"there is no event {event['type']}")
        check(kind, event, f"event {number}, {event['type']}")
        expect(event["sequence_number"], number, "the number of an event")
    expect(events[-1]["type"], "response.completed", "the last event")
    return completed(events[-1]["response"])


def failure(events: list[dict]) -> str | None:
    """The code of the error with which a turn ended."""
    last = events[-1]
    if last["type"] == "error":
        check(spec.WebSocketErrorEvent, last, "the error")
        return last["error"]["code"]
    return (last["response"]["error"] or {}).get("code")


def message(role: str, content, **more) -> dict:
    return {"type": "message", "role": role, "content": content} | more


def basic_response(server):
    server.respond([message("user", "Greet me with three words.")])


def assistant_phase(server):
    server.respond(
        [
            message("assistant", "I look the number up.", phase="commentary"),
            message("assistant", "It is eleven.", phase="final_answer"),
            message("user", "Which number?"),
        ]
    )


def response_output_phase_schema(server):
    """The suite shows its types a response with phases. Here such a response comes from the server."""
    said = [
        {"type": "message", "id": f"msg_{phase}", "role": "assistant", "status": "completed", "phase": phase}
        | {"content": [{"type": "output_text", "text": text, "annotations": []}]}
        for phase, text in [("commentary", "I look it up."), ("final_answer", "It is eleven.")]
    ]
    answer = server.respond("Which number?")
    completed(answer | {"output": said})


def streaming_response(server):
    server.stream([message("user", "Count to five.")])


def websocket_response(server):
    with server.socket() as socket:
        socket.respond([message("user", "Count to three.")], store=True)


def websocket_sequential_responses(server):
    with server.socket() as socket:
        for word in ["first", "second"]:
            socket.respond(f"Answer with the word {word}.")


def websocket_continuation(server):
    with server.socket() as socket:
        first = socket.respond("The code word is cobalt.")
        socket.respond("What is the code word?", previous_response_id=first["id"])


def websocket_reconnect_store_false_recovery(server):
    with server.socket() as socket:
        first = socket.respond("The code word is copper.")
    with server.socket() as socket:
        socket.expect_unknown("Go on after the reconnect.", previous_response_id=first["id"])
        socket.respond([message("user", "Begin anew.")])


def websocket_previous_response_not_found(server):
    with server.socket() as socket:
        socket.expect_unknown("Go on from nothing.", previous_response_id="resp_that_nobody_has")


def websocket_failed_continuation_evicts_cache(server):
    with server.socket() as socket:
        first = socket.respond("The code word is ember.")
        result = {"type": "function_call_output", "call_id": "call_of_nobody", "output": "There was no such call."}
        if failure(socket.turn([result], previous_response_id=first["id"])) is None:
            raise Complaint("the output of a call that nobody made is accepted")
        socket.expect_unknown("Go on from what failed.", previous_response_id=first["id"])


def websocket_compact_new_chain(server):
    session = [
        message("user", [{"type": "input_text", "text": "The code word is slate."}]),
        message("assistant", [{"type": "output_text", "text": "I see."}]),
        message("user", [{"type": "input_text", "text": "Sum this up."}]),
    ]
    compacted = server.compact(session)
    with server.socket() as socket:
        socket.respond([*compacted["output"], message("user", "Go on from the summary.")], tools=[])


def system_prompt(server):
    server.respond([message("system", "Speak like a sailor."), message("user", "Greet me.")])


def tool_calling(server):
    answer = server.respond([message("user", "How is the weather in Ghent?")], tools=[WEATHER_TOOL])
    if "function_call" not in [item["type"] for item in answer["output"]]:
        raise Complaint(f"the output has no call: {answer['output']}")


def image_input(server):
    picture = {"type": "input_image", "image_url": PICTURE}
    server.respond([message("user", [{"type": "input_text", "text": "What is in the picture?"}, picture])])


def multi_turn(server):
    server.respond([message("user", "My name is Ada."), message("assistant", "Hello Ada!"), message("user", "What is my name?")])


def compact_response(server):
    session = [message("user", "We begin on Tuesday."), message("assistant", "On Tuesday, then.")]
    compacted = server.compact(session, prompt_cache_key="compaction")
    expect(compacted["object"], "response.compaction", "the object")
    if "compaction" not in [item["type"] for item in compacted["output"]]:
        raise Complaint(f"the output has no compaction: {compacted['output']}")


def compact_missing_model(server):
    with server.post("/responses/compact", {"input": [message("user", "Sum this up.")]}) as reply:
        if reply.status not in (400, 422):
            raise Complaint(f"the status is {reply.status}, not 400 or 422")


TESTS = [
    basic_response, assistant_phase, response_output_phase_schema, streaming_response, websocket_response,
    websocket_sequential_responses, websocket_continuation, websocket_reconnect_store_false_recovery,
    websocket_previous_response_not_found, websocket_failed_continuation_evicts_cache,
    websocket_compact_new_chain, system_prompt, tool_calling, image_input, multi_turn, compact_response,
    compact_missing_model,
]  # fmt: skip


# Promise: The 17 tests of the Open Responses compliance suite pass, over HTTP and WebSockets, on
# each kind of upstream; every document has the types of the specification, and every stream keeps
# the rules of the strict checker.
def main():
    base_url, model, name, streams = sys.argv[1:]
    server = Server(base_url, model, Path(streams))
    passed, failed = [], []
    for test in TESTS:
        if name not in ("suite", test.__name__):
            continue
        try:
            test(server)
            passed.append(test.__name__)
        except Complaint as complaint:
            failed.append({test.__name__: str(complaint)})
    print(json.dumps({"passed": passed, "count": len(passed), "failed": failed}))


main()
