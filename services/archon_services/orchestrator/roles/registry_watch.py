"""Watches the registry: its instances go to the sessions, its graph to the selection of roles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

from archon import context
from archon.background import BackgroundLoop
from archon.errors import ArchonError, FailedPrecondition, Unavailable, UnknownCapability, UnknownRole
from archon.registry import Registration, RegistryChange, RegistryClient
from archon_services.orchestrator.roles.membership import GRACE
from archon_services.orchestrator.roles.selection import Participants, RoleSelection

_log = logging.getLogger(__name__)

T = TypeVar("T")

REFRESH_TIMEOUT = 3.0
RETRY_DELAY = 1.0
_MISSING = (UnknownRole, UnknownCapability, FailedPrecondition, Unavailable)
"""Errors of a selection that an instance which has just registered may resolve."""


class RegistryWatch:
    """Watches the registry at `target` (host:port) and calls `instances_changed` after every change: with the instances
    that are new or changed, after a gap all that are registered, and the ids of those that are no longer registered.
    `alive` and `grace` as in RoleSelection."""

    def __init__(
        self,
        target: str,
        instances_changed: Callable[[Sequence[Registration], Sequence[str]], None],
        alive: Callable[[str], bool] = lambda instance_id: False,
        *,
        grace: float = GRACE,
    ) -> None:
        self.selection = RoleSelection(alive, grace=grace)
        self._client = RegistryClient(target)
        self._instances_changed = instances_changed
        self._loop = BackgroundLoop("registry watch", self._run, backoff_min=RETRY_DELAY)

    @property
    def lag(self) -> float:
        """Seconds for which changes may have been missed: 0 while the watch is open, else since it was lost."""
        return self._client.watch_lag

    def start(self) -> None:
        """Starts watching in the background, until `close`."""
        self._loop.start()

    async def close(self) -> None:
        """Stops watching. Idempotent."""
        await self._loop.close()
        await self._client.close()

    async def choose(
        self, roles: Sequence[str], capabilities: Sequence[str], versions: Mapping[str, str], *, agent: bool
    ) -> Participants:
        """Selects roles as `RoleSelection.choose` does, or with `agent` as `choose_agent` does; as `selected` does."""
        choose = self.selection.choose_agent if agent else self.selection.choose
        return await self.selected(lambda: choose(roles, capabilities, versions))

    async def choose_plan(
        self,
        planner: str,
        roles: Sequence[str],
        capabilities: Sequence[str],
        versions: Mapping[str, str],
        *,
        has_planner: bool = True,
    ) -> Participants:
        """Selects roles as `RoleSelection.choose_plan` does; as `selected` does."""
        return await self.selected(
            lambda: self.selection.choose_plan(planner, roles, capabilities, versions, has_planner=has_planner)
        )

    async def selected(self, select: Callable[[], T]) -> T:
        """Returns the result of `select`. Before it raises that something is missing, it reads the registry again, so
        that an instance which has just registered counts."""
        try:
            return select()
        except _MISSING:
            await self._try_refresh()
            return select()

    async def _try_refresh(self) -> None:
        try:
            await self._refresh()
        except ArchonError as error:
            _log.info("the registry cannot be read: %s", error)

    async def _refresh(self) -> None:
        timeout = context.timeout(REFRESH_TIMEOUT)
        graph = await self._client.get_graph(timeout=timeout)
        instances = await self._client.list_instances(timeout=timeout)
        self._apply(RegistryChange(graph.revision, True, tuple(instances), (), graph))

    async def _run(self) -> None:
        while True:
            async with aclosing(self._client.watch()) as changes:
                async for change in changes:
                    self._apply(change)
                    self._loop.report_progress()
            await asyncio.sleep(RETRY_DELAY)

    def _apply(self, change: RegistryChange) -> None:
        removed = self.selection.update(change)
        self._instances_changed(change.instances, removed)
