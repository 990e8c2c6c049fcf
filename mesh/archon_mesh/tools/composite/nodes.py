"""The parts of a composite tool: nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from archon_mesh.tools.composite.values import Argument, Reference, Result, When, references
from archon_mesh.tools.tool import Tool

OnError = Literal["abort", "continue", "retry"]
ON_ERROR: Final = ("abort", "continue", "retry")

MAX_ITEMS: Final = 50
PARALLEL: Final = 4
ATTEMPTS: Final = 3
"""Defaults of a node: items of a list, calls at the same time, attempts of a node that retries."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """The call that undoes a completed call of a node."""

    tool: Tool
    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """A call of a tool, or one call for each item of a list."""

    id: str
    tool: Tool
    inputs: Mapping[str, Any]
    for_each: Argument | Result | None = None
    max_items: int = MAX_ITEMS
    parallel: int = PARALLEL
    when: When | None = None
    join: Literal["all", "any"] = "all"
    on_error: OnError = "abort"
    attempts: int = ATTEMPTS
    compensation: Compensation | None = None

    @property
    def references(self) -> list[Reference]:
        """The values that the node reads before it runs."""
        found = list(references(self.inputs))
        if self.for_each is not None:
            found.append(self.for_each)
        if self.when is not None:
            found.append(self.when.value)
        return found


@dataclass(frozen=True, slots=True)
class Edge:
    """An order between two nodes, with a condition for a branch."""

    source: str
    target: str
    when: When | None = None


@dataclass(slots=True)
class Graph:
    """The nodes and edges of a composite tool. An input that reads another node's result is an edge, too."""

    nodes: dict[str, Node] = field(default_factory=dict)
    declared: list[Edge] = field(default_factory=list)
    outputs: dict[str, Argument | Result] | None = None

    def edges(self) -> list[Edge]:
        """Returns all edges, declared ones first."""
        pairs = {(edge.source, edge.target) for edge in self.declared}
        implied = dict.fromkeys(
            (reference.node, node.id)
            for node in self.nodes.values()
            for reference in node.references
            if isinstance(reference, Result) and (reference.node, node.id) not in pairs
        )
        conditions = dict.fromkeys(
            (edge.when.value.node, edge.target)
            for edge in self.declared
            if edge.when is not None
            and isinstance(edge.when.value, Result)
            and (edge.when.value.node, edge.target) not in pairs | implied.keys()
        )
        return [*self.declared, *(Edge(*pair) for pair in (*implied, *conditions))]

    def leaves(self) -> list[str]:
        """Returns the nodes that no other node follows."""
        sources = {edge.source for edge in self.edges()}
        return [name for name in self.nodes if name not in sources]
