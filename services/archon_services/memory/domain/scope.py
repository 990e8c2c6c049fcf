"""A scope: the registry's role graph with the items published in it. `SharedMemoryGraph` determines propagation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archon.registry import Graph
from archon_mesh.core.memory_graph import PropagationPolicy, SharedMemoryGraph
from archon_services.memory.domain.items import StoredItem


class Scope:
    """Raises GraphCycle if the role graph has a cycle. `clock` returns seconds since the Unix epoch."""

    def __init__(
        self, role_graph: Graph, stored: Sequence[StoredItem], *, clock: Callable[[], float] | None = None
    ) -> None:
        self.role_graph = role_graph
        self._stored = {(entry.item.source_id, entry.item.version): entry for entry in stored}
        self._graph = SharedMemoryGraph(clock=clock) if clock else SharedMemoryGraph()
        for role in role_graph.roles:
            self._graph.add_agent(role)
        for edge in role_graph.edges:
            self._graph.add_edge(edge.upstream, edge.downstream, PropagationPolicy(edge.policy))
        for entry in sorted(stored, key=lambda entry: entry.item.version):
            self._graph.restore(entry.item)

    def pull(self, role: str, *, all_ancestors: bool = False) -> list[StoredItem]:
        """Returns the items that a role may read, in dependency order; none for an unknown role."""
        visible = self._graph.pull_for_indirect(role) if all_ancestors else self._graph.pull_for(role)
        return [self._stored[item.source_id, item.version] for item in visible]

    def roles(self) -> list[str]:
        """Returns all roles in topological order."""
        return self._graph.get_topological_order()

    def items(self) -> list[StoredItem]:
        """Returns the items that have not expired, in topological order of their roles."""
        return [self._stored[item["source_id"], item["version"]] for item in self._graph.to_dict()["items"]]
