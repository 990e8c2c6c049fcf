"""The requests that a model client sends for one that it rewrites, and their replies; and the requests to a provider,
as they were sent: for the records of calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from archon.clock import monotonic
from archon_mesh.llm.base import ModelReply, ModelRequest, Usage


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request over HTTP as it was sent to the API of a provider, which `api` names as a model's name does, such as
    `openai`. The `content` are the bytes of the `body`, a JSON object; `has_key` if a key went with it."""

    api: str
    url: str
    body: Mapping[str, Any]
    content: bytes
    has_key: bool


@dataclass(slots=True)
class Exchange:
    """A request as it was sent, and its reply as it was received; None if there was none. `refusal` says why the client
    could not read the reply, and `text` is the received part of one that broke off."""

    request: ModelRequest
    started: float = field(default_factory=time.time)
    reply: ModelReply | None = None
    refusal: str = ""
    text: str = ""
    usage: Usage | None = None
    """The reply's usage, or an estimate if it broke off; None if there was none."""
    seconds: float = 0.0
    sent: SentRequest | None = None
    """The request to the provider; None if none was sent over HTTP."""
    _began: float = field(default_factory=monotonic)

    def end(self, reply: ModelReply | None = None) -> None:
        """Notes the time that the exchange took, in seconds, and the reply with its usage, None if it has failed."""
        self.seconds, self.reply = time.monotonic() - self._began, reply
        self.usage = None if reply is None else reply.usage


@dataclass(slots=True)
class Noted:
    """The exchanges of one try of a model call, in order, and its last request over HTTP."""

    exchanges: list[Exchange] = field(default_factory=list)
    sent: SentRequest | None = None


_noting: ContextVar[Noted | None] = ContextVar("archon_exchanges", default=None)


@contextmanager
def noting(noted: Noted) -> Iterator[None]:
    """Notes the exchanges and requests of the model call that is made within."""
    token = _noting.set(noted)
    try:
        yield
    finally:
        _noting.reset(token)


def begin(request: ModelRequest) -> Exchange:
    """Notes a request, if requests are noted, and returns the exchange."""
    exchange = Exchange(request)
    if (noted := _noting.get()) is not None:
        noted.exchanges.append(exchange)
    return exchange


def note_sent(sent: SentRequest) -> None:
    """Notes a request to a provider; the last one of a call counts."""
    if (noted := _noting.get()) is None:
        return
    noted.sent = sent
    if noted.exchanges and noted.exchanges[-1].reply is None:
        noted.exchanges[-1].sent = sent
