"""Typed answers over HTTP: what each API is asked, and what is read from its replies."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from pydantic import BaseModel

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent, Middleware
from archon_mesh.agent.events.types import AgentEvent, TextMessageContent
from archon_mesh.core.messages import ORIGIN, ChatMessage
from archon_mesh.llm import ModelClient, ModelRequest, TextToolModel
from archon_mesh.llm.anthropic import AnthropicModel
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.responses import ResponsesModel
from archon_mesh.tools import tool
from tests.fixtures import anthropic_server, responses_server
from tests.fixtures.anthropic_server import AnthropicServer
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk, completion
from tests.fixtures.responses_server import ResponsesServer

KEY = "secret-0123456789"


class City(BaseModel):
    name: str
    people: int


class Loose(BaseModel):
    """Has an optional field, so that its schema is not strict."""

    name: str
    people: int = 0


ROME = '{"name": "Rome", "people": 3}'
PIECES = ('{"name": ', '"Rome", "people": 3}')


@tool
def look(place: str) -> str:
    """Looks."""
    return f"nothing at {place}"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


def says(text: str) -> Answer:
    return Answer(events=[chunk({"content": text}), chunk(finish="stop")])


def calls(name: str, arguments: str, index: int = 0) -> dict[str, Any]:
    call = {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": arguments}}
    return chunk({"tool_calls": [call]})


def refuses(message: str) -> Answer:
    return Answer({"error": {"message": message, "type": "invalid_request_error"}}, status=400)


async def answer_of(model: ModelClient, output: Any = City, **fields: Any) -> Any:
    try:
        return await Agent("a", model=model, output=output, retries=0, **fields).run_async("Which city?")
    finally:
        await model.close()


def notes(body: dict[str, Any]) -> list[str]:
    texts = [message["content"] for message in body["messages"] if message["role"] == "system"]
    return [text for text in texts if "JSON Schema" in text]


# Chat completions


@pytest.mark.parametrize("tools", [[], [look]], ids=["without tools", "with tools"])
async def test_openai_enforces_the_schema(server: OpenAIServer, tools: list[Any]) -> None:
    server.script(says(ROME))
    model = OpenAIModel("m", base_url=server.url, server="openai")
    assert await answer_of(model, tools=tools) == City(name="Rome", people=3)
    (request,) = server.received
    form = request.body["response_format"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    assert form["json_schema"]["schema"]["additionalProperties"] is False
    assert len(request.body.get("tools", ())) == len(tools)


async def test_schema_that_is_not_strict_is_sent_as_it_is(server: OpenAIServer) -> None:
    server.script(says('{"name": "Rome"}'))
    model = OpenAIModel("m", base_url=server.url, server="openai")
    assert await answer_of(model, Loose) == Loose(name="Rome")
    sent = server.received[0].body["response_format"]["json_schema"]
    assert (sent["strict"], sent["schema"]) == (False, Loose.model_json_schema())


@pytest.mark.parametrize(
    ("family", "expected"), [("vllm", "json_schema"), ("gemini", "json_schema"), ("groq", "json_object"), ("tgi", None)]
)
async def test_server_enforces_what_it_can(server: OpenAIServer, family: str, expected: str | None) -> None:
    server.script(says(ROME))
    assert await answer_of(OpenAIModel("m", base_url=server.url, server=family)) == City(name="Rome", people=3)
    (request,) = server.received
    assert request.body.get("response_format", {}).get("type") == expected
    assert len(notes(request.body)) == 1


async def test_plain_schema_goes_to_servers_that_know_no_other(server: OpenAIServer) -> None:
    class Trip(BaseModel):
        cities: list[City]

    server.script(says(f'{{"cities": [{ROME}]}}'))
    await answer_of(OpenAIModel("m", base_url=server.url, server="gemini"), Trip)
    sent = server.received[0].body["response_format"]["json_schema"]
    assert sent["strict"] is False
    assert "$defs" not in sent["schema"]
    assert sent["schema"]["properties"]["cities"]["items"]["properties"]["name"]["type"] == "string"


@pytest.mark.parametrize("family", ["vllm", "ollama", "gemini", "groq", "tgi"])
async def test_with_tools_the_answer_is_a_tool(server: OpenAIServer, family: str) -> None:
    server.script(
        Answer(events=[calls("look", '{"place": "Rome"}'), chunk(finish="tool_calls")]),
        Answer(events=[calls("final_answer", ROME), chunk(finish="tool_calls")]),
    )
    model = OpenAIModel("m", base_url=server.url, server=family)
    assert await answer_of(model, tools=[look]) == City(name="Rome", people=3)
    for request in server.received:
        assert [each["function"]["name"] for each in request.body["tools"]] == ["look", "final_answer"]
        assert "response_format" not in request.body
        assert notes(request.body) == []


async def test_text_in_place_of_the_tool_is_read_too(server: OpenAIServer) -> None:
    server.script(says(f"The answer is:\n{ROME}"))
    model = OpenAIModel("m", base_url=server.url, server="vllm")
    assert await answer_of(model, tools=[look]) == City(name="Rome", people=3)


async def test_answer_besides_a_call_waits_for_its_result(server: OpenAIServer) -> None:
    both = [calls("look", '{"place": "x"}'), calls("final_answer", '{"name": "?", "people": 0}', 1)]
    final = Answer(events=[calls("final_answer", ROME), chunk(finish="tool_calls")])
    server.script(Answer(events=[*both, chunk(finish="tool_calls")]), final)
    model = OpenAIModel("m", base_url=server.url, server="vllm")
    assert await answer_of(model, tools=[look]) == City(name="Rome", people=3)
    assert [message["role"] for message in server.received[1].body["messages"]] == ["user", "assistant", "tool"]


async def test_tool_of_the_answer_is_text_to_hooks_and_readers(server: OpenAIServer) -> None:
    seen: list[str] = []
    events: list[AgentEvent] = []

    class Watching(Middleware):
        def before_tool(self, hook: Any) -> None:
            seen.append(hook.tool_call.name)

    async def on_event(event: AgentEvent) -> None:
        events.append(event)

    first = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "final_answer", "arguments": ""}}]})
    rest = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in PIECES]
    server.script(Answer(events=[first, *rest, chunk(finish="tool_calls")]))
    model = OpenAIModel("m", base_url=server.url, server="vllm")
    agent = Agent("a", model=model, output=City, tools=[look], middlewares=[Watching()])
    assert await agent.run_async("?", event_handlers=[on_event]) == City(name="Rome", people=3)
    await model.close()
    assert [event.delta for event in events if isinstance(event, TextMessageContent)] == list(PIECES)
    assert (seen, [event.type for event in events if "TOOL" in event.type]) == ([], [])


REFUSALS = [
    "Invalid schema for response_format 'answer': In context=(), 'required' is required to be supplied",
    "This response_format type is unavailable now",
    "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "This model does not support response format `json_schema`.",
    "Invalid JSON payload received. Unknown name response_schema: Cannot find field.",
    "The specified grammar is too complex",
]


@pytest.mark.parametrize("message", REFUSALS)
async def test_refused_schema_is_not_sent_again(server: OpenAIServer, message: str) -> None:
    model = OpenAIModel("m", base_url=server.url, server="vllm")
    agent = Agent("a", model=model, output=City, retries=0)
    server.script(refuses(message), refuses(message), says(ROME), says(ROME))
    for _ in range(2):
        assert await agent.run_async("?") == City(name="Rome", people=3)
    await model.close()
    forms = [request.body.get("response_format", {}) for request in server.received]
    assert [form.get("type") for form in forms] == ["json_schema", "json_schema", "json_object", "json_object"]
    assert [form["json_schema"]["strict"] for form in forms[:2]] == [True, False]


@pytest.mark.parametrize("family", ["groq", "vllm"])
async def test_reply_that_a_server_found_to_be_no_json_is_asked_for_freely(server: OpenAIServer, family: str) -> None:
    message = "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."
    server.script(refuses(message), says(f"It is {ROME}."))
    assert await answer_of(OpenAIModel("m", base_url=server.url, server=family)) == City(name="Rome", people=3)
    assert ["response_format" in request.body for request in server.received] == [True, False]


async def test_server_without_any_format_gets_the_prompt(server: OpenAIServer) -> None:
    model = OpenAIModel("m", base_url=server.url, server="vllm")
    message = "'response_format' is not supported"
    server.script(refuses(message), refuses(message), refuses(message), says(ROME))
    assert await answer_of(model) == City(name="Rome", people=3)
    assert "response_format" not in server.received[-1].body
    assert len(notes(server.received[-1].body)) == 1


async def test_other_mistakes_are_still_reported(server: OpenAIServer) -> None:
    server.script(refuses("the model does not exist"))
    with pytest.raises(InvalidArgument, match="does not exist"):
        await answer_of(OpenAIModel("m", base_url=server.url, server="openai"))


async def test_refusal_of_the_model_is_no_answer(server: OpenAIServer) -> None:
    declined = Answer(events=[chunk({"refusal": "I cannot."}), chunk(finish="stop")])
    server.script(declined, says(ROME))
    model = OpenAIModel("m", base_url=server.url, server="openai")
    assert await answer_of(model) == City(name="Rome", people=3)


async def test_enforced_answer_that_a_server_takes_for_thinking_is_read(server: OpenAIServer) -> None:
    server.script(Answer(events=[chunk({"reasoning_content": ROME}), chunk(finish="stop")]))
    assert await answer_of(OpenAIModel("m", base_url=server.url, server="vllm")) == City(name="Rome", people=3)


async def test_repair_ends_with_a_user_for_servers_that_need_one(server: OpenAIServer) -> None:
    server.script(says('{"name": "Rome"}'), says(ROME))
    assert await answer_of(OpenAIModel("m", base_url=server.url, server="gemini")) == City(name="Rome", people=3)
    roles = [message["role"] for message in server.received[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


async def test_reply_that_is_not_streamed_is_read_as_well(server: OpenAIServer) -> None:
    call = {"id": "c", "function": {"name": "final_answer", "arguments": ROME}}
    server.script(Answer(body=completion({"content": None, "tool_calls": [call]})))
    model = OpenAIModel("m", base_url=server.url, server="vllm")
    assert await answer_of(model, tools=[look]) == City(name="Rome", people=3)


# The text format


async def test_text_format_asks_in_words_alone(server: OpenAIServer) -> None:
    act = 'Thought: I look.\nAction: {"tool": "look", "arguments": {"place": "x"}}'
    server.script(says(act), says(f"Thought: I know.\nFinal Answer: {ROME}"))
    model = TextToolModel(OpenAIModel("m", base_url=server.url, server="openai"))
    assert await answer_of(model, tools=[look]) == City(name="Rome", people=3)
    for request in server.received:
        assert not request.body.keys() & {"response_format", "tools"}
        assert "JSON Schema" in "".join(notes(request.body))


@pytest.mark.parametrize(
    "reply", [ROME, f"```json\n{ROME}\n```", f'{{"final_answer": {ROME}}}', '{"name": "look at me", "people": 3}']
)
async def test_bare_json_in_the_text_format_is_an_answer(server: OpenAIServer, reply: str) -> None:
    server.script(says(reply))
    model = TextToolModel(OpenAIModel("m", base_url=server.url, server="tgi"))
    assert (await answer_of(model, tools=[look])).people == 3
    assert len(server.received) == 1


async def test_answer_that_looks_like_a_call_is_an_answer(server: OpenAIServer) -> None:
    class Order(BaseModel):
        name: str
        arguments: dict[str, int]

    server.script(says('{"name": "bread", "arguments": {"loaves": 2}}'))
    model = TextToolModel(OpenAIModel("m", base_url=server.url, server="tgi"))
    assert await answer_of(model, Order, tools=[look]) == Order(name="bread", arguments={"loaves": 2})


# Anthropic


async def test_anthropic_answers_with_a_tool() -> None:
    async with AnthropicServer() as server:
        server.script(
            anthropic_server.streamed(
                anthropic_server.text(0, "I look."),
                anthropic_server.tool_use(1, "t1", "look", '{"place": "x"}'),
                anthropic_server.stop("tool_use"),
            ),
            anthropic_server.streamed(
                anthropic_server.text(0, "Here it is: "),
                anthropic_server.tool_use(1, "t2", "final_answer", *PIECES),
                anthropic_server.stop("tool_use"),
            ),
        )
        model = AnthropicModel("m", base_url=server.url, api_key=KEY)
        answer = await answer_of(model, tools=[look], system_prompt="Be brief.")
        assert answer == City(name="Rome", people=3)
        first, second = (request.body for request in server.received)
        assert [each["name"] for each in first["tools"]] == ["look", "final_answer"]
        assert [block["text"] for block in first["system"]] == ["Be brief."]
        assert second["tools"] == first["tools"]
        assert "tool_choice" not in first


async def test_anthropic_caches_nothing_without_further_tools() -> None:
    async with AnthropicServer() as server:
        call = anthropic_server.tool_use(0, "t1", "final_answer", ROME)
        server.script(anthropic_server.streamed(call, anthropic_server.stop("tool_use")))
        await answer_of(AnthropicModel("m", base_url=server.url, api_key=KEY))
        assert "cache_control" not in json.dumps(server.received[0].body)


async def test_anthropic_may_correct_its_answer() -> None:
    async with AnthropicServer() as server:
        wrong = anthropic_server.tool_use(0, "t1", "final_answer", '{"name": "Rome"}')
        right = anthropic_server.tool_use(0, "t2", "final_answer", ROME)
        server.script(*(anthropic_server.streamed(each, anthropic_server.stop("tool_use")) for each in (wrong, right)))
        model = AnthropicModel("m", base_url=server.url, api_key=KEY)
        assert await answer_of(model) == City(name="Rome", people=3)
        texts = [block["text"] for turn in server.received[1].body["messages"] for block in turn["content"]]
        assert texts[1] == '{"name": "Rome"}'
        assert "people: Field required" in texts[2]


# The responses API


async def test_responses_api_enforces_the_schema() -> None:
    async with ResponsesServer() as server:
        model = ResponsesModel("m", base_url=server.url, api_key=KEY)
        model._endpoint.base_url = None  # taken for OpenAI
        server.script(responses_server.streamed(responses_server.text(0, ROME), responses_server.response()))
        assert await answer_of(model, tools=[look]) == City(name="Rome", people=3)
        form = server.received[0].body["text"]["format"]
        assert (form["type"], form["name"], form["strict"]) == ("json_schema", "answer", True)


async def test_schema_that_the_responses_api_refuses_is_not_sent_again() -> None:
    async with ResponsesServer() as server:
        model = ResponsesModel("m", base_url=server.url, api_key=KEY)
        model._endpoint.base_url = None  # taken for OpenAI
        refused = refuses("Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.")
        server.script(refused, responses_server.streamed(responses_server.text(0, ROME), responses_server.response()))
        assert await answer_of(model) == City(name="Rome", people=3)
        assert [each.body["text"]["format"]["type"] for each in server.received] == ["json_schema", "json_object"]


# Requests in general


def test_requests_of_other_clients_ask_in_words() -> None:
    request = ModelRequest([ChatMessage("system", "as JSON", metadata={ORIGIN: "output"}), ChatMessage("user", "?")])
    model = OpenAIModel("m", base_url="http://127.0.0.1:1/v1", server="openai")
    assert "response_format" not in model._arguments(request)
    assert "response_format" in model._arguments(replace(request, output_schema=City.model_json_schema()))
