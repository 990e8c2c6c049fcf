"""Drawings of plans."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine.plan import PlanCycle, SubTaskStatus, Task, to_dot, to_mermaid, to_svg
from tests.unit.mesh.engine.plan.plans import plans, step, task_of

TRIP = task_of(
    step("a", description="Find a flight", tool_name="search").with_result("AB12"),
    step("b", "a", description='Book "it" <now>', tool_name="book", tool_args={"id": "{a.id}", "to": "{a.to}"}),
    step("c", "a", role="poet", status=SubTaskStatus.FAILED),
)
DRAWINGS = Path(__file__).parent / "drawings"
HOSTILE = ["end", "", 'a"]; x --> y', "a|b", "<script>", "\\", "\n", "\x00\ud800", "é`md`", "#35;", "{{{", "a" * 500]


def test_mermaid_has_states_and_the_flow_of_results() -> None:
    assert to_mermaid(TRIP).splitlines() == [
        "flowchart TD",
        '    n0["a<br/>Find a flight<br/>tool: search<br/>completed"]:::completed',
        '    n1["b<br/>Book #quot;it#quot; #lt;now#gt;<br/>tool: book<br/>pending"]:::pending',
        '    n2["c<br/>Do c<br/>role: poet<br/>failed"]:::failed',
        '    n0 -->|"{a.id}, {a.to}"| n1',
        "    n0 --> n2",
        "    classDef completed fill:#dcfce7,stroke:#15803d,color:#1f2937",
        "    classDef pending fill:#f1f5f9,stroke:#64748b,color:#1f2937",
        "    classDef failed fill:#fee2e2,stroke:#b91c1c,color:#1f2937",
    ]


def test_dot_has_states_and_the_flow_of_results() -> None:
    lines = to_dot(TRIP).splitlines()
    assert lines[0] == "digraph plan {"
    assert r'[label="b\nBook \"it\" <now>\ntool: book\npending", fillcolor="#f1f5f9", color="#64748b"];' in lines[3]
    assert lines[5:] == ['    n0 -> n1 [label="{a.id}, {a.to}"];', "    n0 -> n2;", "}"]


@pytest.mark.parametrize(("name", "draw"), [("trip.dot", to_dot), ("trip.svg", to_svg)])
def test_a_drawing_is_this_one(name: str, draw: Callable[[Task], str]) -> None:
    assert draw(TRIP) == (DRAWINGS / name).read_text()


def test_long_texts_are_cut() -> None:
    first = step("a" * 100, description="d" * 60, capability="c" * 61)
    second = step("b", first.id, tool_args={"x": f"{{{first.id}.x}}"})
    assert to_mermaid(task_of(first, second)).splitlines()[1:4] == [
        f'    n0["{"a" * 57}...<br/>{"d" * 60}<br/>capability: {"c" * 45}...<br/>pending"]:::pending',
        '    n1["b<br/>Do b<br/>pending"]:::pending',
        f'    n0 -->|"{{{"a" * 26}..."| n1',
    ]


def test_arguments_that_cannot_be_read_show_no_flow() -> None:
    deep: object = "{a}"
    for _ in range(40):
        deep = [deep]
    assert "    n0 --> n1" in to_mermaid(task_of(step("a"), step("b", "a", tool_args={"x": deep})))


def test_svg_has_states_flow_and_both_colour_schemes() -> None:
    svg = to_svg(TRIP)
    root = ElementTree.fromstring(svg)
    classes = [element.get("class") for element in root.iter() if element.tag.endswith("rect")]
    assert classes == ["back", "completed", "pending", "failed"]
    assert [element.text for element in root.iter() if element.get("class") == "flow"] == ["{a.id}, {a.to}"]
    assert "@media (prefers-color-scheme: dark)" in svg


@pytest.mark.parametrize("draw", [to_mermaid, to_dot, to_svg])
def test_what_is_no_plan_is_not_drawn(draw: Callable[[Task], str]) -> None:
    with pytest.raises(PlanCycle):
        draw(task_of(step("a", "a")))


@given(plans(), st.data())
def test_hostile_names_break_no_drawing(task: Task, data: st.DataObject) -> None:
    ids = {each.id: each.id + data.draw(st.sampled_from(HOSTILE)) for each in task.subtasks}
    names = st.sampled_from(HOSTILE)
    hostile = task_of(
        *(
            step(
                ids[each.id],
                *(ids[id_] for id_ in each.dependencies),
                description=data.draw(names),
                tool_name=data.draw(names),
                tool_args={"x": f"{{{data.draw(st.sampled_from(list(ids.values())))}}}"},
            )
            for each in task.subtasks
        )
    )
    ElementTree.fromstring(to_svg(hostile)).tag.encode()
    node = re.compile(r'    n\d+\["[^"\n`]*"\]:::pending')
    edge = re.compile(r'    n\d+ -->(\|"[^"\n`]*"\|)? n\d+')
    for line in to_mermaid(hostile).splitlines()[1:-1]:
        assert node.fullmatch(line) or edge.fullmatch(line)
    text = r'"(?:[^"\\\n]|\\[\\"n])*"'
    for line in to_dot(hostile).splitlines()[2:-1]:
        assert re.fullmatch(
            rf'    n\d+( \[label={text}, fillcolor="#\w+", color="#\w+"\]| -> n\d+( \[label={text}\])?);', line
        )
