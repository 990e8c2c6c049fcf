"""A directed acyclic graph of roles that delivers the last answer of each role to the roles that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from threading import RLock
from typing import Any

import networkx as nx

from archon.errors import ArchonError, InvalidArgument
from archon_mesh.core.memory_graph.cycle import CycleError
from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy

_FINAL = PropagationPolicy.FINAL_RESPONSE_ONLY


def _system_clock() -> float:
    return datetime.now(UTC).timestamp()


class SharedMemoryGraph:
    """Roles, their dependencies, and the last item of each role, policy and task. Thread-safe.

    Of each role an edge delivers the newest item that its policy lets through: an item that a role publishes for wider
    edges does not hide its last final answer from the others. Items of different tasks of a role stay side by side, and
    do not share metadata.

    `clock` returns seconds since the Unix epoch; it sets the timestamps of items and decides which have expired.
    """

    def __init__(self, *, clock: Callable[[], float] = _system_clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._graph: nx.DiGraph[str] = nx.DiGraph()
        self._items: dict[str, dict[tuple[PropagationPolicy, str], MemoryItem]] = {}
        # Kept apart from the items, so that versions never decrease, even after a clear or an expiry.
        self._versions: dict[str, int] = {}
        self._order: dict[str, int] | None = None

    def add_agent(self, node_id: str) -> None:
        """Adds a role; adding it again changes nothing. Raises InvalidArgument if the name is empty."""
        if not node_id:
            raise InvalidArgument("the name of a role is empty")
        with self._lock:
            if node_id not in self._graph:
                self._graph.add_node(node_id)
                self._order = None

    def add_edge(self, src: str, dst: str, policy: PropagationPolicy = _FINAL) -> None:
        """Lets `dst` receive the items of `src`, and adds both roles if they are new.

        Adding the edge again only sets its policy. Raises CycleError, and changes nothing, if `src` already depends on
        `dst`; raises InvalidArgument if a name is empty.
        """
        policy = PropagationPolicy(policy)
        with self._lock:
            self._check_acyclic(src, dst)
            self.add_agent(src)
            self.add_agent(dst)
            self._graph.add_edge(src, dst, policy=policy)
            self._order = None

    def has_node(self, node_id: str) -> bool:
        """Tells whether the graph has the role."""
        with self._lock:
            return node_id in self._graph

    def publish(
        self,
        node_id: str,
        content: str,
        metadata: Mapping[str, object] | None = None,
        *,
        policy: PropagationPolicy = _FINAL,
        ttl: float | None = None,
        task_id: str = "",
    ) -> MemoryItem | None:
        """Replaces the item of this role, policy and task by one of the role's next version, with the metadata of the
        newest item of this role and task merged, and returns it.

        Blank `content` changes nothing and returns None. `policy` is the kind of content: an edge lets the item through
        if its own policy includes it. `ttl` is in seconds, None for no expiry; `task_id` is the task that publishes,
        empty for none. Raises InvalidArgument if the name is empty or the ttl is not positive.
        """
        if not content.strip():
            return None
        with self._lock:
            own = (item for item in reversed(self._all_live(node_id)) if item.task_id == task_id)
            earlier = next(own, None)
            item = MemoryItem(
                source_id=node_id,
                content=content,
                timestamp=self._clock(),
                version=self._versions.get(node_id, 0) + 1,
                policy=PropagationPolicy(policy),
                metadata={**(earlier.metadata if earlier else {}), **(metadata or {})},
                ttl=ttl,
                task_id=task_id,
            )
            self.restore(item)
            return replace(item)

    def restore(self, item: MemoryItem) -> None:
        """Restores an item with its version and timestamp; an item older than the current one is ignored."""
        with self._lock:
            self.add_agent(item.source_id)
            if item.version >= self._versions.get(item.source_id, 0):
                self._items.setdefault(item.source_id, {})[item.policy, item.task_id] = replace(item)
                self._versions[item.source_id] = item.version

    def pull_for(self, node_id: str) -> list[MemoryItem]:
        """Returns the items of the direct predecessors, in dependency order, then by name; [] for an unknown role."""
        with self._lock:
            if node_id not in self._graph:
                return []
            items = [
                self._live(source, self._graph.edges[source, node_id]["policy"].lets_through)
                for source in self._sorted(self._graph.predecessors(node_id))
            ]
            return [replace(item) for item in items if item]

    def pull_for_indirect(self, node_id: str) -> list[MemoryItem]:
        """Returns the items of all ancestors, nearest first, each layer as in `pull_for`; [] for an unknown role.

        Of each role the newest item is returned that every edge of at least one path lets through.
        """
        with self._lock:
            if node_id not in self._graph:
                return []
            visited, layer, items = {node_id}, [node_id], list[MemoryItem | None]()
            reach = {policy: self._ancestors(node_id, policy) for policy in PropagationPolicy}
            while layer:
                sources = {source for node in layer for source in self._graph.predecessors(node)} - visited
                visited |= sources
                layer = self._sorted(sources)
                for source in layer:
                    reaching = {policy for policy in PropagationPolicy if source in reach[policy]}
                    items.append(self._live(source, reaching.__contains__))
            return [replace(item) for item in items if item]

    def policies_from(self, node_id: str) -> set[PropagationPolicy]:
        """Returns the policies of the edges to the role's direct successors; an empty set for an unknown role."""
        with self._lock:
            if node_id not in self._graph:
                return set()
            return {self._graph.edges[edge]["policy"] for edge in self._graph.out_edges(node_id)}

    def get_edges_for_nodes(self, node_ids: Iterable[str]) -> list[tuple[str, str]]:
        """Returns the edges (src, dst) among these roles, in dependency order; unknown roles are ignored."""
        with self._lock:
            order = self._ranks()
            edges = self._graph.subgraph(set(node_ids)).edges()
            return sorted(edges, key=lambda edge: (order[edge[0]], order[edge[1]]))

    def get_topological_order(self, node_ids: Iterable[str] | None = None) -> list[str]:
        """Returns all roles, or these roles, each after everything it depends on; unknown roles are omitted.

        The order accounts for roles between them that are not among `node_ids`.
        """
        with self._lock:
            return self._sorted(self._graph if node_ids is None else set(node_ids) & set(self._graph))

    def clear_published_data(self) -> None:
        """Deletes all items; roles, edges and version counters stay."""
        with self._lock:
            self._items.clear()

    def to_dict(self) -> dict[str, Any]:
        """Returns roles, edges, unexpired items and version counters as JSON types; the metadata must be JSON too."""
        with self._lock:
            nodes = self._sorted(self._graph)
            items = [item for node in nodes for item in self._all_live(node)]
            return {
                "nodes": nodes,
                "edges": [
                    {"src": src, "dst": dst, "policy": self._graph.edges[src, dst]["policy"].value}
                    for src, dst in self.get_edges_for_nodes(nodes)
                ],
                "items": [
                    {
                        "source_id": item.source_id,
                        "content": item.content,
                        "timestamp": item.timestamp,
                        "version": item.version,
                        "policy": item.policy.value,
                        "metadata": dict(item.metadata),
                        "ttl": item.ttl,
                        **({"task_id": item.task_id} if item.task_id else {}),
                    }
                    for item in items
                ],
                "versions": dict(sorted(self._versions.items())),
            }

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        clock: Callable[[], float] = _system_clock,
    ) -> SharedMemoryGraph:
        """Returns the graph described by `to_dict`. Raises CycleError, and InvalidArgument if the data is malformed."""
        graph = cls(clock=clock)
        try:
            for node in data["nodes"]:
                graph.add_agent(node)
            for edge in data["edges"]:
                graph.add_edge(edge["src"], edge["dst"], PropagationPolicy(edge["policy"]))
            for item in data["items"]:
                graph.restore(MemoryItem(**{**item, "policy": PropagationPolicy(item["policy"])}))
            for node, version in data["versions"].items():
                graph._versions[node] = max(version, graph._versions.get(node, 0))
        except ArchonError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"malformed memory graph: {error!r}") from error
        return graph

    def _check_acyclic(self, src: str, dst: str) -> None:
        if src == dst:
            raise CycleError([src, src])
        if src in self._graph and dst in self._graph and nx.has_path(self._graph, dst, src):
            raise CycleError([*nx.shortest_path(self._graph, dst, src), dst])

    def _live(
        self, node_id: str, lets_through: Callable[[PropagationPolicy], bool] = lambda policy: True
    ) -> MemoryItem | None:
        """Returns the newest item of these policies that has not expired."""
        return next((item for item in reversed(self._all_live(node_id)) if lets_through(item.policy)), None)

    def _all_live(self, node_id: str) -> list[MemoryItem]:
        """Returns the items that have not expired, oldest version first."""
        items = self._items.get(node_id)
        if not items:
            return []
        now = self._clock()
        return sorted((item for item in items.values() if not item.is_expired(now)), key=lambda item: item.version)

    def _ancestors(self, node_id: str, policy: PropagationPolicy) -> set[str]:
        """Returns the roles from which an item of this policy reaches the role."""

        def lets_through(src: str, dst: str) -> bool:
            return bool(self._graph.edges[src, dst]["policy"].lets_through(policy))

        return nx.ancestors(nx.subgraph_view(self._graph, filter_edge=lets_through), node_id)

    def _sorted(self, node_ids: Iterable[str]) -> list[str]:
        return sorted(node_ids, key=self._ranks().__getitem__)

    def _ranks(self) -> dict[str, int]:
        if self._order is None:
            order = nx.lexicographical_topological_sort(self._graph)
            self._order = {node: rank for rank, node in enumerate(order)}
        return self._order
