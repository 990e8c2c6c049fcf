"""Watches the registry for the role graph, and keeps the last one in the store.

Neither a restart nor an outage of the registry therefore changes which items a role may read.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError, Unavailable
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
        self.graph = Graph()
        """The last role graph; empty, at revision 0, before the first."""
        self._client = RegistryClient(registry)
        self._store = store
        self._loop = BackgroundLoop("memory: registry watch", self._watch, backoff_min=RETRY_MIN, backoff_max=RETRY_MAX)

    @property
    def lag(self) -> float:
        """Seconds for which changes may have been missed: 0 while the watch is open, else since it was lost."""
        return self._client.watch_lag

    async def __aenter__(self) -> RegistryWatch:
        stored = await self._store.load_role_graph()
        self.graph = role_graph.from_json(stored) if stored else Graph()
        self._loop.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._loop.close()
        await self._client.close()

    async def update(self, graph: Graph) -> None:
        """Stores a graph and uses it from now on. An invalid graph is ignored."""
        try:
            Scope(graph, [])
        except ArchonError as error:
            _log.error("ignoring the registry's graph of revision %d: %s", graph.revision, error)
            return
        try:
            await self._store.save_role_graph(role_graph.to_json(graph))
        except ArchonError as error:
            _log.warning("could not store the graph of revision %d for a restart: %s", graph.revision, error)
        self.graph = graph
        _log.info("graph of revision %d: %d roles, %d edges", graph.revision, len(graph.roles), len(graph.edges))

    async def _watch(self) -> None:
        async with aclosing(self._client.watch(["edges"])) as changes:
            async for change in changes:
                self._loop.report_progress()
                if change.graph is not None:
                    await self.update(change.graph)
        raise Unavailable("the registry ended the watch")
