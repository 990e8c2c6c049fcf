"""The answer of a model endpoint, decoded: a whole reply, or the events of a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

import httpx2

from archon.errors import ArchonError, Unavailable, UnknownFailure
from archon.failure_kinds import PROVIDER
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.endpoint import EndpointCall
from archon_mesh.llm.endpoint_http import MAX_STREAM, check_size, whole
from archon_mesh.llm.sse import EventReader, ServerEvent

MAX_QUOTED: Final = 200
"""Characters of an answer that is no JSON, in its error."""

DONE: Final = "[DONE]"
"""The data of the last event of many streams."""


class Received(NamedTuple):
    """An event of a stream, or a whole reply: its name, empty if it has none, and its decoded JSON."""

    name: str
    data: object


class Reader(Protocol):
    """Reads one reply."""

    def rest(self) -> Iterator[ModelChunk]:
        """Yields the text that was held back."""
        ...

    def finish(self, request: ModelRequest, model: str, *, is_ended: bool) -> ModelReply:
        """Returns the whole reply."""
        ...


class ReplyStream:
    """One response of an endpoint, which `chunks` reads and closes. `what` describes the answer in errors."""

    def __init__(self, call: EndpointCall, response: httpx2.Response, what: str) -> None:
        self._call = call
        self._response = response
        self._what = what
        self.is_ended = False
        """Whether the server said that the reply ends here."""

    async def chunks(self, add: Callable[[Received], Iterable[ModelChunk]]) -> AsyncGenerator[ModelChunk]:
        """Yields the chunks that `add` makes of the events, or of a whole reply. Bytes that complete no event are an
        empty chunk: a comment shows that a server is alive.

        Raises UnknownFailure for a whole reply that is no JSON, Unavailable for such an event, MessageTooLarge above
        MAX_REPLY or MAX_STREAM, and the errors of `add` and `EndpointCall.step`.
        """
        call, response = self._call, self._response
        try:
            if "json" in response.headers.get("content-type", ""):  # the server does not stream
                data = decoded(await call.step(whole(response)), self._what)
                for chunk in call.read(add, Received("", data)):
                    yield chunk
                self.is_ended = True
                return
            reader, size = EventReader(), 0
            async with aclosing(response.aiter_bytes()) as pieces:
                while (piece := await call.step(anext(pieces, None))) is not None:
                    size += len(piece)
                    check_size(size, MAX_STREAM)
                    events = reader.feed(piece)
                    if not events:
                        yield ModelChunk()
                    for chunk in self._read(events, add):
                        yield chunk
                    if self.is_ended:
                        return  # some servers keep the connection open
            for chunk in self._read(reader.end(), add):
                yield chunk
        finally:
            await response.aclose()

    async def read(
        self, reader: Reader, add: Callable[[Received], Iterable[ModelChunk]], request: ModelRequest, model: str
    ) -> AsyncGenerator[ModelChunk]:
        """Yields the chunks of a reply; the last one has the whole reply, as `reader` has read it. Raises the errors of
        `chunks` and `finish`."""
        async with aclosing(self.chunks(add)) as chunks:
            async for chunk in chunks:
                yield chunk
        for chunk in reader.rest():
            yield chunk
        yield ModelChunk(reply=reader.finish(request, model, is_ended=self.is_ended))

    def _read(
        self, events: Sequence[ServerEvent], add: Callable[[Received], Iterable[ModelChunk]]
    ) -> Iterator[ModelChunk]:
        for event in events:
            self.is_ended |= event.data.strip() == DONE
            if self.is_ended:
                return
            yield from self._call.read(add, Received(event.type, decoded(event.data, self._what, Unavailable)))


def decoded(data: str | bytes, what: str, error: type[ArchonError] = UnknownFailure) -> object:
    """Decodes a body from an endpoint. Raises `error` with its beginning if it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        text = " ".join((data if isinstance(data, str) else data.decode(errors="replace")).split())
        raise error(f"{what}: {text[:MAX_QUOTED]}" if text else what, kind=PROVIDER) from None
