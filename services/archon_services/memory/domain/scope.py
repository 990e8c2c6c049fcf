"""One scope as it stands: the registry's structure with what was published. What travels is the pure graph's to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archon.registry import Graph
from archon_mesh.core.memory_graph import PropagationPolicy, SharedMemoryGraph
from archon_services.memory.store.port import StoredItem


class Scope:
    """Raises GraphCycle where the structure has one. `clock` gives seconds since the Unix epoch."""

    def __init__(
        self, structure: Graph, stored: Sequence[StoredItem], *, clock: Callable[[], float] | None = None
    ) -> None:
        self.structure = structure
        self._stored = {one.item.source_id: one for one in stored}
        self._graph = SharedMemoryGraph(clock=clock) if clock else SharedMemoryGraph()
        for role in structure.roles:
            self._graph.add_agent(role)
        for edge in structure.edges:
            self._graph.add_edge(edge.upstream, edge.downstream, PropagationPolicy(edge.policy))
        for one in stored:
            self._graph.restore(one.item)

    def pull(self, role: str, *, all_ancestors: bool = False) -> list[StoredItem]:
        """What a role may see, in dependency order; nothing where it is unknown."""
        found = self._graph.pull_for_indirect(role) if all_ancestors else self._graph.pull_for(role)
        return [self._stored[item.source_id] for item in found]

    def roles(self) -> list[str]:
        """All roles, in topological order."""
        return self._graph.get_topological_order()

    def items(self) -> list[StoredItem]:
        """What stands and hasn't expired, in topological order of the roles."""
        return [self._stored[item["source_id"]] for item in self._graph.to_dict()["items"]]
