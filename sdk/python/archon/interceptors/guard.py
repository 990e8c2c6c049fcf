"""Server side: every RPC ends with a response or a typed error, whatever its handler does.

Requests arrive as raw bytes and are decoded here: gRPC itself answers bytes that are no message with a bare UNKNOWN,
which ends a whole stream. The text of an exception that a handler raises never leaks, and a CancelledError of the
handler's own does not leave the caller hanging. Handlers are guarded as they are added to the server: an interceptor
would wrap them again at each call.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio

from archon import errors, mesh_id, status
from archon.context import CallContext, current, enter
from archon.interceptors.open_streams import OpenStreams
from archon.interceptors.wrong_service import wrong_service
from archon.security.authenticator import Caller
from archon.telemetry import metrics
from archon.telemetry.spans import end_rpc_span, start_rpc_span, within

F = TypeVar("F", bound=Callable[..., Any])


def raw_messages(handler: F) -> F:
    """Marks a handler that takes and returns, or yields, serialised messages."""
    handler.__archon_raw__ = True  # type: ignore[attr-defined]
    return handler


class GuardedServer:
    """A server for the generated `add_..._to_server` functions: guards each handler that they add to `server`. Callers
    are let in by the authenticator of `streams`."""

    def __init__(self, server: grpc.aio.Server, streams: OpenStreams) -> None:
        self._server = server
        self._streams = streams

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(tuple(_GuardedService(handler, self._streams) for handler in handlers))

    def add_registered_method_handlers(self, service_name: str, method_handlers: Any) -> None:
        """Does nothing, like grpc.aio's server: the generic handlers serve these methods."""

    def refuse_unknown_methods(self, served: Collection[str]) -> None:
        """Answers all methods that have no handler yet with Unimplemented; `served` are the services here. Call it
        last."""
        self._server.add_generic_rpc_handlers((_UnknownMethods(served),))


class _GuardedService(grpc.GenericRpcHandler):
    def __init__(self, handlers: grpc.GenericRpcHandler, streams: OpenStreams) -> None:
        self._handlers = handlers
        self._streams = streams
        self._guarded: dict[str, Any] = {}

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        guarded = self._guarded.get(method)
        if guarded is None:
            handler = self._handlers.service(handler_call_details)
            if handler is None:
                return None
            guarded = self._guarded[method] = _guard(handler, method, self._streams)
        return guarded


class _UnknownMethods(grpc.GenericRpcHandler):
    def __init__(self, served: Collection[str]) -> None:
        self._served = served

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method

        async def refuse(_: Any, context: Any) -> None:
            await _refuse(context, wrong_service(method, self._served))

        # A stream is answered without a message: a caller that sends none would wait for ever.
        return grpc.stream_stream_rpc_method_handler(refuse)


def _guard(handler: Any, method: str, streams: OpenStreams) -> Any:
    """The handler of one RPC with the guard around it."""
    guarded = _Guarded(handler, method, streams)
    if handler.response_streaming:
        make: Any = (
            grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
        )
        return make(guarded.stream)
    make = grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
    return make(guarded.respond)


class _Guarded:
    """One RPC. gRPC runs each call in an asyncio task of its own, so that the call context needs no reset."""

    def __init__(self, handler: Any, method: str, streams: OpenStreams) -> None:
        self._streams = streams
        self._behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        self._method = method
        raw = getattr(self._behaviour, "__archon_raw__", False)
        self._encode = _identity if raw else handler.response_serializer or _identity
        self._decode = _identity if raw else handler.request_deserializer or _identity
        if handler.request_streaming:
            self._request: Callable[[Any], Any] = _identity if raw else self._each
        else:
            self._request = self._decode

    async def _each(self, incoming: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for message in incoming:
            yield self._decode(message)

    async def respond(self, incoming: Any, context: Any) -> bytes:
        refused = self._admit(context)
        span = start_rpc_span(self._method, server=True)
        if span is None:
            return await self._measured(incoming, context, refused)
        error: errors.ArchonError | None = errors.OperationCancelled("the caller cancelled the call")
        try:
            with within(span):
                response = await self._measured(incoming, context, refused)
            error = None
            return response
        except grpc.aio.AbortError as aborted:
            cause = aborted.__cause__
            error = cause if isinstance(cause, errors.ArchonError) else errors.UnknownFailure("the handler aborted")
            raise
        finally:
            end_rpc_span(span, error)

    async def _measured(self, incoming: Any, context: Any, refused: errors.ArchonError | None) -> bytes:
        recorder = metrics.recorder()
        if recorder is None:
            return await self._respond(incoming, context, refused)
        code, began = "CANCELLED", time.monotonic()
        try:
            response = await self._respond(incoming, context, refused)
            code = "OK"
            return response
        except grpc.aio.AbortError as aborted:
            cause = aborted.__cause__
            code = cause.code if isinstance(cause, errors.ArchonError) else "UNKNOWN"
            raise
        finally:
            labels = ("grpc", self._method.lstrip("/"), code)
            recorder.record(metrics.RPC_DURATION, time.monotonic() - began, labels)

    async def _respond(self, incoming: Any, context: Any, refused: errors.ArchonError | None) -> bytes:
        try:
            if refused is not None:
                raise refused
            mesh_id.check(context.invocation_metadata() or ())
            response = self._behaviour(self._request(incoming), context)
            if inspect.isawaitable(response):
                response = await response
            return self._encode(response)  # type: ignore[no-any-return]
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            return await self._failed(context, raised)

    async def stream(self, incoming: Any, context: Any) -> AsyncIterator[bytes]:
        refused = self._admit(context)
        try:
            if refused is not None:
                raise refused
            mesh_id.check(context.invocation_metadata() or ())
            responses = self._behaviour(self._request(incoming), context)
            if not hasattr(responses, "__aiter__"):
                raise NotImplementedError(self._method)
            with self._streams.opened(current().principal):
                try:
                    async for response in responses:
                        yield response if isinstance(response, bytes) else self._encode(response)
                finally:
                    await _close(responses)  # now, not when it is collected: a watcher's place is held until then
        except GeneratorExit:
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            await self._failed(context, raised)

    def _admit(self, context: Any) -> errors.ArchonError | None:
        """Makes the call the current one. Returns why its caller is refused; None if it is let in."""
        metadata = context.invocation_metadata() or ()
        refused: errors.ArchonError | None = None
        try:
            caller = self._streams.authenticator.caller(self._method, metadata, context.auth_context)
        except errors.ArchonError as error:
            refused, caller = error, Caller()
        enter(_call_context(context, metadata, caller))
        return refused

    async def _failed(self, context: Any, raised: BaseException) -> NoReturn:
        if isinstance(raised, asyncio.CancelledError) and (refusal := self._streams.take_refusal()) is not None:
            await _refuse(context, refusal)
        if isinstance(raised, (grpc.aio.AbortError, KeyboardInterrupt, SystemExit)):
            raise raised
        if isinstance(raised, asyncio.CancelledError):
            task = asyncio.current_task()
            if context.cancelled() or (task is not None and task.cancelling()):
                raise raised
            raised = errors.Internal("a part of the work was cancelled by the server itself")
        if isinstance(raised, NotImplementedError) and not isinstance(raised, errors.ArchonError):
            raised = errors.Unimplemented(
                f"{self._method} is in the contract, but not served here", metadata={"method": self._method}
            )
        await _refuse(context, raised)


def _identity(message: Any) -> Any:
    return message


def _call_context(context: Any, metadata: Any, caller: Caller) -> CallContext:
    traceparent = tracestate = ""
    for key, value in metadata:
        if key == "traceparent":
            traceparent = value
        elif key == "tracestate":
            tracestate = value
    left = context.time_remaining()
    return CallContext(
        deadline=None if left is None else time.monotonic() + left,
        tenant=caller.tenant,
        identity=caller.identity,
        traceparent=traceparent,
        tracestate=tracestate,
        principal=caller.principal,
    )


async def _refuse(context: Any, raised: BaseException) -> NoReturn:
    error = status.as_error(raised)
    # Its frames have the request, which would stay until the garbage is collected: gRPC's error refers to this one.
    raised.__traceback__ = error.__traceback__ = None
    try:
        await status.abort(context, error)
    except grpc.aio.AbortError as aborted:
        raise aborted from error
    raise AssertionError("abort never returns")


async def _close(responses: Any) -> None:
    if (close := getattr(responses, "aclose", None)) is not None:
        await close()
