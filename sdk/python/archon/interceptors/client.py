"""Client side: the time left and the identity travel on, and errors come back as the class that was raised."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from archon import context, status
from archon.interceptors import identity

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that a unary call may take where nobody says otherwise."""

T = TypeVar("T")


def _outgoing(details: Any, default: float | None) -> Any:
    """The call's details with the deadline and the identity filled in."""
    timeout = details.timeout
    left = context.current().remaining()
    if timeout is None:
        timeout = default
    if left is not None:
        timeout = left if timeout is None else min(timeout, left)
    metadata = grpc.aio.Metadata(*(details.metadata or ()), *identity.outgoing())
    return grpc.aio.ClientCallDetails(details.method, timeout, metadata, details.credentials, details.wait_for_ready)


class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        call = await continuation(_outgoing(client_call_details, DEFAULT_TIMEOUT), request)
        try:
            await call
        except grpc.aio.AioRpcError as error:
            raise status.from_rpc_error(error) from None
        return call


class _UnaryStream(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        return await continuation(_outgoing(client_call_details, None), request)


class _StreamStream(grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await continuation(_outgoing(client_call_details, None), request_iterator)


def client_interceptors() -> list[grpc.aio.ClientInterceptor]:
    """The interceptors of every channel of the mesh, outermost first."""
    return [_UnaryUnary(), _UnaryStream(), _StreamStream()]


async def translated(call: AsyncIterable[T]) -> AsyncIterator[T]:
    """Iterates over a streaming call; raises Archon's errors, and cancels the call when the caller stops early."""
    try:
        async for message in call:
            yield message
    except grpc.aio.AioRpcError as error:
        raise status.from_rpc_error(error) from None
    finally:
        cancel = getattr(call, "cancel", None)
        if cancel is not None:
            cancel()
