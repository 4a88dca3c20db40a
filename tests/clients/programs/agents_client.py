"""One scenario with the Agents SDK or LangChain for Python: agents_client.py BASE_URL MODEL SCENARIO [FOLDER or QUESTIONS]

The last line of its output is a JSON object with the results.
"""

import asyncio
import json
import sys

import openai
from agents import Agent, HostedMCPTool, OpenAIConversationsSession, OpenAIResponsesModel, Runner, ToolSearchTool, WebSearchTool
from agents import function_tool, set_tracing_disabled, tool_namespace

QUESTIONS = ["My word is aloe.", "How is the get_weather in Ghent?", "Which word was it?"]


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sleet in {city}"


def agent(client, model) -> Agent:
    return Agent(name="helper", instructions="Be brief.", model=OpenAIResponsesModel(model, client), tools=[get_weather])


async def previous_response(client, model, _):
    """Turns that name the response before."""
    texts, last, kinds = [], None, []
    for question in QUESTIONS:
        result = await Runner.run(agent(client, model), question, previous_response_id=last, auto_previous_response_id=True)
        last = result.last_response_id
        texts.append(result.final_output)
        kinds.append([item.type for item in result.new_items])
    return {"texts": texts, "kinds": kinds}


async def conversation_id(client, model, _):
    """Turns in a conversation of the server, to which they add their items."""
    conversation = await client.conversations.create()
    texts = []
    for question in QUESTIONS:
        result = await Runner.run(agent(client, model), question, conversation_id=conversation.id)
        texts.append(result.final_output)
    items = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
    return {"texts": texts, "kinds": [item.type for item in items]}


async def conversations_session(client, model, _):
    """A session whose items the SDK itself keeps in a conversation; streamed, and by hand."""
    session = OpenAIConversationsSession(openai_client=client)
    texts = []
    for question in QUESTIONS:
        result = Runner.run_streamed(agent(client, model), question, session=session)
        async for _ in result.stream_events():
            pass
        texts.append(result.final_output)
    items = await session.get_items()
    newest = await session.get_items(limit=2)
    popped = await session.pop_item()
    left = await session.get_items()
    await session.add_items([{"role": "user", "content": f"message {n}"} for n in range(25)])
    many = await session.get_items()
    await session.clear_session()
    return {
        "texts": texts,
        "kinds": [item["type"] for item in items],
        "newest": [item["id"] for item in newest] == [item["id"] for item in items[-2:]],
        "popped": popped["id"] == items[-1]["id"] and len(left) == len(items) - 1,
        "added": len(many) - len(left),
        "last": many[-1]["content"][0]["text"],
        "cleared": await session.get_items(),
    }


async def search(client, model, *questions):
    """Turns with the hosted search, each with the items of those before."""
    searcher = Agent(name="searcher", model=OpenAIResponsesModel(model, client), tools=[WebSearchTool()])
    items, texts = [], []
    for question in questions:
        result = Runner.run_streamed(searcher, [*items, {"role": "user", "content": question}])
        async for _ in result.stream_events():
            pass
        items = result.to_input_list()
        texts.append(result.final_output)
    return texts


async def mcp(client, model, _):
    """A tool of an MCP server, of which a person approves the first call and refuses the second; whole and streamed."""
    seen = []
    for streams in (False, True):
        asked = []

        def decide(request):
            asked.append(json.loads(request.data.arguments)["text"])
            return {"approve": True} if len(asked) == 1 else {"approve": False, "reason": "That is enough."}

        server = {"type": "mcp", "server_label": "demo", "require_approval": "always"}
        tool = HostedMCPTool(tool_config=server, on_approval_request=decide)
        caller = Agent(name="caller", model=OpenAIResponsesModel(model, client), tools=[tool])
        if streams:
            result = Runner.run_streamed(caller, "Echo drawer.")
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(caller, "Echo drawer.")
        kinds = [item.raw_item["type"] if isinstance(item.raw_item, dict) else item.raw_item.type for item in result.new_items]
        seen.append({"text": result.final_output, "asked": asked, "kinds": kinds})
    return {"seen": seen}


async def tool_search(client, model, _):
    """One of many deferred tools, which the model searches for, and calls again in the next turn without a search."""

    @function_tool(defer_loading=True)
    def list_tickets(customer: str) -> str:
        """The support tickets of a customer."""
        return f"two tickets of {customer}"

    def report(number):
        def make(month: str) -> str:
            return f"report {number} of {month}"

        return function_tool(make, name_override=f"report_{number}", description_override=f"Report {number}: " + "sums of sales. " * 30, defer_loading=True)

    tools = tool_namespace(name="crm", description="Customers and sales.", tools=[*map(report, range(20)), list_tickets])
    seller = Agent(name="seller", model=OpenAIResponsesModel(model, client), tools=[*tools, ToolSearchTool()])
    first = await Runner.run(seller, "Which tickets has Ada?")
    second = await Runner.run(seller, [*first.to_input_list(), {"role": "user", "content": "And Bo?"}])
    kinds = [[item.type for item in result.new_items] for result in (first, second)]
    return {"texts": [first.final_output, second.final_output], "kinds": kinds}


async def langchain(client, model, _):
    """A chat that sends only the newest messages, as it names the response before."""
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(base_url=str(client.base_url), api_key="any", model=model, use_responses_api=True, use_previous_response_id=True, max_retries=0)
    messages, texts = [], []
    for question in (QUESTIONS[0], QUESTIONS[2]):
        messages.append(HumanMessage(question))
        messages.append(await chat.ainvoke(messages))
        texts.append(messages[-1].text)
    messages.append(HumanMessage("Say it again."))
    chunks = [chunk async for chunk in chat.astream(messages)]
    stored = await client.responses.retrieve(messages[-2].response_metadata["id"])
    return {
        "texts": texts,
        "streamed": "".join(chunk.text for chunk in chunks),
        "linked": stored.previous_response_id == messages[1].response_metadata["id"],
        "sent": [item.content[0].text async for item in client.responses.input_items.list(stored.id)],
    }


SCENARIOS = [conversation_id, conversations_session, langchain, mcp, previous_response, search, tool_search]


async def main():
    base_url, model, name, *more = sys.argv[1:]
    set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=45)
    scenario = {function.__name__: function for function in SCENARIOS}[name]
    print(json.dumps(await scenario(client, model, *more)))


asyncio.run(main())
