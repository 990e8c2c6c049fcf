"""The clients of the own APIs of Google, Mistral and Amazon Bedrock against a local HTTP server."""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from archon.errors import (
    ArchonError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from archon_mesh.agent import Agent
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ToolSpec, Usage, create_model
from archon_mesh.llm.native.clients import PROVIDERS
from archon_mesh.llm.native.model import NativeModel
from archon_mesh.tools import tool
from archon_mesh.tools.image import Image
from tests.fixtures.mcp_server import PNG
from tests.fixtures.native_servers import bedrock, google, mistral, text_block, tool_block
from tests.fixtures.openai_server import Answer, OpenAIServer

KEY = "secret-0123456789"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HELLO = ModelRequest([ChatMessage("system", "Be brief."), ChatMessage("user", "hello")], timeout=10)
WITH_TOOL = ModelRequest(HELLO.messages, tools=[ToolSpec("math.add", "adds", SCHEMA)], timeout=10)

TEXTS = {
    "google": google({"text": "Hel"}, {"text": "lo"}),
    "mistral": mistral({"role": "assistant", "content": "Hel"}, {"content": "lo"}),
    "bedrock": bedrock(*text_block(0, "Hel", "lo")),
}
CALLS = {
    "google": google({"text": "So."}, {"functionCall": {"id": "call_1", "name": "math_add", "args": {"a": 1}}}),
    "mistral": mistral(
        {"role": "assistant", "content": "So."},
        {"tool_calls": [{"id": "calloneee", "index": 0, "function": {"name": "math_add", "arguments": '{"a": 1}'}}]},
        finish="tool_calls",
    ),
    "bedrock": bedrock(*text_block(0, "So."), *tool_block(1, "call_1", "math_add", '{"a"', ": 1}"), finish="tool_use"),
}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "some-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)


@pytest_asyncio.fixture
async def model(provider: str, server: OpenAIServer) -> AsyncIterator[NativeModel]:
    model = NativeModel(provider, "some-model", base_url=server.url.removesuffix("/v1"), api_key=key_of(provider))
    yield model
    await model.close()


def key_of(provider: str) -> str | None:
    return KEY if PROVIDERS[provider].keys else None


async def collect(model: NativeModel, request: ModelRequest = HELLO) -> list[ModelChunk]:
    return [chunk async for chunk in model.stream(request)]


async def test_a_text_is_streamed_and_then_the_whole_reply(
    model: NativeModel, provider: str, server: OpenAIServer
) -> None:
    server.script(TEXTS[provider])
    chunks = await collect(model)
    assert [chunk.text_delta for chunk in chunks if chunk.text_delta] == ["Hel", "lo"]
    served = "some-model" if provider == "bedrock" else "served-model"
    cached = 3 if provider == "bedrock" else 0
    assert chunks[-1].reply == ModelReply("Hello", (), Usage(7, 3, cached_input_tokens=cached), served, "stop")


async def test_a_request_is_sent_completely(model: NativeModel, provider: str, server: OpenAIServer) -> None:
    server.script(TEXTS[provider])
    request = ModelRequest(WITH_TOOL.messages, WITH_TOOL.tools, temperature=0.5, max_tokens=90, timeout=10)
    await model.generate(request)
    [received] = server.received
    body = received.body
    key = received.headers.get("x-goog-api-key") or received.headers["authorization"].removeprefix("Bearer ")
    assert key == KEY if provider != "bedrock" else key.startswith("AWS4-HMAC-SHA256 Credential=some-id/")
    if provider == "google":
        assert received.path == "/v1beta/models/some-model:streamGenerateContent?alt=sse"
        assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
        assert body["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]
        assert body["generationConfig"].items() >= {"temperature": 0.5, "maxOutputTokens": 90}.items()
    elif provider == "mistral":
        assert received.path == "/v1/chat/completions"
        assert [message["content"] for message in body["messages"]] == ["Be brief.", "hello"]
        assert (body["temperature"], body["max_tokens"]) == (0.5, 90)
    else:
        assert received.path == "/model/some-model/converse-stream"
        assert body["system"] == [{"text": "Be brief."}]
        assert body["messages"] == [{"role": "user", "content": [{"text": "hello"}]}]
        assert body["inferenceConfig"] == {"temperature": 0.5, "maxTokens": 90}
    assert "math_add" in str(body)


async def test_a_tool_call_comes_and_goes_back_with_its_result(
    model: NativeModel, provider: str, server: OpenAIServer
) -> None:
    server.script(CALLS[provider], TEXTS[provider])
    chunks = await collect(model, WITH_TOOL)
    reply = chunks[-1].reply
    assert reply is not None
    [call] = reply.tool_calls
    assert (call.name, call.arguments_json.replace(" ", "")) == ("math.add", '{"a":1}')
    assert (reply.text, reply.finish_reason) == ("So.", "tool_calls")
    deltas = [chunk.tool_call_delta for chunk in chunks if chunk.tool_call_delta is not None]
    assert json.loads("".join(delta.arguments_delta for delta in deltas)) == {"a": 1}
    assert [delta.name for delta in deltas if delta.name] == ["math.add"]
    history = [*WITH_TOOL.messages, reply.message(), ChatMessage("tool", "two", tool_call_id=call.id)]
    note = ChatMessage("system", "Last step.")
    assert (await model.generate(ModelRequest([*history, note], WITH_TOOL.tools, timeout=10))).text == "Hello"
    sent = str(server.received[1].body)
    assert (
        sent.index("hello") < sent.index("So.") < sent.index("math_add") < sent.index("two") < sent.index("Last step.")
    )


async def test_images_of_the_user_and_of_results_reach_the_model(
    model: NativeModel, provider: str, server: OpenAIServer
) -> None:
    server.script(CALLS[provider], TEXTS[provider])
    shown = ChatMessage("user", "What is it?", files=(Image(PNG, "image/png"),))
    asked = ModelRequest([shown], WITH_TOOL.tools, timeout=10)
    reply = await model.generate(asked)
    result = ChatMessage("tool", "a dot", tool_call_id=reply.tool_calls[0].id, files=(Image(PNG, "image/png"),))
    await model.generate(ModelRequest([shown, reply.message(), result], WITH_TOOL.tools, timeout=10))
    encoded = b64encode(PNG).decode()
    first, second = (json.dumps(received.body).replace("-", "+").replace("_", "/") for received in server.received)
    assert (first.count(encoded), second.count(encoded)) == (1, 2)


async def test_a_file_that_the_model_does_not_take_is_refused(model: NativeModel, server: OpenAIServer) -> None:
    video = Media(b"....", "video/mp4", name="a.mp4")
    with pytest.raises(InvalidArgument, match=r"a\.mp4"):
        await model.generate(ModelRequest([ChatMessage("user", "See", files=(video,))], timeout=10))
    assert server.received == []


async def test_thinking_is_streamed_and_goes_back_with_its_signature(server: OpenAIServer) -> None:
    model = NativeModel("google", "some-model", base_url=server.url.removesuffix("/v1"), api_key=KEY)
    call = {"functionCall": {"id": "call_1", "name": "math_add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    server.script(google({"text": "Hm.", "thought": True}, call), google({"text": "Two."}), google({"text": "Two."}))
    chunks = await collect(model, WITH_TOOL)
    assert "".join(chunk.thinking_delta for chunk in chunks) == "Hm."
    reply = chunks[-1].reply
    assert reply is not None and reply.text == ""
    result = ChatMessage("tool", "2", tool_call_id="call_1")
    await model.generate(ModelRequest([*HELLO.messages, reply.message(), result], WITH_TOOL.tools, timeout=10))
    sent = server.received[1].body["contents"][1]
    assert sent["role"] == "model"
    assert [part.get("thoughtSignature") for part in sent["parts"] if "functionCall" in part] == ["c2ln"]
    changed = ChatMessage("assistant", "", (ToolCall("other", "math.add", "{}"),), metadata=reply.message().metadata)
    result = ChatMessage("tool", "2", tool_call_id="other")
    await model.generate(ModelRequest([*HELLO.messages, changed, result], WITH_TOOL.tools, timeout=10))
    assert "Hm." not in str(server.received[2].body)
    await model.close()


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, InvalidArgument), (401, Unauthenticated), (404, NotFound), (429, ResourceExhausted), (503, Unavailable)],
)
async def test_a_status_is_the_same_error_as_of_other_clients(
    model: NativeModel, server: OpenAIServer, status: int, error: type[ArchonError]
) -> None:
    body = {"error": {"message": f"it broke with {KEY}", "code": status}, "message": f"it broke with {KEY}"}
    server.script(Answer(body, status, {"Retry-After": "0"}))
    with pytest.raises(error) as caught:
        await model.generate(HELLO)
    assert KEY not in str(caught.value)
    assert len(server.received) == 1, "the package does not retry"


async def test_a_stream_that_breaks_off_is_unavailable(model: NativeModel, provider: str, server: OpenAIServer) -> None:
    whole = TEXTS[provider]
    assert isinstance(whole.events, list)
    server.script(Answer(events=whole.events[:2], end="cut"))
    with pytest.raises(Unavailable) as caught:
        await model.generate(HELLO)
    assert caught.value.kind == "model.provider"


async def test_an_address_that_refuses_connections_is_unavailable(provider: str) -> None:
    async with OpenAIServer() as server:
        url = server.url.removesuffix("/v1")
    model = NativeModel(provider, "some-model", base_url=url, api_key=key_of(provider))
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    await model.close()


async def test_a_cancelled_call_stays_a_cancellation(model: NativeModel, provider: str, server: OpenAIServer) -> None:
    server.script(Answer(events=TEXTS[provider].events, end="silent", delay=2))
    call = asyncio.create_task(model.generate(HELLO))
    await server.arrived.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_reply_at_its_limit_is_cut(model: NativeModel, provider: str, server: OpenAIServer) -> None:
    answers: dict[str, Answer] = {
        "google": google({"text": "half"}, finish="MAX_TOKENS"),
        "mistral": mistral({"content": "half"}, finish="length"),
        "bedrock": bedrock(*text_block(0, "half"), finish="max_tokens"),
    }
    server.script(answers[provider])
    reply = await model.generate(HELLO)
    assert (reply.text, reply.finish_reason) == ("half", "length")


async def test_an_agent_works_with_it(model: NativeModel, provider: str, server: OpenAIServer) -> None:
    added: list[int] = []

    @tool
    def math_add(a: int) -> int:
        """Adds."""
        added.append(a)
        return a + 1

    server.script(CALLS[provider], TEXTS[provider])
    assert await Agent("clerk", model=model, tools=[math_add]).run_async("Add.") == "Hello"
    assert added == [1]


async def test_address_and_key_come_from_the_environment(
    provider: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = PROVIDERS[provider]
    for name in found.keys[-1:]:
        monkeypatch.setenv(name, f"{KEY}\n")
    monkeypatch.setenv(found.address, server.url.removesuffix("/v1"))
    server.script(TEXTS[provider])
    model = create_model(f"{provider}/some-model")
    assert (await model.generate(HELLO)).text == "Hello"
    await model.close()


@pytest.mark.parametrize("provider", ["google", "mistral"])
def test_a_missing_key_is_named(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROVIDERS[provider].keys:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unauthenticated, match=f"set {PROVIDERS[provider].keys[0]}"):
        create_model(f"{provider}/some-model")


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(FailedPrecondition, match=r"pip install 'archon-mesh\[providers\]'"):
        create_model("google/some-model", api_key=KEY)


def test_bedrock_without_a_region_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(InvalidArgument, match=r"Amazon Bedrock cannot be used: .*region"):
        create_model("bedrock/some-model")


async def test_a_typed_answer_is_a_call_of_a_tool(model: NativeModel, provider: str, server: OpenAIServer) -> None:
    answers = {
        "google": google({"functionCall": {"id": "call_1", "name": "final_answer", "args": {"a": 1}}}),
        "mistral": mistral(
            {
                "tool_calls": [
                    {"id": "calloneee", "index": 0, "function": {"name": "final_answer", "arguments": '{"a": 1}'}}
                ]
            },
            finish="tool_calls",
        ),
        "bedrock": bedrock(*tool_block(0, "call_1", "final_answer", '{"a": 1}'), finish="tool_use"),
    }
    server.script(answers[provider])
    request = ModelRequest(WITH_TOOL.messages, WITH_TOOL.tools, timeout=10, output_schema=SCHEMA)
    reply = await model.generate(request)
    assert (json.loads(reply.text), reply.tool_calls) == ({"a": 1}, ())
