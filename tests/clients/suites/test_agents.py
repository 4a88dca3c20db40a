"""The Agents SDK: loops, handoffs, structured output, sessions, and tools that are found by tool_search."""

import pytest
from agents import Agent, OpenAIConversationsSession, Runner, ToolSearchTool, function_tool, set_tracing_disabled, tool_namespace
from samples import ASK, City, get_weather

set_tracing_disabled(True)
WEATHER = function_tool(get_weather)


@function_tool(defer_loading=True)
def shipping_eta(order: int) -> str:
    """When the shipping of an order arrives."""
    return f"order {order} arrives today"


async def test_tool_loop():
    assert (await Runner.run(Agent(name="helper", tools=[WEATHER]), ASK)).final_output == "The result is sleet in Ghent"


async def test_tool_loop_streamed():
    result = Runner.run_streamed(Agent(name="helper", tools=[WEATHER]), ASK)
    assert "raw_response_event" in {event.type async for event in result.stream_events()}
    assert result.final_output == "The result is sleet in Ghent"


@pytest.mark.parametrize("tools", [[], [WEATHER]])
async def test_structured_output(tools):
    result = await Runner.run(Agent(name="helper", output_type=City, tools=tools), "'Ghent' has 265 people.")
    assert result.final_output == City(name="Ghent", people=265)


async def test_handoff():
    expert = Agent(name="billing", handoff_description="Answers what is about invoices.")
    result = await Runner.run(Agent(name="desk", handoffs=[expert]), "Please transfer my invoices to billing.")
    assert result.last_agent.name == "billing"


@pytest.mark.parametrize("session", [False, True])
async def test_memory(session):
    agent, keep = Agent(name="helper"), {"session": OpenAIConversationsSession()} if session else {}
    first = await Runner.run(agent, "My word is aloe.", **keep)
    keep = keep or {"previous_response_id": first.last_response_id}
    assert (await Runner.run(agent, "Which word was it?", **keep)).final_output == "It was aloe."


async def test_deferred_functions_are_found_by_tool_search():
    agent = Agent(name="shop", tools=[shipping_eta, ToolSearchTool()])
    first = await Runner.run(agent, "When does the shipping of order 42 arrive?")
    assert first.final_output == "The result is order 42 arrives today"
    kinds = [item.type for item in first.new_items if item.type != "reasoning_item"]
    assert kinds[:2] == ["tool_search_call_item", "tool_search_output_item"]
    second = await Runner.run(agent, "And the shipping of order 43?", previous_response_id=first.last_response_id)
    assert second.final_output == "The result is order 43 arrives today"


async def test_deferred_functions_of_a_namespace():
    tools = tool_namespace(name="crm", description="Customers and their orders.", tools=[shipping_eta])
    result = await Runner.run(Agent(name="crm", tools=[*tools, ToolSearchTool()]), "When does the shipping of order 42 arrive?")
    assert result.final_output == "The result is order 42 arrives today"
