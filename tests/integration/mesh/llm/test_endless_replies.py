"""Model endpoints that never stop answering."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import product

import pytest

from archon.errors import MessageTooLarge, Unavailable
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelClient, ModelRequest, endpoint_http, reply_stream
from archon_mesh.llm.anthropic import AnthropicModel
from archon_mesh.llm.native import clients
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.responses import ResponsesModel
from archon_mesh.memory.long_term.embedders.openai import OpenAIEmbedder
from tests.fixtures.variants import one_in

MB = 1024 * 1024
JSON = b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n"
REQUEST = ModelRequest((ChatMessage("user", "hello"),), timeout=20.0)

Use = Callable[[str], Awaitable[object]]


class Endless:
    """A server that answers every request with a head and the same piece again and again."""

    def __init__(self) -> None:
        self.head, self.piece = JSON + b"\r\n", b" " * 65_536
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.head)
            while not writer.is_closing():
                writer.write(self.piece)
                await writer.drain()
                self.sent += len(self.piece)
        writer.close()


@pytest.fixture
async def endless(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Endless, str]]:
    monkeypatch.setattr(endpoint_http, "MAX_REPLY", 4 * MB)
    monkeypatch.setattr(reply_stream, "MAX_STREAM", 4 * MB)
    monkeypatch.setattr(clients, "MAX_REPLY", 4 * MB)
    monkeypatch.setattr(clients, "MAX_STREAM", 4 * MB)
    answering = Endless()
    server = await asyncio.start_server(answering.serve, "127.0.0.1", 0)
    async with server:
        yield answering, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def models(url: str) -> dict[str, ModelClient]:
    return {
        "chat": OpenAIModel("m", base_url=url, api_key="the key of this test"),
        "responses": ResponsesModel("m", base_url=url, api_key="the key of this test"),
        "anthropic": AnthropicModel("m", base_url=url, api_key="the key of this test"),
    }


@pytest.mark.parametrize(
    ("answer", "streams", "kind"),
    one_in(5, product(["json", "events", "comments", "compressed"], [False, True], ["chat", "responses", "anthropic"])),
)
async def test_a_reply_without_end_is_ended(
    endless: tuple[Endless, str], kind: str, streams: bool, answer: str
) -> None:
    server, url = endless
    if answer == "events":
        server.head, server.piece = EVENTS + b"\r\n", b'data: {"type": "ping"}\n\n' * 1_000
    elif answer == "comments":
        server.head, server.piece = EVENTS + b"\r\n", b": alive\n\n" * 1_000
    elif answer == "compressed":
        packer = zlib.compressobj(wbits=31)
        server.head = JSON + b"content-encoding: gzip\r\n\r\n" + packer.compress(b"[")
        server.piece = packer.compress(b" " * 20 * MB) + packer.flush(zlib.Z_SYNC_FLUSH)
    model = models(url)[kind]
    with pytest.raises(MessageTooLarge, match="the model endpoint sent more than 4 MiB"):
        if streams:
            async for _ in model.stream(REQUEST):
                pass
        else:
            await model.generate(REQUEST)
    await model.close()
    assert server.sent < 64 * MB


async def test_an_error_without_end_is_cut(endless: tuple[Endless, str]) -> None:
    server, url = endless
    server.head, server.piece = b"HTTP/1.1 500 X\r\n\r\n", b"x" * 65_536
    model = models(url)["chat"]
    with pytest.raises(Unavailable, match="answered 500") as raised:
        await model.generate(REQUEST)
    await model.close()
    assert len(raised.value.message) < 1_000
    assert server.sent < 64 * MB


async def test_embeddings_without_end_are_ended(endless: tuple[Endless, str]) -> None:
    server, url = endless
    embedder = OpenAIEmbedder("m", base_url=url, api_key="the key of this test", retries=0)
    with pytest.raises(MessageTooLarge):
        await embedder.embed(["hello"])
    await embedder.close()
    assert server.sent < 64 * MB


async def test_a_client_of_a_package_is_bounded_too(endless: tuple[Endless, str]) -> None:
    server, url = endless
    for head in (JSON, EVENTS):
        server.head = head + b"\r\n"
        async with clients._http(url) as http:
            with pytest.raises(MessageTooLarge):
                await http.post(url)
