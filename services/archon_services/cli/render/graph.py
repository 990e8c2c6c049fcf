"""The dependency graph of the roles as text, Mermaid, DOT, SVG or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from archon.plain_text import counted
from archon_services.cli.drawing_format import Format

if TYPE_CHECKING:
    from archon.registry import Edge, Graph


def render_graph(
    graph: Graph, instances: Mapping[str, int], form: Format, coordinators: frozenset[str] = frozenset()
) -> str:
    """Renders the graph; `instances` has the number of registered instances by role."""
    from archon_mesh.core import memory_graph

    if form is Format.JSON:
        return json.dumps(_as_json(graph, instances, coordinators), indent=2) + "\n"
    edges = [(edge.upstream, edge.downstream) for edge in graph.edges]
    labels = {role: _label(role, instances.get(role, 0), role in coordinators) for role in graph.roles}
    if form is not Format.TEXT:
        draw = {
            Format.MERMAID: memory_graph.to_mermaid,
            Format.DOT: memory_graph.to_dot,
            Format.SVG: memory_graph.to_svg,
        }
        return draw[form](graph.roles, edges, labels)
    if not graph.roles:
        return "No roles are registered and no edges are pinned.\n"
    width = max((len(_arrow(edge)) for edge in graph.edges), default=0)
    lines = [f"{_arrow(edge):<{width}}  {_origin(edge)}\n" for edge in graph.edges]
    for refused in graph.refused:
        reason = f"would close the cycle {refused.cycle}" if refused.cycle else "retried with the next heartbeat"
        lines.append(f"{_arrow(refused.edge)}  rejected: {reason}\n")
    return memory_graph.to_text(graph.roles, edges, labels) + ("\n" if lines else "") + "".join(lines)


def _label(role: str, count: int, coordinator: bool) -> str:
    instances = counted(count, "instance") if count else "no instance"
    return f"{role} ({instances}{', coordinator' if coordinator else ''})"


def _arrow(edge: Edge) -> str:
    return f"{edge.upstream} -> {edge.downstream}"


def _origin(edge: Edge) -> str:
    declared = f"declared by {counted(len(edge.declared_by), 'instance')}" if edge.declared_by else ""
    return ", ".join(filter(None, (declared, "pinned" if edge.pinned else "", edge.policy.value)))


def _as_json(graph: Graph, instances: Mapping[str, int], coordinators: frozenset[str]) -> dict[str, Any]:
    def plain(edge: Edge) -> dict[str, Any]:
        return {
            "upstream": edge.upstream,
            "downstream": edge.downstream,
            "policy": edge.policy.value,
            "pinned": edge.pinned,
            "declared_by": list(edge.declared_by),
        }

    return {
        "revision": graph.revision,
        "roles": [
            {"role": role, "instances": instances.get(role, 0), "coordinator": role in coordinators}
            for role in graph.roles
        ],
        "edges": [plain(edge) for edge in graph.edges],
        "refused": [{"edge": plain(refused.edge), "cycle": refused.cycle} for refused in graph.refused],
    }
