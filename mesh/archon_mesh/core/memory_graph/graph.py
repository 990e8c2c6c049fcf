"""A directed acyclic graph of roles that carries the last answer of each to those who depend on it."""

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
    """Roles, who depends on whom, and what each published last. Every method is safe between threads.

    `clock` gives seconds since the Unix epoch; it stamps items and decides which have expired.
    """

    def __init__(self, *, clock: Callable[[], float] = _system_clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._graph: nx.DiGraph[str] = nx.DiGraph()
        self._items: dict[str, MemoryItem] = {}
        # Apart from the items: a version never comes back, not after a clear or an expiry either.
        self._versions: dict[str, int] = {}
        self._order: dict[str, int] | None = None

    def add_agent(self, node_id: str) -> None:
        """Add a role; adding it again changes nothing. Raises InvalidArgument for an empty name."""
        if not node_id:
            raise InvalidArgument("A role needs a name.")
        with self._lock:
            if node_id not in self._graph:
                self._graph.add_node(node_id)
                self._order = None

    def add_edge(self, src: str, dst: str, policy: PropagationPolicy = _FINAL) -> None:
        """Let `dst` see what `src` publishes, and create both where they are new.

        Adding the edge again only sets its policy. Raises CycleError, and changes nothing, where `src`
        already depends on `dst`; InvalidArgument for an empty name.
        """
        policy = PropagationPolicy(policy)
        with self._lock:
            self._refuse_cycle(src, dst)
            self.add_agent(src)
            self.add_agent(dst)
            self._graph.add_edge(src, dst, policy=policy)
            self._order = None

    def has_node(self, node_id: str) -> bool:
        """Whether the role is known."""
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
    ) -> MemoryItem | None:
        """Replace what the role published last, one version up; metadata is merged into the earlier one's.

        Blank `content` changes nothing and gives None. `policy` says what kind of content it is: an edge
        carries it where its own policy is at or above. `ttl` is in seconds, None for ever. Raises
        InvalidArgument for an empty name or a ttl that is not positive.
        """
        if not content.strip():
            return None
        with self._lock:
            earlier = self._live(node_id)
            item = MemoryItem(
                source_id=node_id,
                content=content,
                timestamp=self._clock(),
                version=self._versions.get(node_id, 0) + 1,
                policy=PropagationPolicy(policy),
                metadata={**(earlier.metadata if earlier else {}), **(metadata or {})},
                ttl=ttl,
            )
            self.restore(item)
            return replace(item)

    def restore(self, item: MemoryItem) -> None:
        """Put back an item with the version and timestamp it had; one older than the last is ignored."""
        with self._lock:
            self.add_agent(item.source_id)
            if item.version >= self._versions.get(item.source_id, 0):
                self._items[item.source_id] = replace(item)
                self._versions[item.source_id] = item.version

    def pull_for(self, node_id: str) -> list[MemoryItem]:
        """The items of the role's direct predecessors, in dependency order, then by name; [] if unknown."""
        with self._lock:
            if node_id not in self._graph:
                return []
            items = [
                self._live(source, self._graph.edges[source, node_id]["policy"])
                for source in self._sorted(self._graph.predecessors(node_id))
            ]
            return [replace(item) for item in items if item]

    def pull_for_indirect(self, node_id: str) -> list[MemoryItem]:
        """The items of all ancestors, nearest first, each layer as in `pull_for`; [] if unknown.

        An item comes through where every edge of at least one path lets it through.
        """
        with self._lock:
            if node_id not in self._graph:
                return []
            seen, layer, items = {node_id}, [node_id], list[MemoryItem | None]()
            reach = {policy: self._ancestors(node_id, policy) for policy in PropagationPolicy}
            while layer:
                above = {source for node in layer for source in self._graph.predecessors(node)} - seen
                seen |= above
                layer = self._sorted(above)
                items += [self._live(source) for source in layer]
            return [replace(item) for item in items if item and item.source_id in reach[item.policy]]

    def get_edges_for_nodes(self, node_ids: Iterable[str]) -> list[tuple[str, str]]:
        """The edges (src, dst) among the given roles, in dependency order; unknown roles are ignored."""
        with self._lock:
            order = self._ranks()
            edges = self._graph.subgraph(set(node_ids)).edges()
            return sorted(edges, key=lambda edge: (order[edge[0]], order[edge[1]]))

    def get_topological_order(self, node_ids: Iterable[str] | None = None) -> list[str]:
        """All roles, or those given, each after everything it depends on; unknown roles are left out.

        Roles keep their order also where what stands between them was not asked for.
        """
        with self._lock:
            return self._sorted(self._graph if node_ids is None else set(node_ids) & set(self._graph))

    def clear_published_data(self) -> None:
        """Forget all items; roles, edges and version counters stay."""
        with self._lock:
            self._items.clear()

    def to_dict(self) -> dict[str, Any]:
        """Structure, live items and version counters as plain JSON types (as far as the metadata is)."""
        with self._lock:
            nodes = self._sorted(self._graph)
            items = [item for node in nodes if (item := self._live(node))]
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
        """The graph that `to_dict` described. Raises CycleError; InvalidArgument where it is none."""
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
            raise InvalidArgument(f"This does not describe a memory graph: {error!r}.") from error
        return graph

    def _refuse_cycle(self, src: str, dst: str) -> None:
        if src == dst:
            raise CycleError([src, src])
        if src in self._graph and dst in self._graph and nx.has_path(self._graph, dst, src):
            raise CycleError([*nx.shortest_path(self._graph, dst, src), dst])

    def _live(self, node_id: str, edge: PropagationPolicy | None = None) -> MemoryItem | None:
        item = self._items.get(node_id)
        if item is None or item.is_expired(self._clock()):
            return None
        return item if edge is None or edge.lets_through(item.policy) else None

    def _ancestors(self, node_id: str, policy: PropagationPolicy) -> set[str]:
        """Those from which an item of this policy finds a way to the role."""

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
