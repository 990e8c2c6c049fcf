"""Client side: calls carry the deadline and the identity, and raise the class of error that the server raised."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from archon import context, status
from archon.errors import ArchonError, OperationCancelled
from archon.interceptors import identity
from archon.interceptors.stream_status import StreamStatus
from archon.telemetry.spans import end_rpc_span, start_rpc_span, within

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that a unary call may take by default."""

T = TypeVar("T")


def _outgoing(details: Any, default: float | None) -> Any:
    """The call's details with the deadline, the identity and the trace filled in."""
    timeout = details.timeout
    left = context.current().remaining()
    if timeout is None:
        timeout = default
    if left is not None:
        timeout = left if timeout is None else min(timeout, left)
    own = tuple(details.metadata or ())
    metadata = grpc.aio.Metadata(*own, *identity.outgoing(), *_trace(own))
    return grpc.aio.ClientCallDetails(details.method, timeout, metadata, details.credentials, details.wait_for_ready)


def _trace(metadata: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """W3C Trace Context of the current span or of the call being served, unless the metadata has one."""
    traceparent, tracestate = context.trace()
    if not traceparent or any(key == "traceparent" for key, _ in metadata):
        return
    yield "traceparent", traceparent
    if tracestate:
        yield "tracestate", tracestate


class _Translated(grpc.aio.UnaryUnaryCall):  # type: ignore[type-arg]
    """A call that raises ArchonErrors when it is awaited. If the interceptor raised them, gRPC would raise them again
    when it finalises the call."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from self._call.__await__())
        except grpc.aio.AioRpcError as error:
            raise status.from_rpc_error(error) from None

    def cancel(self) -> bool:
        return bool(self._call.cancel())

    def cancelled(self) -> bool:
        return bool(self._call.cancelled())

    def done(self) -> bool:
        return bool(self._call.done())

    def time_remaining(self) -> float | None:
        return self._call.time_remaining()  # type: ignore[no-any-return]

    def add_done_callback(self, callback: Any) -> None:
        self._call.add_done_callback(callback)

    async def initial_metadata(self) -> Any:
        return await self._call.initial_metadata()

    async def trailing_metadata(self) -> Any:
        return await self._call.trailing_metadata()

    async def code(self) -> Any:
        return await self._call.code()

    async def details(self) -> Any:
        return await self._call.details()

    async def wait_for_connection(self) -> None:
        await self._call.wait_for_connection()


class _Traced(_Translated):
    """A call that ends its span when it has been awaited."""

    def __init__(self, call: Any, span: Any) -> None:
        super().__init__(call)
        self._span = span

    def __await__(self) -> Generator[Any, None, Any]:
        error: ArchonError | None = OperationCancelled("the call was cancelled")
        try:
            answer = yield from super().__await__()
            error = None
            return answer
        except ArchonError as raised:
            error = raised
            raise
        finally:
            end_rpc_span(self._span, error)


def _method(details: Any) -> str:
    method = details.method
    return method.decode() if isinstance(method, bytes) else str(method)


class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        span = start_rpc_span(_method(client_call_details), server=False)
        if span is None:
            return _Translated(await continuation(_outgoing(client_call_details, DEFAULT_TIMEOUT), request))
        with within(span):
            outgoing = _outgoing(client_call_details, DEFAULT_TIMEOUT)
        return _Traced(await continuation(outgoing, request), span)


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
    """The interceptors of a channel, outermost first."""
    return [_UnaryUnary(), _UnaryStream(), _StreamStream()]


async def translated(call: AsyncIterable[T]) -> AsyncIterator[T]:
    """Iterates over a streaming call. Raises ArchonErrors, and cancels the call if the iteration stops early."""
    ended = StreamStatus(call)
    try:
        async for message in call:
            yield message
    except grpc.aio.AioRpcError as raised:
        if (error := await ended.error(raised)) is not None:
            raise status.from_rpc_error(error) from None
    finally:
        cancel = getattr(call, "cancel", None)
        if cancel is not None:
            cancel()
