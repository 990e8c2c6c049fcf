"""Watches the registry for the role graph, and keeps the last one in the store.

Neither a restart nor an outage of the registry therefore changes which items a role may read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError, Unavailable
from archon.principal import DEFAULT_TENANT
from archon.registry import Graph, RegistryClient
from archon_services.memory.domain import role_graph
from archon_services.memory.domain.scope import Scope
from archon_services.memory.store.port import MemoryStore

_log = logging.getLogger(__name__)

RETRY_MIN: Final = 0.5
RETRY_MAX: Final = 2.0
"""Seconds between two attempts to watch a registry that refuses it. The client itself retries an outage."""


class RegistryWatch:
    """Watches the registry at `host:port` as an async context manager. Entering raises DataLoss if the stored graph is
    malformed."""

    def __init__(self, registry: str, store: MemoryStore) -> None:
        self.graphs: Mapping[str, Graph] = {}
        """The last role graph of each tenant that has one."""
        self._client = RegistryClient(registry)
        self._store = store
        self._loop = BackgroundLoop("memory: registry watch", self._watch, backoff_min=RETRY_MIN, backoff_max=RETRY_MAX)

    @property
    def lag(self) -> float:
        """Seconds for which changes may have been missed: 0 while the watch is open, else since it was lost."""
        return self._client.watch_lag

    async def __aenter__(self) -> RegistryWatch:
        stored = await self._store.load_role_graph()
        self.graphs = role_graph.from_json(stored) if stored else {}
        self._loop.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._loop.close()
        await self._client.close()

    def graph(self, tenant: str) -> Graph:
        """Returns the last role graph of a tenant; empty, at revision 0, if it has none."""
        return self.graphs.get(tenant) or Graph()

    async def update(self, graphs: Mapping[str, Graph]) -> None:
        """Stores the graphs of all tenants and uses them from now on. In place of an invalid graph, its tenant keeps
        the last one."""
        valid = {tenant: graph for tenant, graph in graphs.items() if _is_valid(tenant, graph)}
        valid |= {tenant: self.graphs[tenant] for tenant in graphs if tenant not in valid and tenant in self.graphs}
        try:
            await self._store.save_role_graph(role_graph.to_json(valid))
        except ArchonError as error:
            _log.warning("could not store the graphs for a restart: %s", error)
        self.graphs = valid
        roles, edges = sum(len(graph.roles) for graph in valid.values()), sum(len(g.edges) for g in valid.values())
        _log.info("role graphs of %d tenants: %d roles, %d edges", len(valid), roles, edges)

    async def _watch(self) -> None:
        async with aclosing(self._client.watch(["edges"], all_tenants=True)) as changes:
            async for change in changes:
                self._loop.report_progress()
                if change.graphs is not None:
                    await self.update(change.graphs)
                elif change.graph is not None:  # from a registry of an earlier version
                    await self.update({DEFAULT_TENANT: change.graph})
        raise Unavailable("the registry ended the watch")


def _is_valid(tenant: str, graph: Graph) -> bool:
    """Whether a graph has no cycle; logs why not."""
    try:
        Scope(graph, [])
    except ArchonError as error:
        _log.error("ignoring the registry's graph of revision %d, tenant %s: %s", graph.revision, tenant, error)
        return False
    return True
