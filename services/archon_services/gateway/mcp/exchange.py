"""One request of a client of a revision before 2026-07-28, and the stream of its response.

Such a client has a session, and is asked by requests of the server. Here neither lives in a process: the id of the
session is its sealed content, the id of a question's request names the run and the question, and the ids of a stream's
events name the run that it is about. So any replica takes the next request, the answer, or the rest of a stream.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import ProgressToken, RequestId
from starlette.requests import Request

from archon_services.gateway.mcp.sessions import ClientSession

MAX_WAITING: Final = 256
"""Messages of a stream that wait for a client to read. While so many wait, its run is not followed."""

SEND_SECONDS: Final = 60.0
"""Seconds for which a message waits; then the client is taken for gone."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the stream of a call: after the event `seq` of its run. The client keeps it as the id of an event."""

    request_id: RequestId
    token: ProgressToken | None
    run_id: str
    seq: int

    def encoded(self) -> str:
        """Returns the id of an event."""
        text = json.dumps([self.request_id, self.token, self.run_id, self.seq])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """Returns the place that an id of an event names; None if it is no such id."""
        with suppress(ValueError, TypeError, binascii.Error):
            request_id, token, run_id, seq = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            if (
                isinstance(run_id, str)
                and isinstance(seq, int)
                and _is_id(request_id)
                and (token is None or _is_id(token))
            ):
                return cls(request_id, token, run_id, seq)
        return None


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for the client, and the id of its event; empty if the stream cannot be resumed there."""

    message: Mapping[str, Any]
    event_id: str = ""


@dataclass(slots=True)
class Exchange:
    """A request, and the messages of its response's stream. It is the channel of the request's handler, as the package
    calls it (`DispatchContext`)."""

    request: Request
    request_id: RequestId
    session: ClientSession
    progress_token: ProgressToken | None = None
    cancelled: bool = False
    """Whether the client has cancelled the request."""
    run_id: str = ""
    seq: int = 0
    outgoing: asyncio.Queue[Outgoing] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)
    can_send_request: bool = False

    @property
    def transport(self) -> TransportContext:
        """The way on which the request came."""
        return TransportContext(kind="streamable-http", can_send_request=False, headers=self.request.headers)

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        """The request over HTTP, for the handlers."""
        return ServerMessageMetadata(request_context=self.request)

    def cancel(self) -> None:
        """Notes that the client has cancelled the request."""
        self.cancelled = True
        self.cancel_requested.set()
        with suppress(asyncio.QueueFull):
            self.outgoing.put_nowait(Outgoing({}))  # wakes the response

    def follow(self, run_id: str) -> None:
        """Says which run the request is about: from then on its stream can be resumed."""
        self.run_id = run_id

    def mark(self, seq: int) -> None:
        """Says which event of the run the next messages are about."""
        self.seq = max(self.seq, seq)

    @property
    def cursor(self) -> str:
        """The id of an event that is sent now; empty if the stream cannot be resumed."""
        return Cursor(self.request_id, self.progress_token, self.run_id, self.seq).encoded() if self.run_id else ""

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message. Raises TimeoutError if the client does not read."""
        async with asyncio.timeout(SEND_SECONDS):
            await self.outgoing.put(Outgoing(message, self.cursor))

    async def ask(self, message: Mapping[str, Any], question_id: str) -> None:
        """Sends a request, whose id is the question's. The answer comes as a request of the client, to any replica."""
        await self.send({"jsonrpc": "2.0", "id": question_id, **message})

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Sends a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})})

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Sends progress, if the client wants it."""
        if self.progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self.progress_token, "progress": progress}
        await self.notify(
            "notifications/progress",
            params | ({"total": total} if total is not None else {}) | ({"message": message} if message else {}),
        )

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Raises NoBackChannelError: an answer comes to any replica, and so cannot be awaited here."""
        raise NoBackChannelError(method)


_exchange: ContextVar[Exchange | None] = ContextVar("mcp_exchange", default=None)


def current_exchange() -> Exchange | None:
    """Returns the exchange whose request is handled; None for a request of revision 2026-07-28 or later."""
    return _exchange.get()


def enter_exchange(exchange: Exchange) -> None:
    """Makes an exchange the current one for the rest of the current asyncio task."""
    _exchange.set(exchange)
