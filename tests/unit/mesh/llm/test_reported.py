"""Replies of servers as users of other clients have reported them, with the public report of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon.errors import ArchonError
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelReply, ModelRequest, ToolSpec
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.openai_server import USAGE, Answer, OpenAIServer, chunk

ADD = ToolSpec("add", "adds", {"type": "object", "properties": {"a": {"type": "integer"}}})
TEXT = [chunk({"content": "Good "}), chunk({"content": "day"}), chunk(finish="stop")]
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def bare(**fields: Any) -> dict[str, Any]:
    """A chunk with these fields only."""
    return fields


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    return {**CALL, "function": {"name": "add", "arguments": arguments}, **fields}


async def reply_to(*events: Any, whole: Any = None, max_tokens: int | None = None) -> ModelReply:
    async with OpenAIServer() as server:
        server.script(Answer(body=whole) if whole is not None else Answer(events=events))
        model = OpenAIModel("m", base_url=server.url)
        request = ModelRequest([ChatMessage("user", "hello")], tools=[ADD], max_tokens=max_tokens)
        try:
            if whole is not None:
                return await model.generate(request)
            chunks = [step async for step in model.stream(request)]
        finally:
            await model.close()
    assert chunks[-1].reply is not None
    return chunks[-1].reply


TEXTS = {
    "NousResearch/hermes-agent#80822: null between chunks": [TEXT[0], None, *TEXT[1:]],
    "cline/cline#8518: usage without choices": [*TEXT, bare(usage=USAGE)],
    "ROCm/ATOM#1711: usage with choices null": [*TEXT, bare(choices=None, usage=USAGE)],
    "paul356/KiCad-AI-Assistant#90: empty choices in the middle": [TEXT[0], bare(choices=[]), *TEXT[1:]],
    "spring-projects/spring-ai#6441: empty tool_calls beside text": [
        *(chunk({"content": text, "tool_calls": []}) for text in ("Good ", "day")),
        chunk(finish="stop"),
    ],
    "sgl-project/sglang#3912: finish_reason as an empty text": [
        chunk({"content": "Good ", "tool_calls": None}, ""),
        chunk({"content": "day"}, ""),
        chunk(finish="stop"),
    ],
    "sgl-project/sglang#18335: role and content null at first": [chunk({"role": None, "content": None}), *TEXT],
    "agentuniverse-ai/agentUniverse#772: delta null": [*TEXT[:2], bare(choices=[{"index": 0, "delta": None}]), TEXT[2]],
    "vllm-project/vllm#27572: no finish_reason": TEXT[:2],
    "BerriAI/litellm#12481: end_turn as the reason": [*TEXT[:2], chunk(finish="end_turn")],
}


@pytest.mark.parametrize("events", TEXTS.values(), ids=TEXTS)
async def test_a_streamed_text_is_read(events: list[Any]) -> None:
    reply = await reply_to(*events)
    assert (reply.text, reply.tool_calls) == ("Good day", ())


WHOLE = {
    "pydantic/pydantic-ai#2996: no id, created or object": bare(choices=[{"message": {"content": "Good day"}}]),
    "mpfaffenberger/code_puppy#750: index and object null": bare(
        object=None, choices=[{"index": None, "message": {"content": "Good day"}, "finish_reason": "stop"}]
    ),
    "pydantic/pydantic-ai#4895: an unknown service_tier": bare(
        service_tier="standard", choices=[{"message": {"content": "Good day"}, "finish_reason": "stop"}]
    ),
    "pydantic/pydantic-ai#3994: the reply within provider": bare(
        id=None, choices=None, provider={"choices": [{"message": {"content": "Good day"}, "finish_reason": "stop"}]}
    ),
}


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
async def test_a_whole_text_is_read(body: dict[str, Any]) -> None:
    assert (await reply_to(whole=body)).text == "Good day"


CALLS = {
    "BerriAI/litellm#35663: stop after a call": [chunk({"tool_calls": [CALL]}), chunk(finish="stop")],
    "vercel/ai#3953: the whole call again at the end": [
        chunk({"tool_calls": [call("")]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]}),
        chunk({"tool_calls": [CALL]}),
        chunk(finish="tool_calls"),
    ],
    "vllm-project/vllm#31501: name and arguments at once": [chunk({"tool_calls": [CALL]}, "tool_calls")],
    "hpx502766238, abetlen/llama-cpp-python#1784: function_call beside tool_calls": [
        chunk({"tool_calls": [CALL], "content": None}),
        chunk(finish="function_call"),
    ],
}


@pytest.mark.parametrize("events", CALLS.values(), ids=CALLS)
async def test_a_call_is_read_once(events: list[Any]) -> None:
    [made] = (await reply_to(*events)).tool_calls
    assert (made.name, json.loads(made.arguments_json)) == ("add", {"a": 1})


async def test_two_calls_with_one_index_stay_two() -> None:
    """apache/maka#1976, vercel/ai#14277"""
    calls = [call('{"a": 1}', id="call_a"), call('{"a": 2}', id="call_b")]
    reply = await reply_to(*(chunk({"tool_calls": [each]}) for each in calls), chunk(finish="tool_calls"))
    assert [json.loads(made.arguments_json) for made in reply.tool_calls] == [{"a": 1}, {"a": 2}]


async def test_arguments_that_are_null_are_none() -> None:
    """pydantic/pydantic-ai#822"""
    [made] = (await reply_to(chunk({"tool_calls": [call(None)]}), chunk(finish="tool_calls"))).tool_calls
    assert made.arguments_json == ""


@pytest.mark.parametrize("finish", ["tool_calls", "length"])
async def test_a_call_that_the_limit_has_cut_says_so(finish: str) -> None:
    """vllm-project/vllm#53269, MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#55"""
    events = [chunk({"tool_calls": [call('{"a": 1, "b": "')]}), chunk(finish=finish), chunk(usage=USAGE)]
    assert (await reply_to(*events, max_tokens=USAGE["completion_tokens"])).finish_reason == "length"


ERRORS = {
    "pydantic/pydantic-ai#2323: an error with status 200": bare(
        id=None, choices=None, error={"message": "no credits left", "code": 402}
    ),
    "openai/openai-agents-python#2850: choices null beside an error": bare(
        choices=None, error={"message": "no credits left", "type": "authentication"}
    ),
    "microsoft/semantic-kernel#11208: the error as a text": bare(choices=None, error="no credits left"),
}


@pytest.mark.parametrize("body", ERRORS.values(), ids=ERRORS)
async def test_an_error_in_place_of_a_reply_has_the_words_of_the_server(body: dict[str, Any]) -> None:
    with pytest.raises(ArchonError, match="no credits left"):
        await reply_to(whole=body)


@pytest.mark.parametrize(
    "body",
    [bare(choices=[]), bare(choices=None, kv_transfer_params=None), "<html>Welcome to nginx</html>"],
    ids=[
        "agentuniverse-ai/agentUniverse#772: no choice in a whole reply",
        "langchain-ai/langchain#32252: choices null without an error",
        "DexForce/EmbodiChain#297: a page in place of a reply",
    ],
)
async def test_what_is_no_reply_is_a_typed_failure(body: Any) -> None:
    with pytest.raises(ArchonError, match="is not a chat completion"):
        await reply_to(whole=body)
