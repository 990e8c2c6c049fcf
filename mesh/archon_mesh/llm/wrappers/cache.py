"""Keeps replies for requests that come again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import Final

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.bounded_cache import BoundedCache
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelReply, ModelRequest, Usage
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.wrappers.request_content import canonical, request_content
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, stream_of

MAX_ENTRIES: Final = 1_000
MAX_BYTES: Final = 64 * 1024**2
"""Bytes of the replies that are kept, by default."""

_OVERHEAD: Final = 1_000
"""Bytes of an entry beside its texts."""


class CachedModel(ModelWrapper):
    """Answers a request as before if its content is the same and its temperature is 0; with `always`, whatever its
    temperature.

    The reply that was used longest ago is dropped if there are too many entries or bytes. Failures, and replies that
    were cut off or filtered, are not kept. A reply from the cache is streamed, without its thinking, and has no usage.
    """

    def __init__(
        self,
        client: ModelClient,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        always: bool = False,
    ) -> None:
        """Raises InvalidArgument if a limit is below 1."""
        if min(max_entries, max_bytes) < 1:
            raise InvalidArgument("max_entries and max_bytes must be at least 1")
        super().__init__(client)
        self._replies: BoundedCache[bytes, ModelReply] = BoundedCache(max_entries, max_bytes)
        self._always = always

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        if not self._always and request.temperature != 0:
            async with aclosing(stream_of(self._client, request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        key = sha256(canonical(request_content(request)).encode(errors="surrogatepass")).digest()
        if (reply := self._replies.get(key)) is not None:
            async for chunk in stream_reply(replace(reply, usage=Usage(0, 0))):
                yield chunk
            return
        async with aclosing(stream_of(self._client, request)) as chunks:
            async for chunk in chunks:
                if chunk.reply is not None and chunk.reply.finish_reason in ("stop", "tool_calls"):
                    self._replies.put(key, chunk.reply, _size(chunk.reply))
                yield chunk


def _size(reply: ModelReply) -> int:
    texts = [reply.text, *(call.name + call.arguments_json for call in reply.tool_calls)]
    if reply.provider_state:
        texts.append(canonical(reply.provider_state))
    return _OVERHEAD + sum(len(text.encode(errors="surrogatepass")) for text in texts)
