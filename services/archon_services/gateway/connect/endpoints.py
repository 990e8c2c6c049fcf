"""The endpoints of the Connect library: each forwards one RPC to its service in the mesh."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.server import Endpoint

from archon.interceptors.client import translated
from archon_services.gateway.connect.errors import Context, failed
from archon_services.gateway.connect.watch_run import WatchRun
from archon_services.gateway.descriptors import Rpc, all_rpcs
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches.runs import WATCH_RUN

MAX_SECONDS: Final = 600.0
"""Seconds that a unary RPC may take, whatever its caller asks for."""

DEFAULT_SECONDS: Final = 30.0
"""Seconds that a unary RPC may take if its caller sets no timeout."""


def endpoints(gateway: Gateway) -> Mapping[str, Any]:
    """Returns the endpoints of all services that the gateway reaches, by their paths."""
    reached = frozenset(gateway.upstream.services)
    return {
        rpc.path: _endpoint(gateway, rpc)
        for rpc in all_rpcs()
        if rpc.service in reached and not rpc.client_streaming  # no browser sends a stream while it reads one
    }


def _endpoint(gateway: Gateway, rpc: Rpc) -> Any:
    method = MethodInfo(
        name=rpc.name,
        service_name=rpc.service,
        input=rpc.request,
        output=rpc.response,
        idempotency_level=IdempotencyLevel.UNKNOWN,
        stream_type=StreamType.SERVER_STREAM if rpc.server_streaming else StreamType.UNARY,
    )
    if rpc.path == WATCH_RUN:
        return Endpoint.server_stream(method, WatchRun(gateway))
    if rpc.server_streaming:
        return Endpoint.server_stream(method, _ServerStream(gateway, rpc))
    return Endpoint.unary(method, _Unary(gateway, rpc))


class _Unary:
    def __init__(self, gateway: Gateway, rpc: Rpc) -> None:
        self._visitors, self._rpc = gateway.visitors, rpc
        self._call = gateway.upstream.forwarding(rpc.service).unary_unary(
            rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString
        )

    async def __call__(self, request: Any, context: Context) -> Any:
        try:
            visitor = self._visitors.of(context.request_headers, self._rpc.path)
            asked = context.timeout_ms
            timeout = DEFAULT_SECONDS if asked is None else min(asked / 1000, MAX_SECONDS)
            return await self._call(request, timeout=timeout, metadata=visitor.metadata)
        except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            raise failed(raised, context) from None


class _ServerStream:
    def __init__(self, gateway: Gateway, rpc: Rpc) -> None:
        self._visitors, self._rpc = gateway.visitors, rpc
        self._call = gateway.upstream.forwarding(rpc.service).unary_stream(
            rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString
        )

    async def __call__(self, request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            visitor = self._visitors.of(context.request_headers, self._rpc.path)
            asked = context.timeout_ms
            timeout = None if asked is None else asked / 1000
            call = self._call(request, timeout=timeout, metadata=visitor.metadata)
            with self._visitors.stream(visitor):
                async with aclosing(cast(AsyncGenerator[Any, None], translated(call))) as messages:
                    async for message in messages:
                        yield message
        except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            raise failed(raised, context) from None
