"""haystack: OpenAIResponsesChatGenerator and its agent."""

import pytest
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from samples import ASK, URL, City, get_weather

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WEATHER = Tool(name="get_weather", description="The weather in a city.", parameters=PARAMETERS, function=get_weather)


def generator(**more):
    return OpenAIResponsesChatGenerator(model="gpt-5", api_base_url=URL, **more)


def ask(question, **more):
    return generator(**more).run([ChatMessage.from_user(question)])["replies"][0]


def test_streamed():
    pieces = []
    assert ask("Hello there", streaming_callback=lambda chunk: pieces.append(chunk.content or "")).text == "You said: Hello there"
    assert "".join(pieces) == "You said: Hello there"


@pytest.mark.parametrize("strict", [False, True])
def test_call(strict):
    call = ask(ASK, tools=[WEATHER], tools_strict=strict).tool_call
    assert (call.tool_name, call.arguments) == ("get_weather", {"city": "Ghent"})


def test_reasoning():
    reply = ask("Why?", generation_kwargs={"reasoning": {"effort": "low", "summary": "auto"}})
    assert reply.reasoning.reasoning_text and reply.text == "You said: Why?"


def test_text_format():
    assert ask("'Ghent' has 265 people.", generation_kwargs={"text_format": City}).text == '{"name": "Ghent", "people": 265}'


@pytest.mark.parametrize("stream", [None, lambda chunk: None])
def test_agent(stream):
    agent = Agent(chat_generator=generator(), tools=[WEATHER], streaming_callback=stream)
    assert agent.run(messages=[ChatMessage.from_user(ASK)])["last_message"].text == "The result is sleet in Ghent"
