"""A composite tool as a diagram, in the languages of Mermaid and Graphviz."""

from __future__ import annotations

import json

from archon_mesh.tools.composite.nodes import Graph, Node


def mermaid(graph: Graph) -> str:
    """Returns a flowchart of Mermaid. Nodes are numbered, so that no name breaks it."""
    from archon_mesh.core.memory_graph.export import mermaid_text  # imports networkx

    ids = {name: f"n{number}" for number, name in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes.values():
        lines.append(f'    {ids[node.id]}["{mermaid_text(_label(node))}"]')
    for edge in graph.edges():
        label = f'|"{mermaid_text(str(edge.when))}"|' if edge.when is not None else ""
        lines.append(f"    {ids[edge.source]} -->{label} {ids[edge.target]}")
    for node in graph.nodes.values():
        if node.compensation is not None:
            undo = mermaid_text(f"undo: {node.compensation.tool.name}")
            lines.append(f'    {ids[node.id]} -.-> {ids[node.id]}u(["{undo}"])')
    return "\n".join(lines) + "\n"


def dot(name: str, graph: Graph) -> str:
    """Returns a digraph of Graphviz."""
    lines = [f"digraph {json.dumps(name)} {{"]
    for node in graph.nodes.values():
        label = json.dumps(_label(node), ensure_ascii=False)
        lines.append(f"  {json.dumps(node.id)} [shape=box, label={label}];")
    for edge in graph.edges():
        label = f" [label={json.dumps(str(edge.when), ensure_ascii=False)}]" if edge.when is not None else ""
        lines.append(f"  {json.dumps(edge.source)} -> {json.dumps(edge.target)}{label};")
    for node in graph.nodes.values():
        if node.compensation is not None:
            undo = json.dumps(f"undo {node.id}: {node.compensation.tool.name}")
            lines.append(f"  {json.dumps(node.id)} -> {undo} [style=dashed];")
    return "\n".join([*lines, "}"]) + "\n"


def _label(node: Node) -> str:
    parts = [node.id, node.tool.name]
    if node.for_each is not None:
        parts.append(f"for each, {node.parallel} at once")
    if node.when is not None:
        parts.append(f"if {node.when}")
    if node.on_error != "abort":
        parts.append(f"on error: {node.on_error}")
    return "\n".join(parts)
