"""pydantic-ai: runs of OpenAIResponsesModel."""

import pytest
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from samples import ASK, City, get_weather

MODEL = OpenAIResponsesModel("gpt-5")
SLEET = "The result is sleet in Ghent"


def test_instructions_alone():
    assert Agent(MODEL, instructions="Say something.").run_sync().output


def test_reasoning_is_sent_back_in_a_loop():
    settings = OpenAIResponsesModelSettings(openai_reasoning_effort="low", openai_reasoning_summary="auto")
    assert Agent(MODEL, tools=[get_weather], model_settings=settings).run_sync(ASK).output == SLEET


async def test_streamed_loop():
    async with Agent(MODEL, tools=[get_weather]).run_stream(ASK) as result:
        assert [text async for text in result.stream_text()][-1] == SLEET


def test_output_type():
    assert Agent(MODEL, output_type=City).run_sync("'Ghent' has 265 people.").output == City(name="Ghent", people=265)


@pytest.mark.parametrize("settings", [None, OpenAIResponsesModelSettings(openai_previous_response_id="auto")])
def test_memory(settings):
    first = Agent(MODEL).run_sync("My word is aloe.")
    second = Agent(MODEL).run_sync("Which word was it?", message_history=first.all_messages(), model_settings=settings)
    assert second.output == "It was aloe."


def test_tokens_are_counted_before_the_request():
    few = UsageLimits(input_tokens_limit=25, count_tokens_before_request=True)
    assert Agent(MODEL).run_sync("The quick brown fox jumps over the lazy dog.", usage_limits=few).output
    with pytest.raises(UsageLimitExceeded):
        Agent(MODEL).run_sync("The quick brown fox. " * 20, usage_limits=few)
