"""The error for an edge that would close a cycle."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from archon.errors import GraphCycle


class CycleError(GraphCycle, nx.NetworkXUnfeasible):
    """The dependencies would form a cycle. `path` lists its roles; the first is also the last."""

    def __init__(self, path: Sequence[str]) -> None:
        cycle = " -> ".join(path)
        super().__init__(f"the dependencies would form a cycle: {cycle}", metadata={"cycle": cycle})
        self.path = tuple(path)

    def __reduce__(self) -> tuple[type[CycleError], tuple[tuple[str, ...]]]:
        return type(self), (self.path,)
