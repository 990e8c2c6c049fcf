"""The status that the server ended a stream with, also if gRPC has overwritten it.

If the server ends a call while the client writes a message, the write fails, and grpc.aio sets the status to INTERNAL,
over the server's (https://github.com/grpc/grpc/issues/36066).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import grpc
import grpc.aio

OVERWRITTEN: Final = "Internal error from Core"
"""The details of the status that grpc.aio sets after a failed write."""

PATIENCE: Final = 1.0
"""Seconds within which the server's status arrives after a failed write."""


class StreamStatus:
    """Remembers the first status of a call that grpc.aio has not set itself."""

    def __init__(self, call: Any) -> None:
        """`call` is a call whose requests are a stream. Other objects are never asked for a status."""
        self._error: grpc.aio.AioRpcError | None = None
        self._known = asyncio.Event()
        if isinstance(call, (grpc.aio.StreamStreamCall, grpc.aio.StreamUnaryCall)):
            call.add_done_callback(self._ended)

    async def error(self, raised: grpc.aio.AioRpcError) -> grpc.aio.AioRpcError | None:
        """Returns the error to report for the one that was raised: the server's, if it has sent one; None if it has
        ended the call without an error."""
        if raised.details() != OVERWRITTEN:
            return raised
        try:
            async with asyncio.timeout(PATIENCE):
                await self._known.wait()
        except TimeoutError:
            pass
        error = self._error or raised
        return error if error.code() is not grpc.StatusCode.OK else None

    def _ended(self, call: Any) -> None:
        """gRPC calls this whenever it sets the status, so that nothing here waits for it."""
        code, details = _result_of(call.code()), _result_of(call.details())
        if details != OVERWRITTEN and self._error is None:
            trailing = _result_of(call.trailing_metadata()) or grpc.aio.Metadata()
            self._error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details)
            self._known.set()


def _result_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of a coroutine that does not wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    return None
