"""Streams of the OpenAI client from a local HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace

import pytest
import pytest_asyncio

from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, ResourceExhausted, Unavailable, UnknownFailure
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, Usage
from archon_mesh.llm.base import DECLINED
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.async_generators import unclosed_generators
from tests.fixtures.openai_server import USAGE, Answer, OpenAIServer, chunk, completion

KEY = "secret-0123456789"
HELLO = ModelRequest([ChatMessage("user", "hello there, mesh")], timeout=10)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture
async def model(server: OpenAIServer) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel("some-model", base_url=server.url, api_key=KEY)
    yield model
    await model.close()


async def collect(model: OpenAIModel, request: ModelRequest = HELLO) -> list[ModelChunk]:
    return [step async for step in model.stream(request)]


async def test_stream_yields_text_chunks_and_then_the_whole_reply(
    model: OpenAIModel,
    server: OpenAIServer,
) -> None:
    steps = await collect(model)
    assert [step.text_delta for step in steps[:-1]] == ["echo:", " hello", " there,", " mesh"]
    assert steps[-1].reply == ModelReply("echo: hello there, mesh", (), Usage(7, 3), "served-model", "stop")
    assert server.received[0].body["stream_options"] == {"include_usage": True}


async def test_streamed_tool_calls_are_assembled(
    model: OpenAIModel,
    server: OpenAIServer,
) -> None:
    def part(index: int, arguments: str, **head: str) -> dict[str, object]:
        function = {"arguments": arguments, **({"name": head["name"]} if head else {})}
        return chunk({"tool_calls": [{"index": index, "function": function, "id": head.get("id")}]})

    server.script(
        Answer(
            events=[
                part(0, "", id="call_1", name="add"),
                part(0, '{"a"'),
                part(1, '{"b":', id="call_2", name="sub"),
                part(0, ": 1}"),
                part(1, " 2}"),
                chunk(finish="tool_calls"),
                chunk(usage=USAGE),
            ]
        )
    )
    steps = await collect(model)
    deltas = [step.tool_call_delta for step in steps if step.tool_call_delta]
    assert "".join(delta.arguments_delta for delta in deltas if delta.index == 0) == '{"a": 1}'
    assert [delta.name for delta in deltas] == ["add", "", "sub", "", ""]
    reply = steps[-1].reply
    assert reply is not None
    assert reply.tool_calls == (ToolCall("call_1", "add", '{"a": 1}'), ToolCall("call_2", "sub", '{"b": 2}'))
    assert (reply.finish_reason, reply.usage) == ("tool_calls", Usage(7, 3))


async def test_server_that_does_not_stream_is_read_whole(model: OpenAIModel, server: OpenAIServer) -> None:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    server.script(
        Answer(completion({"content": "whole", "tool_calls": calls})),
        Answer({"choices": [{"message": {"content": "little"}}]}),
    )
    steps = await collect(model)
    expected = ModelReply("whole", (ToolCall("call_1", "add", "{}"),), Usage(7, 3), "served-model", "stop")
    assert ("".join(step.text_delta for step in steps), steps[-1].reply) == ("whole", expected)
    reply = (await collect(model))[-1].reply
    assert reply is not None
    assert (reply.text, reply.model) == ("little", "some-model")


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": 1}, [], 7, None])
async def test_json_that_is_no_reply_is_a_typed_error(model: OpenAIModel, server: OpenAIServer, body: object) -> None:
    server.script(Answer(body))
    with pytest.raises(UnknownFailure, match="is not a chat completion"):
        await collect(model)


async def test_missing_usage_is_estimated_and_marked(
    model: OpenAIModel,
    server: OpenAIServer,
) -> None:
    server.script(Answer(events=[chunk({"content": "12345678"}), chunk(finish="stop")], end="silent"))
    reply = (await collect(model))[-1].reply
    assert reply is not None
    assert reply.usage == Usage(5, 2, estimated=True)


async def test_a_stream_that_says_it_is_done_needs_no_reason(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Answer(events=[chunk({"content": "all of it"})], end="done"))
    reply = (await collect(model))[-1].reply
    assert reply is not None
    assert (reply.text, reply.finish_reason) == ("all of it", "stop")


@pytest.mark.parametrize("end", ["cut", "silent"])
async def test_truncated_stream_is_unavailable_and_yields_no_reply(
    model: OpenAIModel, server: OpenAIServer, end: str
) -> None:
    server.script(Answer(events=[chunk({"content": "half a"})], end=end))
    stream = model.stream(HELLO)
    first = await anext(stream)
    with pytest.raises(Unavailable):
        await anext(stream)
    assert first.text_delta == "half a"
    assert (await model.generate(HELLO)).text == "echo: hello there, mesh"


async def test_invalid_json_in_a_stream_is_unavailable(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Answer(events=['data: {"id": "c1", "cho\n\n']))
    with pytest.raises(Unavailable):
        await collect(model)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "overloaded", "type": "server_error"}, Unavailable),
        ({"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}, ResourceExhausted),
        ({"message": "bad tool", "type": "invalid_request_error"}, InvalidArgument),
    ],
)
async def test_error_event_in_a_stream_is_raised_as_its_type(
    model: OpenAIModel, server: OpenAIServer, error: dict[str, str], kind: type[ArchonError]
) -> None:
    server.script(Answer(events=[chunk({"content": "a"}), {"error": error}]))
    with pytest.raises(kind, match=error["message"]):
        await collect(model)


async def test_slow_stream_exceeds_the_deadline_as_a_whole(
    model: OpenAIModel,
    server: OpenAIServer,
) -> None:
    server.script(Answer(events=[chunk({"content": "drip "})] * 100, delay=0.05))
    with pytest.raises(DeadlineExceeded):
        await collect(model, ModelRequest(HELLO.messages, timeout=0.3))


async def test_stream_closed_early_releases_its_connection(server: OpenAIServer) -> None:
    model = OpenAIModel("some-model", base_url=server.url, api_key=KEY)
    server.script(Answer(events=[chunk({"content": "a"})] * 1000, delay=0.01))
    stream = model.stream(HELLO)
    assert (await anext(stream)).text_delta == "a"
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.wait_for(server.idle.wait(), 60)
    await model.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(events=[chunk({"content": "all of it"})] * 3), None),
        (Answer(events=[chunk({"content": "half a"}), b"data: {]\n\n", chunk({"content": "never read"})]), Unavailable),
        (Answer(events=[chunk({"content": "a"})] * 1000, delay=0.05), DeadlineExceeded),
        (Answer(status=400, body="x" * 200_000), InvalidArgument),
    ],
    ids=["done", "invalid", "slow", "long error"],
)
async def test_no_part_of_a_reply_is_left_to_the_garbage_collector(
    model: OpenAIModel, server: OpenAIServer, answer: Answer, error: type[ArchonError] | None
) -> None:
    with unclosed_generators() as names:
        server.script(answer)
        with pytest.raises(error) if error else nullcontext():
            await collect(model, replace(HELLO, timeout=0.3))
    assert names == []


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_is_separate_from_the_text(model: OpenAIModel, server: OpenAIServer, field: str) -> None:
    server.script(Answer(events=[chunk({field: "let me see"}), chunk({"content": "yes"}), chunk(finish="stop")]))
    steps = await collect(model)
    assert [step.thinking_delta for step in steps] == ["let me see", "", ""]
    assert steps[-1].reply is not None
    assert steps[-1].reply.text == "yes"


async def test_a_refusal_is_a_reply_that_says_so(model: OpenAIModel, server: OpenAIServer) -> None:
    refusal = {"content": None, "refusal": "I cannot."}
    server.script(Answer(events=[chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop")]))
    server.script(Answer(completion(refusal)))
    streamed, whole = (await collect(model))[-1].reply, await model.generate(HELLO)
    assert streamed is not None
    for reply in (streamed, whole):
        assert (reply.text, reply.finish_reason) == ("I cannot.", DECLINED)


async def test_a_field_that_a_server_refuses_by_name_is_left_out_from_then_on(
    model: OpenAIModel, server: OpenAIServer
) -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]
    server.script(Answer({"detail": detail}, status=422))
    for _ in range(2):
        reply = (await collect(model))[-1].reply
        assert reply is not None
        assert reply.text == "echo: hello there, mesh"
    assert ["stream_options" in received.body for received in server.received] == [True, False, False]


async def test_a_field_that_requests_need_is_refused_once(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Answer({"error": {"message": "unknown field: messages"}}, status=400))
    with pytest.raises(InvalidArgument, match="unknown field"):
        await collect(model)
    assert len(server.received) == 1


async def test_a_temperature_is_left_out_only_if_the_server_takes_none(
    model: OpenAIModel, server: OpenAIServer
) -> None:
    warm = replace(HELLO, temperature=7.0)
    server.script(Answer({"error": {"message": "temperature must be between 0 and 2"}}, status=400))
    with pytest.raises(InvalidArgument, match="between 0 and 2"):
        await collect(model, warm)
    no_options = Answer({"error": {"message": "stream_options: invalid"}}, status=400)
    no_temperature = Answer({"error": {"message": "'temperature' does not support 7 with this model"}}, status=400)
    server.script(no_options, no_temperature)
    assert (await collect(model, warm))[-1].reply is not None
    assert not {"temperature", "stream_options"} & set(server.received[-1].body)


async def test_thinking_goes_back_with_the_calls_that_it_led_to(model: OpenAIModel, server: OpenAIServer) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    server.script(
        Answer(events=[chunk({"reasoning_content": "I "}), chunk({"reasoning_content": "add."}),
                       chunk({"tool_calls": [call]}), chunk(finish="tool_calls")])
    )  # fmt: skip
    reply = (await collect(model))[-1].reply
    assert reply is not None
    await collect(model, ModelRequest([*HELLO.messages, reply.message(), ChatMessage("tool", "3", tool_call_id="c1")]))
    said = server.received[-1].body["messages"][1]
    assert (said["role"], said["reasoning_content"]) == ("assistant", "I add.")


async def test_comments_show_that_a_server_is_alive(model: OpenAIModel, server: OpenAIServer) -> None:
    events = [*[": keep-alive\n\n"] * 3, chunk({"content": "done"}), chunk(finish="stop")]
    server.script(Answer(events=events, delay=0.01))
    steps = await collect(model)
    assert [step for step in steps if step == ModelChunk()], "an empty chunk for each comment"
    assert steps[-1].reply is not None
    assert steps[-1].reply.text == "done"


@pytest.mark.parametrize("arguments", ['{"a": 1, "b":', "[1]", "", "null"])
async def test_calls_go_back_with_an_object_as_arguments(
    model: OpenAIModel, server: OpenAIServer, arguments: str
) -> None:
    said = ChatMessage("assistant", tool_calls=(ToolCall("c1", "add", arguments),))
    await collect(model, ModelRequest([*HELLO.messages, said, ChatMessage("tool", "no", tool_call_id="c1")]))
    sent = json.loads(server.received[-1].body["messages"][1]["tool_calls"][0]["function"]["arguments"])
    assert sent == ({"invalid_json": arguments} if arguments else {})


async def test_system_messages_are_one_for_servers_of_other_makers(model: OpenAIModel, server: OpenAIServer) -> None:
    await collect(model, ModelRequest([ChatMessage("system", "A"), ChatMessage("system", "B"), *HELLO.messages]))
    assert [message["role"] for message in server.received[-1].body["messages"]] == ["system", "user"]
