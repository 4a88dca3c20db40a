"""strands: agents on OpenAIResponsesModel."""

import pytest
from samples import ASK, URL, City, get_weather
from strands import Agent, tool
from strands.models.openai_responses import OpenAIResponsesModel


def agent(stateful=False, **more):
    model = OpenAIResponsesModel(client_args={"api_key": "any", "base_url": URL}, model_id="gpt-4o", stateful=stateful)
    return Agent(model=model, callback_handler=None, **more)


@pytest.mark.parametrize("stateful", [False, True])
def test_tool_loop_and_memory(stateful):
    one = agent(stateful, system_prompt="Be brief.", tools=[tool(get_weather)])
    assert str(one(ASK)).strip() == "The result is sleet in Ghent"
    one("My word is aloe.")
    assert str(one("Which word was it?")).strip() == "It was aloe."


def test_structured_output():
    result = agent()("The city 'Ghent' has 265 people.", structured_output_model=City)
    assert result.structured_output == City(name="Ghent", people=265)


def test_picture():
    picture = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n"}}}
    assert "(image_url)" in str(agent()([{"text": "Look."}, picture]))
