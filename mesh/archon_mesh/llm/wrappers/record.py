"""Records the calls of a client in a cassette."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path

from typing_extensions import override

from archon.errors import ResourceExhausted
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelReply, ModelRequest
from archon_mesh.llm.wrappers.cassette import MAX_BYTES, encode_line, encode_reply, redacted, secrets_of_environment
from archon_mesh.llm.wrappers.request_content import request_content
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, stream_of


class RecordingModel(ModelWrapper):
    """Appends each request and its reply to the file at `path`, for a ReplayModel. Calls that fail are not recorded.

    Replaced in everything that is written are `secrets`, the values of environment variables whose names end like a
    secret's, and texts that look like keys. Keys of providers are no part of requests anyway; check nevertheless the
    results of tools before you publish a cassette. Raises ResourceExhausted if the file would exceed MAX_BYTES.
    """

    def __init__(self, client: ModelClient, path: Path | str, *, secrets: Iterable[str] = ()) -> None:
        super().__init__(client)
        self._path = Path(path)
        self._secrets = [secret for secret in secrets if secret]

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        thinking: list[str] = []
        async with aclosing(stream_of(self._client, request)) as chunks:
            async for chunk in chunks:
                thinking.append(chunk.thinking_delta)
                if chunk.reply is not None:
                    await asyncio.to_thread(self._append, request, chunk.reply, "".join(thinking))
                yield chunk

    def _append(self, request: ModelRequest, reply: ModelReply, thinking: str) -> None:
        secrets = [*self._secrets, *secrets_of_environment()]
        content = redacted(request_content(request), secrets)
        line = encode_line(content, redacted(encode_reply(reply, thinking), secrets)).encode(errors="backslashreplace")
        with self._path.open("ab") as file:
            if file.tell() + len(line) > MAX_BYTES:
                raise ResourceExhausted(f"the cassette {self._path} would exceed {MAX_BYTES:,} bytes")
            file.write(line)
