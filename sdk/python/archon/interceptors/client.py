"""Client side: calls carry the deadline and the credentials, and raise the class of error that the server raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from archon import context, status
from archon.errors import ArchonError, OperationCancelled
from archon.interceptors.stream_status import StreamStatus
from archon.security.credentials import Credentials
from archon.telemetry.spans import end_rpc_span, start_rpc_span, within

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that a unary call may take by default."""

T = TypeVar("T")


def _outgoing(
    timeout: float | None, metadata: Any, default: float | None, credentials: Credentials
) -> tuple[float | None, grpc.aio.Metadata]:
    """Returns the timeout and the metadata of a call with the deadline, the credentials and the trace filled in."""
    left = context.current().remaining()
    if timeout is None:
        timeout = default
    if left is not None:
        timeout = left if timeout is None else min(timeout, left)
    own = tuple(metadata or ())
    return timeout, grpc.aio.Metadata(*own, *credentials.metadata(), *_trace(own))


def _trace(metadata: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """W3C Trace Context of the current span or of the call being served, unless the metadata has one."""
    traceparent, tracestate = context.trace()
    if not traceparent or any(key == "traceparent" for key, _ in metadata):
        return
    yield "traceparent", traceparent
    if tracestate:
        yield "tracestate", tracestate


class _Cancellation:
    """Notices a cancellation of the current task that grpc.aio has swallowed, as it does if the status of a stream
    arrives in the same turn of the event loop: a background loop that then opens another stream would never end."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task is not None else 0

    def check(self) -> None:
        """Raises CancelledError if the task was cancelled since."""
        if self._task is not None and self._task.cancelling() > self._before:
            raise asyncio.CancelledError


class _Translated(grpc.aio.UnaryUnaryCall):  # type: ignore[type-arg]
    """A call that raises ArchonErrors when it is awaited."""

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


class StreamStream(grpc.aio.StreamStreamClientInterceptor):
    """The guard of streams in both directions. Without an interceptor, gRPC leaves the task that sends the requests of
    a stream that the server has ended: it is destroyed while it is pending, with a line in the log."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def intercept_stream_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        details = client_call_details
        timeout, metadata = _outgoing(details.timeout, details.metadata, None, self._credentials)
        outgoing = grpc.aio.ClientCallDetails(
            details.method, timeout, metadata, details.credentials, details.wait_for_ready
        )
        return await continuation(outgoing, request_iterator)


class GuardedChannel(grpc.aio.Channel):
    """A channel whose calls carry credentials, and the deadline and trace of the call being served. Unary calls raise
    ArchonErrors and have DEFAULT_TIMEOUT.

    gRPC's own interceptors take a task for each call, and leave a cycle of references to it: a channel that was closed
    would go on connecting until the garbage is collected. Only streams in both directions have one, `StreamStream`.
    """

    def __init__(self, channel: grpc.aio.Channel, credentials: Credentials) -> None:
        self._channel = channel
        self._credentials = credentials

    async def __aenter__(self) -> GuardedChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    def unary_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        call = self._channel.unary_unary(method, *arguments, **options)

        def guarded(request: Any, *, timeout: float | None = None, metadata: Any = None, **more: Any) -> _Translated:
            span = start_rpc_span(method, server=False)
            if span is None:
                timeout, metadata = _outgoing(timeout, metadata, DEFAULT_TIMEOUT, self._credentials)
                return _Translated(call(request, timeout=timeout, metadata=metadata, **more))
            with within(span):
                timeout, metadata = _outgoing(timeout, metadata, DEFAULT_TIMEOUT, self._credentials)
            return _Traced(call(request, timeout=timeout, metadata=metadata, **more), span)

        return guarded

    def unary_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        return _stream(self._channel.unary_stream(method, *arguments, **options), self._credentials)

    def stream_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        return _stream(self._channel.stream_unary(method, *arguments, **options), self._credentials)

    def stream_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._channel.stream_stream(method, *arguments, **options)


def _stream(call: Any, credentials: Credentials) -> Callable[..., Any]:
    """Returns a call of a stream with the deadline, the credentials and the trace. It has no timeout by default."""

    def guarded(requests: Any = None, *, timeout: float | None = None, metadata: Any = None, **more: Any) -> Any:
        timeout, metadata = _outgoing(timeout, metadata, None, credentials)
        return call(requests, timeout=timeout, metadata=metadata, **more)

    return guarded


async def translated(call: AsyncIterable[T]) -> AsyncIterator[T]:
    """Iterates over a streaming call. Raises ArchonErrors, and cancels the call if the iteration stops early."""
    ended = StreamStatus(call)
    cancellation = _Cancellation()
    try:
        async for message in call:
            yield message
    except grpc.aio.AioRpcError as raised:
        cancellation.check()
        if (error := await ended.error(raised)) is not None:
            raise status.from_rpc_error(error) from None
    finally:
        cancel = getattr(call, "cancel", None)
        if cancel is not None:
            cancel()
