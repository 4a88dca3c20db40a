"""One scenario with the OpenAI SDK for Python: openai_client.py BASE_URL MODEL SCENARIO [QUESTIONS]

The last line of its output is a JSON object with the results of the SDK.
"""

import json
import sys

import openai
from pydantic import BaseModel

WEATHER_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Recipe(BaseModel):
    name: str
    minutes: int
    steps: list[str]


def summary(response) -> dict:
    return {
        "status": response.status,
        "text": response.output_text,
        "types": [item.type for item in response.output],
        "usage": response.usage and response.usage.model_dump(),
        "incomplete": response.incomplete_details and response.incomplete_details.reason,
    }


def create(client, model):
    return summary(client.responses.create(model=model, input="Say it.", instructions="Be brief."))


def create_stream(client, model):
    events = list(client.responses.create(model=model, input="Say it.", stream=True))
    return {
        "types": [event.type for event in events],
        "numbers": [event.sequence_number for event in events] == list(range(len(events))),
        "text": "".join(event.delta for event in events if event.type == "response.output_text.delta"),
        "final": summary(events[-1].response),
    }


def stream_helper(client, model):
    with client.responses.stream(model=model, input="Say it.") as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    return {"types": types, "final": summary(final)}


def parse(client, model):
    response = client.responses.parse(model=model, input="A recipe.", text_format=Recipe)
    return {"parsed": response.output_parsed.model_dump(), "status": response.status}


def parse_stream(client, model):
    with client.responses.stream(model=model, input="A recipe.", text_format=Recipe) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    return {"parsed": final.output_parsed.model_dump(), "snapshots": snapshots}


def tool_round_trip(client, model):
    question = [{"role": "user", "content": "How is the weather in Ghent?"}]
    first = client.responses.create(model=model, input=question, tools=[WEATHER_TOOL])
    calls = [item for item in first.output if item.type == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"sleet in {json.loads(call.arguments)['city']}"}
        for call in calls
    ]
    second = client.responses.create(model=model, input=question + first.output + results, tools=[WEATHER_TOOL])
    return {
        "calls": [{"name": call.name, "arguments": json.loads(call.arguments), "id": bool(call.id)} for call in calls],
        "first": summary(first),
        "second": summary(second),
    }


def tool_stream(client, model):
    with client.responses.stream(model=model, input="How is the weather?", tools=[WEATHER_TOOL]) as stream:
        pieces = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    calls = [item for item in final.output if item.type == "function_call"]
    return {
        "calls": [{"name": call.name, "arguments": json.loads(call.arguments)} for call in calls],
        "pieces_are_the_arguments": "".join(pieces) == "".join(call.arguments for call in calls),
        "final": summary(final),
    }


def error(client, model):
    return caught(lambda: client.responses.create(model=model, input="Say it."))


def repeated(client, model):
    """As a client that nobody has told how often to repeat a failed request."""
    return error(client.with_options(max_retries=openai.DEFAULT_MAX_RETRIES), model)


def repeated_often(client, model):
    """As a client that repeats a failed request until it is told to stop."""
    return error(client.with_options(max_retries=20), model)


def unknown_model(client, model):
    return caught(lambda: client.responses.create(model="no/such-model", input="Say it."))


def bad_request(client, model):
    return caught(lambda: client.responses.create(model=model, input="Say it.", previous_response_id="resp_nobody"))


def stream_error(client, model):
    """A stream that fails after its first text."""
    events = list(client.responses.create(model=model, input="Say it.", stream=True))
    last = events[-1]
    fault = last.response.error
    return {"type": last.type, "status": last.response.status, "code": fault.code, "message": fault.message}


def models(client, model):
    return {"ids": [entry.id for entry in client.models.list()], "objects": [entry.object for entry in client.models.list()]}


def compact(client, model):
    """Compacts a session and plays the next turn on the compacted items."""
    session = [{"role": "user", "content": "Remember the word aloe."}, {"role": "assistant", "content": "Noted."}]
    compacted = client.responses.compact(model=model, input=session, instructions="Be brief.")
    question = [{"role": "user", "content": "Which word was it?"}]
    answer = client.responses.create(model=model, input=[item.model_dump(warnings=False) for item in compacted.output] + question)
    return {
        "object": compacted.object,
        "types": [item.type for item in compacted.output],
        "tokens": compacted.usage.total_tokens > 0,
        "answer": summary(answer),
    }


def input_tokens(client, model):
    short = client.responses.input_tokens.count(model=model, input="Say it.")
    long = client.responses.input_tokens.count(model=model, input="Say it. " * 1000, instructions="Be brief.", tools=[WEATHER_TOOL])
    return {"object": short.object, "short": 0 < short.input_tokens < 200, "long": 2000 < long.input_tokens < 8000}


def caught(request):
    try:
        request()
    except openai.APIStatusError as fault:
        keys = sorted(fault.body) if isinstance(fault.body, dict) else fault.body
        return {
            "class": type(fault).__name__,
            "status": fault.status_code,
            "code": fault.code,
            "message": fault.message,
            "keys": keys,
            "request_id": bool(fault.request_id),
        }
    return {"class": None}


def search(client, model, *questions):
    """Turns with the hosted search, each with the history of those before. The texts, as far as the offsets of the
    citations enclose links to the pages that they name."""
    history, texts = [], []
    for question in questions:
        history.append({"role": "user", "content": question})
        with client.responses.stream(model=model, input=history, tools=[{"type": "web_search"}], store=False) as stream:
            stream.until_done()
            response = stream.get_final_response()
        history += response.output
        text = response.output[-1].content[0]
        are_links = all(text.text[note.start_index : note.end_index].endswith(f"]({note.url})") for note in text.annotations)
        texts.append(text.text if are_links else f"wrong offsets: {text.annotations}")
    return texts


def websocket(client, model):
    """A warm-up, a continued response, an error, and two lanes of which one forks from the other."""
    seen = {"types": set()}

    def ended(connection, lanes=(None,)):
        """Reads until the responses on these lanes have ended; the responses by their lanes."""
        responses = {}
        while len(responses) < len(lanes):
            event = connection.recv()
            seen["types"].add(event.type)
            if event.type == "error":
                return {"error": event.error.code, "status": event.status}
            if event.type in ("response.completed", "response.failed", "response.incomplete"):
                responses[getattr(event, "stream_id", None)] = event.response
        return responses

    # The library offers no compression by itself. An offer is declined, and the client has to do without.
    offer = {"compression": "deflate"}
    with client.responses.connect(websocket_connection_options=offer) as connection:
        def ask(text, **more):
            connection.response.create(model=model, input=text, store=False, **more)

        ask("Be brief.", generate=False)
        warm = ended(connection)[None]
        ask("The first.", previous_response_id=warm.id)
        first = ended(connection)[None]
        ask("Lost.", previous_response_id="resp_lost")
        seen["error"] = ended(connection)
        ask("Plan.", previous_response_id=first.id, stream_id="planner")
        ask("Another.", stream_id="other")
        lanes = ended(connection, ("planner", "other"))
        ask("Criticise.", previous_response_id=lanes["planner"].id, stream_id="critic")
        critic = ended(connection, ("critic",))["critic"]
    texts = [warm, first, lanes["planner"], lanes["other"], critic]
    return {
        "texts": [response.output_text for response in texts],
        "types": sorted(seen["types"] & {"error", "response.created", "response.output_text.delta", "response.completed"}),
        "error": seen["error"],
    }


SCENARIOS = [
    bad_request, compact, create, create_stream, error, input_tokens, models, parse, parse_stream,
    repeated, repeated_often, search, stream_error, stream_helper, tool_round_trip, tool_stream, unknown_model,
    websocket,
]  # fmt: skip


def main():
    base_url, model, name, *questions = sys.argv[1:]
    scenario = {function.__name__: function for function in SCENARIOS}[name]
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=45)
    print(json.dumps(scenario(client, model, *questions)))


main()
