"""Draws a graph as SVG, layers from left to right, without external tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape

from archon_mesh.core.memory_graph.export import Labels, label_of
from archon_mesh.core.memory_graph.layout import Edge, Layout, make_layout
from archon_mesh.core.text_width import text_width

# In pixels.
_SIZE, _FLOW_SIZE, _LINE, _PAD = 14, 12, 18, 14
_GAP_X, _GAP_Y, _LANE, _MARGIN = 72, 26, 14, 24

# Scoped by class, because a page may contain the picture inline.
_STYLE = (
    ".graph text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    ".graph text{fill:#1f2937;text-anchor:middle}"
    ".graph .role{fill:#eef2ff;stroke:#4f46e5;stroke-width:1.5}"
    ".graph .edge{fill:none;stroke:#64748b;stroke-width:1.5}"
)
_ARROW = (
    '<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L10 5L0 10z" fill="#64748b"/></marker>'
)

Box = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True, slots=True)
class Look:
    """How a graph is drawn: its title, its style sheet, the classes of nodes other than `role`, and texts on edges."""

    title: str = "Roles and their dependencies"
    style: str = _STYLE
    node_classes: Mapping[str, str] = field(default_factory=dict)
    edge_labels: Mapping[Edge, str] = field(default_factory=dict)


_ROLES = Look()


def to_svg(nodes: Iterable[str], edges: Iterable[Edge], labels: Labels | None = None, look: Look = _ROLES) -> str:
    """Returns the graph as an SVG document; edges that skip a layer avoid its boxes. Raises CycleError."""
    layout = make_layout(nodes, edges)
    names = [node for layer in layout.layers for node in layer]
    texts = {node: printable(label_of(node, labels)).splitlines() or [""] for node in names}
    longest = max((text_width(printable(text), _FLOW_SIZE) for text in look.edge_labels.values()), default=0.0)
    columns, width, height = _place(layout, texts, max(_GAP_X, round(longest) + 2 * _PAD))
    parts = []
    for edge in layout.routes:
        boxes = [columns[index][stop] for index, stop in _stops(layout, edge)]
        parts.append(_path(boxes))
        if text := look.edge_labels.get(edge):
            parts.append(_edge_label(boxes, printable(text)))
    for layer, column in zip(layout.layers, columns, strict=True):
        parts += [_box(node, texts[node], column[node], look.node_classes.get(node, "role")) for node in layer]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>{escape(look.title)}</title><style>{look.style}</style><defs>{_ARROW}</defs>",
            f'<rect class="back" width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _place(layout: Layout, texts: dict[str, list[str]], gap: int) -> tuple[list[dict[str | Edge, Box]], float, float]:
    """Returns the box of each stop per layer (flat for a waypoint), and the size of the drawing."""

    def height_of(stop: str | Edge) -> float:
        return _LANE if isinstance(stop, tuple) else _LINE * len(texts[stop]) + 2 * _PAD

    def width_of(node: str) -> float:
        return round(max(text_width(text, _SIZE) for text in texts[node])) + 2 * _PAD

    tall = [sum(map(height_of, row)) + _GAP_Y * (len(row) - 1) for row in layout.rows]
    full = max(tall, default=0)
    columns: list[dict[str | Edge, Box]] = []
    x = float(_MARGIN)
    for layer, row, used in zip(layout.layers, layout.rows, tall, strict=True):
        wide = max(map(width_of, layer))
        column: dict[str | Edge, Box] = {}
        y = _MARGIN + (full - used) / 2
        for stop in row:
            high = height_of(stop)
            column[stop] = (x, y, wide, high)
            y += high + _GAP_Y
        columns.append(column)
        x += wide + gap
    width = x - gap + _MARGIN if columns else 2 * _MARGIN
    return columns, width, full + 2 * _MARGIN


def _stops(layout: Layout, edge: Edge) -> list[tuple[int, str | Edge]]:
    first = next(index for index, layer in enumerate(layout.layers) if edge[0] in layer)
    return list(enumerate(layout.routes[edge], start=first))


def _path(boxes: list[Box]) -> str:
    """Draws an edge: curves between columns, straight lines across columns that it passes through."""
    left, top, wide, high = boxes[0]
    x, y = left + wide, top + high / 2
    steps = [f"M{x:g} {y:g}"]
    for left, top, wide, high in boxes[1:]:
        middle = (x + left) / 2
        steps.append(f"C{middle:g} {y:g} {middle:g} {top + high / 2:g} {left:g} {top + high / 2:g}")
        x, y = left + wide, top + high / 2
        steps.append(f"H{x:g}")
    return f'<path class="edge" d="{"".join(steps[:-1])}" marker-end="url(#arrow)"/>'


def _edge_label(boxes: list[Box], text: str) -> str:
    """Draws the text of an edge above the middle of its first curve."""
    left, top, wide, high = boxes[0]
    next_left, next_top, _, next_high = boxes[1]
    x, y = (left + wide + next_left) / 2, (top + high / 2 + next_top + next_high / 2) / 2 - 6
    return f'<text class="flow" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _box(node: str, lines: list[str], box: Box, css_class: str) -> str:
    left, top, wide, high = box
    texts = "".join(
        f'<text x="{left + wide / 2:g}" y="{top + _PAD + _LINE * index + 14:g}">{escape(line)}</text>'
        for index, line in enumerate(lines)
    )
    return (
        f'<g><title>{escape(printable(node))}</title><rect class="{css_class}" x="{left:g}" y="{top:g}" '
        f'width="{wide:g}" height="{high:g}" rx="8"/>{texts}</g>'
    )


def printable(text: str) -> str:
    """Replaces characters that XML does not allow: control characters, surrogates, two noncharacters."""
    return "".join(char if _is_xml(ord(char)) else "\ufffd" for char in text)


def _is_xml(code: int) -> bool:
    return code in (9, 10, 13) or (32 <= code < 0xD800) or (0xDFFF < code < 0xFFFE) or code > 0xFFFF
