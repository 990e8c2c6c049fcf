"""The graph as data, as text and as a picture."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import InvalidArgument
from archon_mesh.core.memory_graph import (
    CycleError,
    PropagationPolicy,
    SharedMemoryGraph,
    to_dot,
    to_mermaid,
    to_svg,
    to_text,
)
from archon_mesh.core.memory_graph.svg import Look

EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
DRAWINGS = Path(__file__).parent / "drawings"
NASTY = 'a "b" <c> & \\ #1; end'
SVG = "{http://www.w3.org/2000/svg}"


def test_graph_survives_a_json_round_trip() -> None:
    graph = SharedMemoryGraph(clock=lambda: 5.0)
    graph.add_edge("a", "b", PropagationPolicy.TOOL_RESULTS)
    graph.add_agent("lone")
    graph.publish("c", "gone")
    graph.clear_published_data()
    graph.publish("a", "text", {"x": [1]}, policy=PropagationPolicy.TOOL_RESULTS, ttl=9)
    data = json.loads(json.dumps(graph.to_dict()))
    again = SharedMemoryGraph.from_dict(data, clock=lambda: 6.0)
    assert again.to_dict() == data
    assert again.pull_for("b") == graph.pull_for("b")
    published = again.publish("c", "more")
    assert published is not None
    assert published.version == 2


def test_malformed_data_is_rejected() -> None:
    whole = SharedMemoryGraph().to_dict()
    broken = [
        {},
        {**whole, "edges": [{"src": "a"}]},
        {**whole, "items": [{"policy": "odd"}]},
        {**whole, "versions": 1},
    ]
    for data in broken:
        with pytest.raises(InvalidArgument, match=r"^malformed memory graph: \w+\("):
            SharedMemoryGraph.from_dict(data)
    with pytest.raises(InvalidArgument, match=r"^the name of a role is empty$"):
        SharedMemoryGraph.from_dict({**whole, "nodes": [""]})
    ring = [{"src": s, "dst": d, "policy": "full_history"} for s, d in ("ab", "ba")]
    with pytest.raises(CycleError):
        SharedMemoryGraph.from_dict({**whole, "edges": ring})


def test_mermaid_has_each_role_and_edge() -> None:
    assert to_mermaid(["lone"], EDGES[:1], {"designer": 'the "designer"\n2 up'}) == (
        "flowchart LR\n"
        '    n0["the #quot;designer#quot;<br/>2 up"]\n'
        '    n1["lone"]\n'
        '    n2["requirements"]\n'
        "    n2 --> n0\n"
    )


def test_dot_has_each_role_and_edge() -> None:
    dot = to_dot(['a"b\\'], EDGES[:1], {"designer": "designer\n2 up"})
    assert '    "a\\"b\\\\";\n' in dot
    assert '    "designer" [label="designer\\n2 up"];\n' in dot
    assert '    "requirements" -> "designer";\n' in dot
    assert dot.startswith("digraph mesh {\n")
    assert dot.endswith("}\n")


def test_text_has_one_line_per_role_in_layers() -> None:
    assert to_text(["advisor"], EDGES, {"designer": "designer\n(2)"}) == (
        "  1  advisor\n"
        "     requirements  ->  designer, implementer\n"
        "  2  designer (2)  ->  implementer\n"
        "  3  implementer\n"
    )


@pytest.mark.parametrize("draw", [to_mermaid, to_dot, to_svg, to_text])
def test_drawings_reject_cycles_and_ignore_the_input_order(draw: object) -> None:
    assert callable(draw)
    nodes = {"requirements", "designer", "implementer"}
    assert draw(sorted(nodes), EDGES) == draw([], [*EDGES[::-1], EDGES[0]])
    with pytest.raises(CycleError, match=r"a -> b -> a|b -> a -> b"):
        draw([], [("a", "b"), ("b", "a")])


@pytest.mark.parametrize(("name", "draw"), [("roles.svg", to_svg), ("roles.dot", to_dot), ("roles.mmd", to_mermaid)])
def test_a_drawing_is_this_one(name: str, draw: Callable[..., str]) -> None:
    labels = {"designer": "designer\n(2 & more)", "implementer": "`implementer` #1 > 0"}
    edges = [*EDGES, ("requirements", "tester"), ("implementer", "tester")]
    assert draw(["advisor"], edges, labels) == (DRAWINGS / name).read_text()


def test_empty_graph_is_drawn() -> None:
    assert ElementTree.fromstring(to_svg([], [])).tag == f"{SVG}svg"


def test_svg_shows_every_role_and_edge_escaped() -> None:
    picture = ElementTree.fromstring(to_svg([NASTY, "bell\x07"], EDGES, {"designer": "designer\n2 up"}))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert sorted(filter(None, texts)) == sorted(
        [NASTY, "bell\ufffd", "designer", "2 up", "implementer", "requirements"]
    )
    assert len(picture.findall(f"{SVG}path")) == len(EDGES)


def boxes_of(picture: ElementTree.Element) -> dict[str | None, tuple[float, float, float, float]]:
    boxes = {}
    for group in picture.findall(f"{SVG}g"):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        assert rect is not None
        assert title is not None
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        boxes[title.text] = (x, y, x + width, y + height)
    return boxes


roles = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(roles, roles).filter(lambda edge: edge[0] < edge[1]), max_size=20))
def test_svg_boxes_do_not_overlap_and_edges_avoid_them(edges: list[tuple[str, str]]) -> None:
    picture = ElementTree.fromstring(to_svg(["h"], edges))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    boxes = boxes_of(picture)
    assert all(x > 0 and y > 0 and right < width and low < height for x, y, right, low in boxes.values())
    for role, (x, y, right, low) in boxes.items():
        for other, (x2, y2, right2, low2) in boxes.items():
            assert role == other or right <= x2 or right2 <= x or low <= y2 or low2 <= y
    for path in picture.findall(f"{SVG}path"):
        points = [float(number) for number in re.findall(r"-?[\d.]+", path.attrib["d"])]
        assert points
        # Horizontal segments cross a column: `H` to its far side.
        for start, end in pairwise(re.findall(r"[MC][^MCH]*|H[\d.]+", path.attrib["d"])):
            if end.startswith("H"):
                level_y, level_x = float(start.split()[-1]), float(start.split()[-2])
                inside = [x <= level_x < right and y < level_y < low for x, y, right, low in boxes.values()]
                assert not any(inside)


def test_svg_edges_start_and_end_at_the_boxes_of_their_roles() -> None:
    picture = ElementTree.fromstring(to_svg([], [("a", "b")]))
    boxes = boxes_of(picture)
    path = picture.find(f"{SVG}path")
    assert path is not None
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.attrib["d"])]
    assert numbers[0] == boxes["a"][2]
    assert numbers[-2] == boxes["b"][0]
    assert boxes["b"][1] < numbers[-1] < boxes["b"][3]


WIDTHS = {"W": 0.989, "m": 0.974, "a": 0.613, "役": 1.0, "🚀": 1.0, "д": 0.691, "\u0301": 0.0}
"""Advances in DejaVu Sans, and of wide characters in any font, as parts of the size of the font."""


@pytest.mark.parametrize("char", WIDTHS)
def test_a_label_of_any_characters_fits_into_its_box(char: str) -> None:
    for count in (1, 20, 200):
        picture = ElementTree.fromstring(to_svg(["x"], [], {"x": char * count}))
        left, _, right, _ = boxes_of(picture)["x"]
        assert 14 * WIDTHS[char] * count + 20 <= right - left <= max(60.0, 2 * 14 * count)


def test_the_text_of_an_edge_fits_between_its_boxes() -> None:
    flow = "{" + "役" * 20 + "}"
    picture = ElementTree.fromstring(to_svg([], [("a", "b")], None, Look(edge_labels={("a", "b"): flow})))
    boxes = boxes_of(picture)
    assert boxes["b"][0] - boxes["a"][2] >= 12 * len(flow)
