"""LlamaIndex: OpenAIResponses."""

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from samples import ASK, URL, City, get_weather


def llm(**more):
    return OpenAIResponses(**{"model": "gpt-4o", "api_key": "any", "api_base": URL} | more)


def test_streamed():
    parts = llm().stream_chat([ChatMessage(role="user", content="Hello there")])
    assert "".join(part.delta or "" for part in parts) == "You said: Hello there"


def test_call():
    reply = llm().chat_with_tools([FunctionTool.from_defaults(get_weather)], ASK)
    calls = llm().get_tool_calls_from_response(reply)
    assert [(call.tool_name, call.tool_kwargs) for call in calls] == [("get_weather", {"city": "Ghent"})]


@pytest.mark.parametrize("track", [False, True])
async def test_agent(track):
    agent = FunctionAgent(tools=[get_weather], llm=llm(track_previous_responses=track))
    assert str(await agent.run(ASK)) == "The result is sleet in Ghent"


def test_structured():
    assert llm().structured_predict(City, PromptTemplate("'Ghent' has 265 people.")) == City(name="Ghent", people=265)


def test_reasoning():
    model = llm(model="o4-mini", reasoning_options={"effort": "low", "summary": "auto"})
    assert model.chat([ChatMessage(role="user", content="Why?")]).message.content == "You said: Why?"
