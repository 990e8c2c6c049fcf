"""The requests that a model client sends for one that it rewrites, and their replies: for the records of calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from archon.clock import monotonic
from archon_mesh.llm.base import ModelReply, ModelRequest, Usage


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
    _began: float = field(default_factory=monotonic)

    def end(self, reply: ModelReply | None = None) -> None:
        """Notes the end of the exchange."""
        self.seconds, self.reply = time.monotonic() - self._began, reply
        self.usage = None if reply is None else reply.usage


_noting: ContextVar[list[Exchange] | None] = ContextVar("archon_exchanges", default=None)


@contextmanager
def noting(exchanges: list[Exchange]) -> Iterator[None]:
    """Adds the exchanges of the model calls that are made within."""
    token = _noting.set(exchanges)
    try:
        yield
    finally:
        _noting.reset(token)


def begin(request: ModelRequest) -> Exchange:
    """Notes a request, if there is a list for it, and returns the exchange."""
    exchange = Exchange(request)
    if (exchanges := _noting.get()) is not None:
        exchanges.append(exchange)
    return exchange
