"""Watches the registry: its instances go to the sessions, its graphs to the selection of roles of each tenant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from archon import context
from archon.background import BackgroundLoop
from archon.errors import ArchonError, FailedPrecondition, Unavailable, UnknownCapability, UnknownRole
from archon.principal import DEFAULT_TENANT, Principal
from archon.registry import Graph, Registration, RegistryChange, RegistryClient
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
        self.best_role: Callable[[str, Collection[str]], str] = lambda tenant, roles: min(roles)
        """Chooses among the roles of a tenant that offer a capability; by default the first one by name."""

        self._new_selection = partial(RoleSelection, alive, grace=grace)
        self._selections: dict[str, RoleSelection] = {}
        self._received = False
        self._client = RegistryClient(target)
        self._instances_changed = instances_changed
        self._loop = BackgroundLoop("registry watch", self._run, backoff_min=RETRY_DELAY)

    @property
    def selection(self) -> RoleSelection:
        """The roles of the tenant of the call being served."""
        tenant = context.current().tenant
        return self._selections.get(tenant) or self._selection(tenant, kept=False)

    def find_instance(self, instance_id: str, caller: Principal | None) -> Registration | None:
        """Returns an instance by its id, of the tenants that a caller sees: its own one, or all if it serves all. None
        as the caller: it has no credentials, in a mesh that needs none."""
        sees_all = caller is None or caller.is_of_all_tenants
        for tenant, selection in self._selections.items():
            visible = sees_all or (caller is not None and tenant == caller.tenant)
            if visible and (found := selection.instances.get(instance_id)) is not None:
                return found
        return None

    def _selection(self, tenant: str, *, kept: bool = True) -> RoleSelection:
        """Returns the selection of a tenant, new if it has none: without a role, if the registry has answered."""
        if (selection := self._selections.get(tenant)) is None:
            selection = self._new_selection()
            selection.best_role = lambda roles: self.best_role(tenant, roles)
            if self._received:
                selection.update(RegistryChange(0, True, (), (), Graph()))
            if kept:
                self._selections[tenant] = selection
        return selection

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

        def choose() -> Participants:
            selection = self.selection
            return (selection.choose_agent if agent else selection.choose)(roles, capabilities, versions)

        return await self.selected(choose)

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
        instances = tuple(await self._client.list_instances(timeout=timeout))
        selection = self._selection(context.current().tenant, kept=bool(instances or graph.roles))
        removed = selection.update(RegistryChange(graph.revision, True, instances, (), graph))
        self._instances_changed(instances, removed)

    async def _run(self) -> None:
        while True:
            async with aclosing(self._client.watch(all_tenants=True)) as changes:
                async for change in changes:
                    self._apply(change)
                    self._loop.report_progress()
            await asyncio.sleep(RETRY_DELAY)

    def _apply(self, change: RegistryChange) -> None:
        """Gives each tenant its part of a change."""
        self._received = True
        graphs = change.graphs
        if change.graph is not None:  # from a registry of an earlier version
            graphs = {DEFAULT_TENANT: change.graph}
        by_tenant: dict[str, list[Registration]] = {}
        for instance in change.instances:
            by_tenant.setdefault(instance.tenant or DEFAULT_TENANT, []).append(instance)
        removed: list[str] = []
        for tenant in {DEFAULT_TENANT, *self._selections, *by_tenant, *(graphs or ())}:
            graph = graphs.get(tenant) or Graph() if graphs is not None else None
            instances = tuple(by_tenant.get(tenant, ()))
            own = RegistryChange(change.revision, change.snapshot, instances, change.removed, graph)
            removed += self._selection(tenant).update(own)
        self._instances_changed(change.instances, removed)
