"""semantic-kernel: turns of an OpenAIResponsesAgent."""

import pytest
import samples
from openai import AsyncOpenAI
from semantic_kernel.agents import OpenAIResponsesAgent
from semantic_kernel.functions import kernel_function


class Weather:
    @kernel_function(description="The weather in a city.")
    def get_weather(self, city: str) -> str:
        return samples.get_weather(city)


async def talk(questions, streamed=False, **more):
    agent = OpenAIResponsesAgent(ai_model_id="gpt-4o", client=AsyncOpenAI(), name="helper", **more)
    thread, texts = None, []
    for question in questions:
        texts.append("")
        parts = (agent.invoke_stream if streamed else agent.invoke)(messages=question, thread=thread)
        async for part in parts:
            texts[-1] += str(part.message)
            thread = part.thread
    return texts


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("store", [False, True])
async def test_tool_loop(streamed, store):
    texts = await talk([samples.ASK, "And the weather in Rome?"], streamed, plugins=[Weather()], store_enabled=store)
    assert [text.strip() for text in texts] == ["The result is sleet in Ghent", "The result is sleet in Rome"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_memory(streamed):
    assert (await talk(["My word is aloe.", "Which word was it?"], streamed, instructions="Be brief."))[1] == "It was aloe."
