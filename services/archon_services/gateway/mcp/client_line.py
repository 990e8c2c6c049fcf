"""The client of a request: the abilities that it has declared, and the line on which it is notified about a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types import LOG_LEVEL_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from archon_mesh.tools.mcp.serving.client import LEVELS, LogLevel
from archon_services.gateway.mcp.errors import TASKS
from archon_services.gateway.mcp.exchange import Exchange, current_exchange
from archon_services.gateway.mcp.questions import Asking

LOGGER: Final = "archon"
"""The logger of the messages about runs."""

_STEP: Final = 0.001
"""Progress between two lines about the same event: progress always grows."""


class ClientLine:
    """The line to the client of one request."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._context = context
        self._progress = 0.0
        self.exchange: Exchange | None = current_exchange()
        self._seen = self.exchange.seq if self.exchange is not None else 0
        self.asking = Asking.of(context.session.client_capabilities)

    @property
    def is_modern(self) -> bool:
        """Whether a request ends to ask the client, which sends it again: since revision 2026-07-28."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def request(self) -> Request | None:
        """The request over HTTP."""
        request = self._context.request
        return request if isinstance(request, Request) else None

    @property
    def takes_tasks(self) -> bool:
        """Whether the client has declared the extension for tasks with this request."""
        capabilities = self._context.session.client_capabilities
        return self.is_modern and capabilities is not None and TASKS in (capabilities.extensions or {})

    @property
    def was_cancelled(self) -> bool:
        """Whether the client has cancelled the request, once it is cancelled: since revision 2026-07-28 by closing the
        connection, which means nothing before."""
        return self.exchange is None or self.exchange.cancelled

    def skip(self, seq: int) -> None:
        """Says that the client knows the events up to a number."""
        self._seen = max(self._seen, seq)

    async def tell(self, line: str, seq: int) -> None:
        """Tells a line about an event of the run, unless the client knows it: as progress, and as a log message of the
        level info if the client wants those."""
        if seq and seq <= self._seen:
            return
        self._seen = max(self._seen, seq)
        self._progress = max(self._progress + _STEP, float(self._seen))
        if self.exchange is not None:
            self.exchange.mark(self._seen)
        await self._context.session.report_progress(self._progress, None, line)
        if self._level is not None and LEVELS.index("info") >= LEVELS.index(self._level):
            params = types.LoggingMessageNotificationParams(level="info", data=line, logger=LOGGER)
            await self._context.session.send_notification(
                types.LoggingMessageNotification(params=params), related_request_id=self._context.request_id
            )

    @property
    def _level(self) -> LogLevel | None:
        if not self.is_modern:
            return self.exchange.session.level if self.exchange is not None else None
        meta: Mapping[str, Any] = dict(self._context.meta or {})  # a typed dict
        level = meta.get(LOG_LEVEL_META_KEY)
        return level if level in LEVELS else None
