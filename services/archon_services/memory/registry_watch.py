"""The structure is the registry's: it is followed, and the last graph is kept in the store, so that neither a restart
nor an outage of the registry changes what a role may see."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from dataclasses import asdict
from typing import Final

from archon.errors import ArchonError, DataLoss
from archon.registry import Edge, Graph, PropagationPolicy, RegistryClient
from archon_services.memory.domain.scope import Scope
from archon_services.memory.store.port import MemoryStore

_log = logging.getLogger(__name__)

RETRY: Final = 2.0
"""Seconds until a registry that refuses to be followed is asked again."""


class Structure:
    """The graph of roles as the registry said last. Use it as an async context manager; it follows the registry at
    `host:port` while it is open. Raises DataLoss where the stored graph can't be read back."""

    def __init__(self, registry: str, store: MemoryStore) -> None:
        self.graph = Graph()
        """The last graph; empty, of revision 0, where none has been seen yet."""
        self._registry = registry
        self._store = store
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Structure:
        saved = await self._store.structure()
        self.graph = from_json(saved) if saved else Graph()
        self._following = asyncio.create_task(self._follow_for_ever(), name="memory: structure")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following], timeout=5.0)

    async def take(self, graph: Graph) -> None:
        """Keeps a graph and goes by it from now on. One that can't be is left out: the last stands."""
        try:
            Scope(graph, [])
        except ArchonError as error:
            _log.error("the registry's graph of revision %d is left out: %s", graph.revision, error)
            return
        try:
            await self._store.save_structure(to_json(graph))
        except ArchonError as error:
            _log.warning("the graph of revision %d can't be kept for a restart: %s", graph.revision, error)
        self.graph = graph
        _log.info("the graph of revision %d: %d roles, %d edges", graph.revision, len(graph.roles), len(graph.edges))

    async def _follow_for_ever(self) -> None:
        while True:
            try:
                async with RegistryClient(self._registry) as client, aclosing(client.watch(["edges"])) as changes:
                    async for change in changes:
                        if change.graph is not None:
                            await self.take(change.graph)
            except Exception as error:  # noqa: BLE001 - whatever it is, the last graph stands and the next may come
                _log.error("the registry at %s can't be followed: %s", self._registry, error)
            await asyncio.sleep(RETRY)


def to_json(graph: Graph) -> str:
    """Roles, edges and revision."""
    return json.dumps(
        {"revision": graph.revision, "roles": graph.roles, "edges": [asdict(edge) for edge in graph.edges]}
    )


def from_json(text: str) -> Graph:
    """What `to_json` was given. Raises DataLoss."""
    try:
        data = json.loads(text)
        edges = tuple(
            Edge(
                edge["upstream"],
                edge["downstream"],
                PropagationPolicy(edge["policy"]),
                edge["pinned"],
                tuple(edge["declared_by"]),
            )
            for edge in data["edges"]
        )
        return Graph(tuple(data["roles"]), edges, data["revision"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataLoss(f"the stored graph of roles can't be read: {error!r}") from error
