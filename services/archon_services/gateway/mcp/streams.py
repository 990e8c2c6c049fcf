"""The response to a request of a client with a session: JSON, or a stream of events once there is more to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from mcp.server.runner import modern_error_data
from starlette.responses import Response
from starlette.types import Receive, Send

from archon_services.gateway.mcp.exchange import Exchange, Outgoing

PING: Final = 15.0
"""Seconds of silence after which a response begins as a stream, or it has a comment: proxies end silent streams."""

PRIMED: Final = "2025-11-25"
"""The revision from which clients take an event without data, by which they know where to resume."""

RETRY_MS: Final = 1_000
"""Milliseconds after which a client whose stream ended comes back."""

_HEADERS: Final = [(b"content-type", b"text/event-stream")]


async def answer_exchange(
    exchange: Exchange, handler: Coroutine[Any, Any, dict[str, Any]], receive: Receive, send: Send, *, streams: bool
) -> None:
    """Answers a request with the result of its handler. A client that goes away ends the handler; with `streams` False
    it gets nothing but the result, and a GET is answered with a stream at once."""
    task = asyncio.create_task(handler, name="MCP request")
    gone = asyncio.create_task(_disconnected(receive), name="end of an MCP client")
    stream = _EventStream(exchange, send)
    try:
        if exchange.request.method == "GET":
            await stream.send(None)
        while not task.done() or not exchange.outgoing.empty():
            next_message = asyncio.create_task(exchange.outgoing.get(), name="message for an MCP client")
            done, _ = await asyncio.wait({next_message, task, gone}, timeout=PING, return_when=asyncio.FIRST_COMPLETED)
            if next_message not in done:
                next_message.cancel()
                await asyncio.wait([next_message])
            message = None if next_message.cancelled() else next_message.result()
            if gone in done:
                return
            if exchange.cancelled:
                task.cancel()
                await asyncio.wait([task])
                break
            if streams and (message is not None or not done):
                await stream.send(message)
            if task.done() and message is None:
                break
        if exchange.request_id == "":  # a stream of no request
            await stream.close()
            return
        result = _response(exchange, task)
        if stream.begun:
            await stream.end(result)
        else:
            await json_response(result)(exchange.request.scope, receive, send)
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.wait([task, gone])


def json_response(message: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a message of JSON-RPC as a response."""
    content = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return Response(content, status, dict(headers or {}), media_type="application/json")


class _EventStream:
    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange, self._send = exchange, send
        self.begun = False

    async def send(self, message: Outgoing | None) -> None:
        """Sends a message, or a comment."""
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if (cursor := self._exchange.cursor) and self._exchange.session.version >= PRIMED:
                await self._write(f"id: {cursor}\nretry: {RETRY_MS}\ndata: \n\n")
        if message is None:
            await self._write(": ping\n\n")
        else:
            await self._write(_event(message))

    async def end(self, message: Mapping[str, Any]) -> None:
        """Sends the last message, and ends the stream."""
        body = _event(Outgoing(message)).encode()
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def close(self) -> None:
        """Ends the stream of no request."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, text: str) -> None:
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _event(message: Outgoing) -> str:
    data = json.dumps(message.message, separators=(",", ":"))
    head = f"id: {message.event_id}\n" if message.event_id else ""
    return f"{head}event: message\ndata: {data}\n\n"


def _response(exchange: Exchange, task: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
    """Returns the response for the outcome of a handler."""
    head = {"jsonrpc": "2.0", "id": exchange.request_id}
    if task.cancelled():
        return {**head, "error": {"code": -32800, "message": "Request cancelled"}}
    error = task.exception()
    if isinstance(error, Exception):
        return {**head, "error": modern_error_data(error).model_dump(mode="json", exclude_none=True)}
    return {**head, "result": task.result()}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
