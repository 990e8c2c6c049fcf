"""The service at which an agent attaches: its streams wait here until a scenario opens a session on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, Final

import grpc
import grpc.aio

from archon.conformance.peers.streams import AttachedStream

SERVICE: Final = "archon.api.agent.v1.AttachService"


class AttachPoint:
    """Takes the streams of one subject."""

    def __init__(self) -> None:
        self.streams: list[AttachedStream] = []
        """All streams so far."""
        self.most_spares = 0
        self._numbers = count(1)
        self._spares: list[AttachedStream] = []
        self._changed = asyncio.Condition()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serves Attach on a server."""
        handler: Any = grpc.stream_stream_rpc_method_handler(self._attach)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Attach": handler}),))

    async def _attach(self, messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        stream = AttachedStream(f"attached-{next(self._numbers)}", context)
        self.streams.append(stream)
        served = stream.serve(messages)
        waiting = asyncio.create_task(self._offer(stream), name="conformance: a spare stream")
        try:
            async for message in served:
                yield message
        finally:
            waiting.cancel()
            async with self._changed:
                if stream in self._spares:
                    self._spares.remove(stream)
                self._changed.notify_all()

    async def _offer(self, stream: AttachedStream) -> None:
        while not stream.frames and not stream.over:
            stream.changed.clear()
            await stream.changed.wait()
        async with self._changed:
            if not stream.over:
                self._spares.append(stream)
                self.most_spares = max(self.most_spares, len(self._spares))
            self._changed.notify_all()

    async def spare(self, timeout: float) -> AttachedStream:
        """Takes a stream on which `ready` has come and no session was opened. Raises TimeoutError."""
        async with asyncio.timeout(timeout), self._changed:
            while True:
                while self._spares:
                    stream = self._spares.pop(0)
                    if not (stream.over or stream.is_broken):
                        return stream
                await self._changed.wait()

    @property
    def spares(self) -> list[AttachedStream]:
        """The streams that wait."""
        return [stream for stream in self._spares if not stream.is_broken]

    async def changed(self) -> None:
        """Waits until a stream has come or gone."""
        async with self._changed:
            await self._changed.wait()
