"""Keeps the registration of an owner as its shared tools change: at once when one is shared or taken back, and once a
minute if the figures of one have changed notably."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from archon.background import BackgroundLoop
from archon.errors import ArchonError
from archon.registry import Registration, Tool
from archon.tools.owner.figures import differs_notably
from archon.tools.owner.tool_owner import ToolOwner

INTERVAL: Final = 60.0
"""Seconds between two updates of the figures at least; a random part of up to a tenth comes on top."""

_log = logging.getLogger(__name__)


def with_shared(tools: Iterable[Tool], shared: Sequence[Tool]) -> tuple[Tool, ...]:
    """Returns the tools of a registration: each tool once, those that are shared with their terms."""
    by_name = {tool.name: replace(tool, share=None) for tool in tools}
    return tuple((by_name | {tool.name: tool for tool in shared}).values())


class Registered(Protocol):
    """A registration that is kept, as a RegistrationHandle does."""

    @property
    def registration(self) -> Registration: ...

    async def update(self, registration: Registration) -> None:
        """Registers other content."""
        ...


class Advertising:
    """Updates the registration in the background. `registered` is called with each new content."""

    def __init__(
        self,
        shared: ToolOwner,
        handle: Registered,
        registered: Callable[[Registration], None],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._shared = shared
        self._handle = handle
        self._registered = registered
        self._sleep = sleep
        self._own = {tool.name: tool for tool in handle.registration.tools if tool.share is None}
        self._loop = BackgroundLoop("agent: shared tools", self._run, backoff_max=INTERVAL)

    def start(self) -> None:
        """Starts the updates."""
        self._loop.start()

    async def close(self) -> None:
        """Ends the updates. Idempotent."""
        await self._loop.close()

    async def _run(self) -> None:
        self._shared.changed.clear()
        await self._update()
        while True:
            await self._shared.wait_changed(INTERVAL * random.uniform(1.0, 1.1))
            self._shared.changed.clear()
            await self._update()
            await self._sleep(1.0)

    async def _update(self) -> None:
        """Registers the tools anew if they differ from the registered ones."""
        registered = {tool.name: tool for tool in self._handle.registration.tools if tool.share is not None}
        current = {tool.name: tool for tool in self._shared.advertised}
        if registered.keys() == current.keys() and not any(
            differs_notably(registered[name].share, tool.share) for name, tool in current.items()
        ):
            return
        tools = with_shared(self._own.values(), self._shared.advertised)
        try:
            await self._handle.update(replace(self._handle.registration, tools=tools))
        except ArchonError as error:
            _log.warning("the figures of the shared tools are not registered: %s", error)
            return
        self._registered(self._handle.registration)
