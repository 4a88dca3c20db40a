"""One scenario of stored responses with the OpenAI SDK for Python: stored_client.py BASE_URL MODEL SCENARIO FOLDER

The last line of its output is a JSON object with the results of the SDK. The streams that it resumes are left in
FOLDER as they were sent, for the strict checker of the kit.
"""

import json
import sys
import time
from pathlib import Path

import openai
import streams
from pydantic import BaseModel

LIVE = ("queued", "in_progress")


class Recipe(BaseModel):
    name: str
    minutes: int


class Session:
    """The client of a scenario, with the model that answers and the folder for streams."""

    def __init__(self, base_url: str, model: str, folder: str):
        self.client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=45)
        self.base_url, self.model, self.folder = base_url, model, Path(folder)

    def create(self, text, **more):
        return self.client.responses.create(model=self.model, input=text, **more)

    def polled(self, response):
        """The response when it has ended."""
        end = time.monotonic() + 45
        while response.status in LIVE and time.monotonic() < end:
            time.sleep(0.05)
            response = self.client.responses.retrieve(response.id)
        return response

    def kept_stream(self, response_id: str) -> tuple[str, list[str]]:
        """The address of a response and its whole stream, which is left for the strict checker."""
        url = f"{self.base_url}/responses/{response_id}"
        whole = streams.get(f"{url}?stream=true")
        (self.folder / f"{response_id}.sse").write_text("".join(whole))
        return url, whole


def retrieve(session):
    """A response is read back as it was answered, whole, streamed and parsed, and is gone when it is deleted."""
    client, model = session.client, session.model
    whole = session.create("Say it.", metadata={"topic": "test"})
    streamed = list(session.create("Say it.", stream=True))[-1].response
    parsed = client.responses.parse(model=model, input="A recipe.", text_format=Recipe)
    same = [dump(client.responses.retrieve(it.id)) == dump(it) for it in (whole, streamed)]
    read = client.responses.retrieve(parsed.id)
    same.append(read.output_text == parsed.output_text)
    client.responses.delete(whole.id)
    return {
        "same": same,
        "metadata": client.responses.retrieve(streamed.id).metadata == {} and whole.metadata,
        "parsed": parsed.output_parsed is not None,
        "deleted": status_of(lambda: client.responses.retrieve(whole.id)),
        "deleted_twice": status_of(lambda: client.responses.delete(whole.id)),
        "unstored": status_of(lambda: client.responses.retrieve(session.create("Say it.", store=False).id)),
    }


def chain(session):
    """Three turns, each of which continues the one before; a branch; and a turn after one that is deleted."""
    client = session.client
    first = session.create("My word is aloe.", instructions="Be brief.")
    second = session.create("My number is seven.", previous_response_id=first.id)
    third = session.create("Which are they?", previous_response_id=second.id)
    branch = session.create("Which word was it?", previous_response_id=first.id)
    client.responses.delete(branch.id)
    return {
        "texts": [it.output_text for it in (first, second, third, branch)],
        "links": third.previous_response_id == second.id and second.previous_response_id == first.id,
        "instructions": second.instructions,
        "after_deleted": status_of(lambda: session.create("Go on.", previous_response_id=branch.id)),
    }


def input_items(session):
    """The items of a request, in pages of both orders."""
    client = session.client
    items = [{"role": "user" if n % 2 else "assistant", "content": f"message {n}"} for n in range(1, 26)]
    response = session.create(items)
    read = client.responses.input_items.list
    text = lambda item: item.content[0].text
    newest = read(response.id)
    oldest = read(response.id, order="asc", limit=7)
    after = read(response.id, order="asc", limit=2, after=oldest.data[-1].id)
    ids = [item.id for item in read(response.id, order="asc", limit=4)]
    return {
        "newest": [text(item) for item in newest.data],
        "newest_has_more": newest.has_more,
        "oldest": [text(item) for item in oldest.data],
        "has_more": oldest.has_more,
        "edges": [oldest.first_id, oldest.last_id] == [oldest.data[0].id, oldest.data[-1].id],
        "after": [text(item) for item in after.data],
        "paged": [len(ids), len(set(ids))],
        "backwards": [item.id for item in read(response.id, limit=9)] == ids[::-1],
        "unknown_after": status_of(lambda: read(response.id, after="msg_nobody")),
        "no_limit": [status_of(lambda: read(response.id, limit=limit)) for limit in (0, 101)],
    }


def background(session):
    """A background response, polled to its end; its stream goes on alike after each of its events."""
    client = session.client
    begun = session.create("A long answer, please.", background=True)
    ended = session.polled(begun)
    url, whole = session.kept_stream(ended.id)
    events = list(client.responses.retrieve(ended.id, stream=True))
    next_turn = session.create("Say it.", previous_response_id=ended.id)
    return {
        "begun": [begun.status, begun.background, begun.output],
        "status": ended.status,
        "text": ended.output_text,
        "types": [event.type for event in events],
        "final": dump(events[-1].response) == dump(ended),
        "differs_after": streams.resumed_differently(url, whole),
        "after_the_end": streams.get(f"{url}?stream=true&starting_after=100000"),
        "next": next_turn.status,
        "cancel_when_ended": caught(lambda: client.responses.cancel(ended.id)),
        "unstored": caught(lambda: session.create("Say it.", background=True, store=False)),
    }


def background_stream(session):
    """A background stream that is cut off, and resumed in each way of the SDK."""
    client = session.client
    seen = []
    with session.create("A long answer, please.", background=True, stream=True) as stream:
        for event in stream:
            seen.append(event)
            if len(seen) == 5:
                break
    response_id, last = seen[0].response.id, seen[-1].sequence_number
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=last))
    with client.responses.stream(response_id=response_id, starting_after=last) as stream:
        helped = [event.sequence_number for event in stream]
        final = stream.get_final_response()
    url, whole = session.kept_stream(response_id)
    return {
        "begun": [event.type for event in seen[:3]],
        "numbers": [event.sequence_number for event in seen + rest] == list(range(len(seen + rest))),
        "helped": helped == [event.sequence_number for event in rest],
        "helped_text": final.output_text == rest[-1].response.output_text,
        "whole": [streams.number(frame) for frame in whole[:-1]] == list(range(len(seen + rest))),
        "text": "".join(event.delta for event in seen + rest if event.type == "response.output_text.delta") == final.output_text,
        "differs_after": streams.resumed_differently(url, whole),
        "read_back": dump(client.responses.retrieve(response_id)) == dump(rest[-1].response),
    }


def webhook(session):
    """The SDK takes the event of a webhook as it was sent, and refuses it when it was changed or signed by another secret."""
    client = session.client
    ended = session.polled(session.create("Say it.", background=True))
    path, end = session.folder / "event.json", time.monotonic() + 30
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    sent = json.loads(path.read_text())
    body, headers, secret = sent["body"], sent["headers"], sent["secret"]
    event = client.webhooks.unwrap(body, headers, secret=secret)

    def is_refused(body, headers=headers, secret=secret):
        try:
            client.webhooks.unwrap(body, headers, secret=secret)
        except openai.InvalidWebhookSignatureError:
            return True
        return False

    return {
        "type": event.type,
        "class": type(event).__name__,
        "same": event.data.id == ended.id,
        "refused": [
            is_refused(body.replace("completed", "failed")),
            is_refused(body + " "),
            is_refused(body, {**headers, "webhook-id": "evt_1"}),
            is_refused(body, secret="whsec_b3RoZXI="),
            is_refused(body),
        ],
    }


def workflow(session):
    """A workflow that asks a person: it is streamed, with the helper of the SDK as well, and goes on in the background."""
    client, prompt = session.client, {"id": "wf_release", "variables": {"version": "2.0"}}
    with client.responses.stream(model=session.model, input="Faster.", prompt=prompt) as stream:
        nodes = [f"{event.node['id']} {event.node['status']}" for event in stream if event.type.startswith("response.workflow.")]
        asking = stream.get_final_response()
    question = next(item for item in asking.output if item.type == "mcp_approval_request")
    decision = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}
    released = session.create([decision], previous_response_id=asking.id, background=True)
    released = session.polled(released)
    url, whole = session.kept_stream(released.id)
    return {
        "nodes": nodes,
        "question": json.loads(question.arguments)["question"],
        "text": released.output_text,
        "order": released.workflow_state["order"],
        "differs_after": streams.resumed_differently(url, whole),
        "again": status_of(lambda: session.create([decision], previous_response_id=asking.id)),
    }


def cancel(session):
    """A background response is cancelled while it runs, and again; others cannot be."""
    client = session.client
    begun = session.create("please-wait", background=True)
    end = time.monotonic() + 30
    while client.responses.retrieve(begun.id).status == "queued" and time.monotonic() < end:
        time.sleep(0.02)
    start = time.monotonic()
    statuses = [client.responses.cancel(begun.id).status for _ in range(3)]
    soon = time.monotonic() - start < 5
    url, whole = session.kept_stream(begun.id)
    foreground = session.create("Say it.")
    doomed = session.create("please-wait", background=True)
    client.responses.delete(doomed.id)
    return {
        "statuses": statuses,
        "soon": soon,
        "read_back": client.responses.retrieve(begun.id).status,
        "last": json.loads(whole[-2].split("\ndata: ")[1])["type"],
        "differs_after": streams.resumed_differently(url, whole),
        "foreground": caught(lambda: client.responses.cancel(foreground.id)),
        "deleted": status_of(lambda: client.responses.retrieve(doomed.id)),
        "deleted_stream": status_of(lambda: client.responses.retrieve(doomed.id, stream=True)),
    }


def conversations(session):
    """A conversation with items of its own, and turns in it."""
    client = session.client
    items = client.conversations.items
    conversation = client.conversations.create(metadata={"topic": "test"}, items=[message("user", "My word is aloe.")])
    key = conversation.id
    added = items.create(key, items=[message("assistant", "Noted."), message("user", "My number is seven.")])
    turn = session.create("Which are they?", conversation=key)
    listed = list(items.list(key, order="asc", limit=2))
    one = items.retrieve(added.data[0].id, conversation_id=key)
    after_delete = items.delete(added.data[0].id, conversation_id=key)
    updated = client.conversations.update(key, metadata={"topic": "changed"})
    left = [item.id for item in items.list(key)]
    result = {
        "object": conversation.object,
        "metadata": [conversation.metadata, updated.metadata, client.conversations.retrieve(key).metadata],
        "added": [len(added.data), added.has_more, added.first_id == added.data[0].id],
        "turn": [turn.output_text, turn.conversation and turn.conversation.id == key],
        "kinds": [item.role for item in listed],
        "last": listed[-1].id == turn.output[-1].id,
        "one": one.id == added.data[0].id and one.content[0].text,
        "after_delete": after_delete.id == key,
        "left": [len(left), added.data[0].id in left],
        "both": caught(lambda: session.create("Go on.", conversation=key, previous_response_id=turn.id)),
        "too_many": status_of(lambda: items.create(key, items=[message("user", "Hello.")] * 21)),
    }
    deleted = client.conversations.delete(key)
    return result | {
        "deleted": [deleted.deleted, deleted.object],
        "gone": status_of(lambda: client.conversations.retrieve(key)),
        "turn_stays": client.responses.retrieve(turn.id).output_text == turn.output_text,
    }


def unknown(session):
    """Ids that nobody has: 404 in a path, 400 in a request."""
    client = session.client
    response, conversation, item = "resp_" + "0" * 32, "conv_" + "0" * 32, "msg_" + "0" * 32
    paths = {
        "retrieve": lambda: client.responses.retrieve(response),
        "stream": lambda: client.responses.retrieve(response, stream=True),
        "malformed": lambda: client.responses.retrieve("nobody"),
        "delete": lambda: client.responses.delete(response),
        "cancel": lambda: client.responses.cancel(response),
        "input_items": lambda: client.responses.input_items.list(response),
        "conversation": lambda: client.conversations.retrieve(conversation),
        "update": lambda: client.conversations.update(conversation, metadata={}),
        "delete_conversation": lambda: client.conversations.delete(conversation),
        "items": lambda: client.conversations.items.list(conversation),
        "add": lambda: client.conversations.items.create(conversation, items=[message("user", "Hello.")]),
        "item": lambda: client.conversations.items.retrieve(item, conversation_id=conversation),
        "delete_item": lambda: client.conversations.items.delete(item, conversation_id=conversation),
    }
    return {
        "paths": {name: status_of(request) for name, request in paths.items()},
        "previous": caught(lambda: session.create("Go on.", previous_response_id=response)),
        "previous_stream": caught(lambda: session.create("Go on.", previous_response_id=response, stream=True)),
        "previous_background": caught(lambda: session.create("Go on.", previous_response_id=response, background=True)),
        "in_conversation": caught(lambda: session.create("Go on.", conversation=conversation)),
    }


def message(role: str, text: str) -> dict:
    return {"type": "message", "role": role, "content": text}


def dump(response) -> dict:
    return response.model_dump(warnings=False)


def status_of(request) -> int | None:
    return caught(request).get("status")


def caught(request) -> dict:
    try:
        request()
    except openai.APIStatusError as fault:
        return {"status": fault.status_code, "code": fault.code, "param": fault.param}
    return {}


SCENARIOS = [background, background_stream, cancel, chain, conversations, input_items, retrieve, unknown, webhook, workflow]


def main():
    base_url, model, name, folder = sys.argv[1:]
    scenario = {function.__name__: function for function in SCENARIOS}[name]
    print(json.dumps(scenario(Session(base_url, model, folder))))


main()
