"""Server side: nothing gets out of a handler but a typed error.

Requests arrive as raw bytes and are decoded here: gRPC's own answer to bytes that are no message is a bare UNKNOWN,
which in a stream takes its neighbours with it. A handler that raises never leaks its text, and a CancelledError of a
handler's own doesn't leave the caller hanging.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio

from archon import errors, status
from archon.context import CallContext, serving
from archon.interceptors import identity

F = TypeVar("F", bound=Callable[..., Any])


def raw_messages(handler: F) -> F:
    """Marks a bidirectional handler that takes and yields serialised messages."""
    handler.__archon_raw__ = True  # type: ignore[attr-defined]
    return handler


def _call_context(context: Any) -> CallContext:
    metadata = context.invocation_metadata() or ()
    tenant, who = identity.incoming(metadata)
    shown = {key: value for key, value in metadata if isinstance(value, str)}
    left = context.time_remaining()
    return CallContext(
        deadline=None if left is None else time.monotonic() + left,
        tenant=tenant,
        identity=who,
        traceparent=shown.get("traceparent", ""),
        tracestate=shown.get("tracestate", ""),
    )


async def _refuse(context: Any, raised: BaseException) -> NoReturn:
    await status.abort(context, status.as_error(raised))
    raise AssertionError("abort returns never")


class _Guarded:
    """One RPC, with its handler inside."""

    def __init__(self, handler: Any, method: str) -> None:
        self._behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        self._decode = handler.request_deserializer
        self._encode = handler.response_serializer
        self._raw = getattr(self._behaviour, "__archon_raw__", False)
        if self._raw:
            self._encode = None
        self._method = method

    def _request(self, incoming: Any) -> Any:
        if hasattr(incoming, "__aiter__"):
            return incoming if self._raw else self._each(incoming)
        return self._decode(incoming) if self._decode else incoming

    async def _each(self, incoming: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for message in incoming:
            yield self._decode(message) if self._decode else message

    def _bytes(self, response: Any) -> bytes:
        if isinstance(response, bytes):
            return response
        return self._encode(response) if self._encode else response  # type: ignore[no-any-return]

    async def one(self, incoming: Any, context: Any) -> bytes:
        with serving(_call_context(context)):
            try:
                response = self._behaviour(self._request(incoming), context)
                if inspect.isawaitable(response):
                    response = await response
                return self._bytes(response)
            except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
                return await self._failed(context, raised)

    async def many(self, incoming: Any, context: Any) -> AsyncIterator[bytes]:
        with serving(_call_context(context)):
            try:
                responses = self._behaviour(self._request(incoming), context)
                if not hasattr(responses, "__aiter__"):
                    raise NotImplementedError(self._method)
                try:
                    async for response in responses:
                        yield self._bytes(response)
                finally:
                    await _close(responses)  # now, and not when it is collected: it holds a watcher's place
            except GeneratorExit:
                raise
            except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
                await self._failed(context, raised)

    async def _failed(self, context: Any, raised: BaseException) -> NoReturn:
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


async def _close(responses: Any) -> None:
    if (close := getattr(responses, "aclose", None)) is not None:
        await close()


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Stands around every handler of a server."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        method = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None:
            return grpc.unary_unary_rpc_method_handler(_unknown_method(method))
        guarded = _Guarded(handler, method)
        if handler.request_streaming:
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.response_streaming
                else grpc.stream_unary_rpc_method_handler
            )
        else:
            make = (
                grpc.unary_stream_rpc_method_handler
                if handler.response_streaming
                else grpc.unary_unary_rpc_method_handler
            )
        behaviour: Any = guarded.many if handler.response_streaming else guarded.one
        return make(behaviour)


def _unknown_method(method: str) -> Any:
    async def refuse(_: bytes, context: Any) -> bytes:
        await _refuse(context, errors.Unimplemented(f"no service here has {method}", metadata={"method": method}))

    return refuse
