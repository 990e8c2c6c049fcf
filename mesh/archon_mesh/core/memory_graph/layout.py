"""Layout of a graph in layers, each role below everything it depends on; the basis of all drawings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from archon_mesh.core.memory_graph.cycle import CycleError

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Layout:
    """`rows` has, per layer, the roles and the waypoints of edges that pass through it, in drawing order.

    A waypoint is the edge itself. `routes` maps each edge to its stops, from source to target.
    """

    layers: list[list[str]]
    rows: list[list[str | Edge]]
    routes: dict[Edge, list[str | Edge]]


def make_graph(nodes: Iterable[str], edges: Iterable[Edge]) -> nx.DiGraph[str]:
    """Returns a graph with its nodes and edges in sorted order. Raises CycleError."""
    edges = sorted(set(edges))
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(sorted({*nodes, *(end for edge in edges for end in edge)}))
    graph.add_edges_from(edges)
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [src for src, _ in nx.find_cycle(graph)]
        raise CycleError([*cycle, cycle[0]])
    return graph


def make_layers(graph: nx.DiGraph[str]) -> list[list[str]]:
    """Returns the topological generations, each sorted by name."""
    return [sorted(layer) for layer in nx.topological_generations(graph)]


def make_layout(nodes: Iterable[str], edges: Iterable[Edge]) -> Layout:
    """Returns the layout of a graph. Raises CycleError."""
    graph = make_graph(nodes, edges)
    layers = make_layers(graph)
    depth = {node: index for index, layer in enumerate(layers) for node in layer}
    rows: list[list[str | Edge]] = [list(layer) for layer in layers]
    routes: dict[Edge, list[str | Edge]] = {}
    for edge in graph.edges:
        layers_between = range(depth[edge[0]] + 1, depth[edge[1]])
        for index in layers_between:
            rows[index].append(edge)
        routes[edge] = [edge[0], *([edge] * len(layers_between)), edge[1]]
    _reduce_crossings(rows, routes)
    return Layout(layers, rows, routes)


def _reduce_crossings(rows: list[list[str | Edge]], routes: dict[Edge, list[str | Edge]]) -> None:
    """Sorts each row by the mean position of each stop's sources, so that fewer edges cross."""
    sources: dict[str | Edge, list[str | Edge]] = {}
    for (src, dst), route in routes.items():
        sources.setdefault(dst, []).append(route[-2])
        sources.setdefault((src, dst), [src])
    # Positions are fractions of the row, because rows differ in length. A waypoint keeps its position in the last row.
    position: dict[str | Edge, float] = {}
    for row in rows:
        target = {}
        for stop in row:
            source_positions = [position[source] for source in sources.get(stop, []) if source in position]
            target[stop] = position.get(stop, _mean(source_positions))
        row.sort(key=lambda stop: (target[stop], isinstance(stop, tuple), stop))
        position.update({stop: (index + 0.5) / len(row) for index, stop in enumerate(row)})


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.5
