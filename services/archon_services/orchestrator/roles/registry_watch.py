"""Follows the registry for the orchestrator: who lives goes to the sessions, who depends on whom to new runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing

from archon import context
from archon.errors import ArchonError, FailedPrecondition, Unavailable, UnknownCapability, UnknownRole
from archon.registry import Registration, RegistryChange, RegistryClient
from archon_services.orchestrator.roles.selection import Chosen, RoleSelection

_log = logging.getLogger(__name__)

FRESH_TIMEOUT = 3.0


class RegistryWatch:
    """`instances_changed` gets all instances that are registered, at every change; `alive`: see Membership."""

    def __init__(
        self,
        target: str,
        instances_changed: Callable[[Iterable[Registration]], None],
        alive: Callable[[str], bool] = lambda instance_id: False,
    ) -> None:
        self.topology = RoleSelection(alive)
        self._client = RegistryClient(target)
        self._instances_changed = instances_changed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follows in the background until `close`."""
        self._task = asyncio.create_task(self._run(), name="registry-follower")

    async def close(self) -> None:
        """Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)
        await self._client.close()

    async def choose(
        self, roles: Sequence[str], capabilities: Sequence[str], versions: Mapping[str, str], *, agent: bool
    ) -> Chosen:
        """As `RoleSelection.choose`, or with `agent` as `choose_agent`; before it says no, it asks the registry afresh:
        what has just registered counts."""
        choose = self.topology.choose_agent if agent else self.topology.choose
        try:
            return choose(roles, capabilities, versions)
        except (UnknownRole, UnknownCapability, FailedPrecondition, Unavailable):
            try:
                await self._refresh()
            except ArchonError as error:
                _log.info("the registry can't be asked now: %s", error)
            return choose(roles, capabilities, versions)

    async def _refresh(self) -> None:
        timeout = context.timeout(FRESH_TIMEOUT)
        graph = await self._client.get_graph(timeout=timeout)
        instances = await self._client.list_instances(timeout=timeout)
        self._apply(RegistryChange(graph.revision, True, tuple(instances), (), graph))

    async def _run(self) -> None:
        while True:
            try:
                async with aclosing(self._client.watch()) as changes:
                    async for change in changes:
                        self._apply(change)
            except ArchonError as error:
                _log.error("the registry can't be followed: %s", error)
            await asyncio.sleep(1.0)

    def _apply(self, change: RegistryChange) -> None:
        self.topology.update(change)
        self._instances_changed(self.topology.registered)
