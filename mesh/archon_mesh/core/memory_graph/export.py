"""Exports a graph of roles, given as nodes and edges, as Mermaid, DOT or plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from archon_mesh.core.memory_graph.layout import Edge, make_graph, make_layers

Labels = Mapping[str, str]


def to_mermaid(nodes: Iterable[str], edges: Iterable[Edge], labels: Labels | None = None) -> str:
    """Returns a Mermaid flowchart, left to right. Raises CycleError."""
    graph = make_graph(nodes, edges)
    # Generated ids, because a role called `end`, or one with a space, would break the syntax.
    ids = {node: f"n{index}" for index, node in enumerate(graph)}
    lines = ["flowchart LR"]
    lines += [f'    {ids[node]}["{mermaid_text(label_of(node, labels))}"]' for node in graph]
    lines += [f"    {ids[src]} --> {ids[dst]}" for src, dst in graph.edges]
    return "\n".join(lines) + "\n"


def to_dot(nodes: Iterable[str], edges: Iterable[Edge], labels: Labels | None = None) -> str:
    """Returns a digraph in the DOT language of Graphviz, left to right. Raises CycleError."""
    graph = make_graph(nodes, edges)
    lines = ["digraph mesh {", "    rankdir=LR;", "    node [shape=box, style=rounded];"]
    for node in graph:
        label = label_of(node, labels)
        lines.append(f"    {dot_text(node)}" + (f" [label={dot_text(label)}];" if label != node else ";"))
    lines += [f"    {dot_text(src)} -> {dot_text(dst)};" for src, dst in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def to_text(nodes: Iterable[str], edges: Iterable[Edge], labels: Labels | None = None) -> str:
    """Returns a compact text for the terminal: one line per role, with its layer and an arrow to its dependants.

    ASCII only, except for the names. Raises CycleError.
    """
    graph = make_graph(nodes, edges)
    layers = make_layers(graph)
    shown = {node: " ".join(label_of(node, labels).split()) for node in graph}
    width = max((len(text) for text in shown.values()), default=0)
    lines = []
    for number, layer in enumerate(layers, start=1):
        for index, node in enumerate(layer):
            head = str(number) if index == 0 else ""
            targets = ", ".join(graph.successors(node))
            line = f"{head:>3}  {shown[node]:<{width}}" + (f"  ->  {targets}" if targets else "")
            lines.append(line.rstrip() + "\n")
    return "".join(lines)


def label_of(node: str, labels: Labels | None) -> str:
    """Returns the label of a node, by default its name."""
    return (labels or {}).get(node, node)


def mermaid_text(text: str) -> str:
    """Returns a text for a quoted label of Mermaid."""
    # `#` first, because it starts Mermaid's entities. A label in backticks would be read as Markdown.
    for char, entity in (("#", "#35;"), ("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;")):
        text = text.replace(char, entity)
    return "<br/>".join(text.splitlines())


def dot_text(text: str) -> str:
    """Returns a text as a quoted string of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
