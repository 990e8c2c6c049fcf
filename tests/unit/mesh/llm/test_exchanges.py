"""What servers of each family send, as their documentation and public reports describe it, is read at every cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from archon import errors
from archon.errors import ArchonError
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.anthropic import AnthropicModel
from archon_mesh.llm.anthropic_reply import MessageReply
from archon_mesh.llm.chat_reply import ChatReply
from archon_mesh.llm.endpoint import EndpointCall
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.reply_stream import ReplyStream
from archon_mesh.llm.responses import ResponsesModel
from archon_mesh.llm.responses_reply import ResponseReply
from archon_mesh.llm.servers.choose import families
from archon_mesh.llm.tool_names import ToolNames
from tests.fixtures.openai_server import Answer, OpenAIServer
from tests.fixtures.response_pieces import ResponsePieces

FOLDER = Path(__file__).with_name("exchanges")
EXCHANGES = {f"{path.parent.name}/{path.stem}": path for path in sorted(FOLDER.glob("*/*.yaml"))}
READERS: dict[str, Any] = {"chat": ChatReply, "responses": ResponseReply, "messages": MessageReply}
REQUEST = ModelRequest([ChatMessage("user", "go")], timeout=10)


@pytest.fixture(params=EXCHANGES)
def exchange(request: pytest.FixtureRequest) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(EXCHANGES[request.param].read_text())
    return {**data, "family": request.param.partition("/")[0]}


async def read(api: str, pieces: list[bytes]) -> tuple[ModelReply, list[ModelChunk]]:
    reader = READERS[api](ToolNames(["find_city", "add"]))
    add = reader.add if api != "chat" else lambda event: reader.add(event.data)
    replying = ReplyStream(EndpointCall("", REQUEST), cast(Any, ResponsePieces(pieces)), "no reply")
    chunks = [chunk async for chunk in replying.chunks(add)]
    chunks += reader.rest()
    return reader.finish(REQUEST, "m", is_ended=replying.is_ended), chunks


def check(expected: Mapping[str, Any], reply: ModelReply, chunks: list[ModelChunk], *, thinks_late: bool) -> None:
    assert reply.text == expected["text"]
    calls = [[call.name, json.loads(call.arguments_json)] for call in reply.tool_calls]
    assert calls == expected.get("calls", [])
    assert len({call.id for call in reply.tool_calls}) == len(calls)
    if expected["finish"] != "any":
        assert reply.finish_reason == expected["finish"]
    if "usage" in expected:
        usage = reply.usage
        assert [usage.input_tokens, usage.output_tokens, usage.cached_input_tokens] == expected["usage"]
    if "signature" in expected:
        assert expected["signature"] in json.dumps(reply.provider_state)
    if not thinks_late:
        assert "".join(chunk.text_delta for chunk in chunks) == expected["text"]
    assert "".join(chunk.thinking_delta for chunk in chunks) == expected.get("thinking", "")


async def outcome_of(exchange: dict[str, Any], pieces: list[bytes]) -> None:
    expected = exchange["reply"]
    if "error" not in expected:
        check(expected, *await read(exchange["api"], pieces), thinks_late=bool(exchange.get("streams_thinking")))
        return
    kind = ArchonError if expected["error"] == "any" else getattr(errors, expected["error"])
    with pytest.raises(kind, match=expected["words"]):
        await read(exchange["api"], pieces)


async def test_an_exchange_is_read_whole_and_byte_by_byte(exchange: dict[str, Any]) -> None:
    content = exchange["body"].encode()
    await outcome_of(exchange, [content])
    await outcome_of(exchange, [bytes([byte]) for byte in content])
    await outcome_of(exchange, [bytes([byte]) for byte in content.replace(b"\n", b"\r\n")])


@pytest.mark.slow
async def test_an_exchange_is_read_at_every_cut(exchange: dict[str, Any]) -> None:
    content = exchange["body"].encode()
    for cut in range(1, len(content)):
        await outcome_of(exchange, [content[:cut], content[cut:]])


async def test_an_exchange_is_read_by_the_client(exchange: dict[str, Any]) -> None:
    model: OpenAIModel | ResponsesModel | AnthropicModel
    async with OpenAIServer() as server:
        if exchange["api"] == "chat":
            model = OpenAIModel("m", base_url=server.url, server=exchange["family"])
        elif exchange["api"] == "responses":
            model = ResponsesModel("m", base_url=server.url)
        else:
            model = AnthropicModel("m", base_url=server.url.removesuffix("/v1"))
        server.script(Answer(events=[exchange["body"]], end="silent"))
        expected = exchange["reply"]
        if "error" in expected:
            with pytest.raises(ArchonError, match=expected["words"]):
                await model.generate(REQUEST) if exchange["api"] != "chat" else [_ async for _ in model.stream(REQUEST)]
        else:
            chunks = [chunk async for chunk in model.stream(REQUEST)]
            reply = chunks[-1].reply
            assert reply is not None
            check(expected, reply, chunks, thinks_late=bool(exchange.get("streams_thinking")))
        await model.close()


def test_each_family_has_an_exchange() -> None:
    assert {name.partition("/")[0] for name in EXCHANGES} >= set(families()) - {"default"}
