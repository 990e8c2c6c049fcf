"""Draws a plan: subtasks with the colours of their states, and on the edges which results flow along them."""

from __future__ import annotations

from typing import Final

from archon_mesh.core.memory_graph.export import dot_text, mermaid_text
from archon_mesh.core.memory_graph.svg import Look, printable
from archon_mesh.core.memory_graph.svg import to_svg as graph_to_svg
from archon_mesh.engine.plan.errors import ArgumentsTooLarge
from archon_mesh.engine.plan.order import Plan
from archon_mesh.engine.plan.subtask import SubTask, SubTaskStatus
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import root_of, template_keys

MAX_LABEL: Final = 60
"""Characters of an id, a description or a name in a drawing."""

MAX_FLOW: Final = 30
"""Characters on an edge."""

# Fill and stroke, in light and in dark.
_LIGHT: Final = {
    SubTaskStatus.PENDING: ("#f1f5f9", "#64748b"),
    SubTaskStatus.EXECUTING: ("#dbeafe", "#2563eb"),
    SubTaskStatus.COMPLETED: ("#dcfce7", "#15803d"),
    SubTaskStatus.FAILED: ("#fee2e2", "#b91c1c"),
    SubTaskStatus.SKIPPED: ("#f5f5f4", "#a8a29e"),
}
_DARK: Final = {
    SubTaskStatus.PENDING: ("#1f2937", "#94a3b8"),
    SubTaskStatus.EXECUTING: ("#172554", "#60a5fa"),
    SubTaskStatus.COMPLETED: ("#052e16", "#4ade80"),
    SubTaskStatus.FAILED: ("#450a0a", "#f87171"),
    SubTaskStatus.SKIPPED: ("#1c1917", "#78716c"),
}


def _colours(palette: dict[SubTaskStatus, tuple[str, str]], text: str, back: str) -> str:
    rules = [f".graph .{status}{{fill:{fill};stroke:{stroke}}}" for status, (fill, stroke) in palette.items()]
    return "".join([*rules, f".graph text{{fill:{text}}}.graph .back{{fill:{back}}}"])


# Scoped by class, because a page may contain the picture inline.
_STYLE: Final = (
    ".graph text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;text-anchor:middle}"
    ".graph .flow{font-size:12px}.graph rect{stroke-width:1.5}.graph .back{stroke:none}"
    ".graph .edge{fill:none;stroke:#64748b;stroke-width:1.5}"
    + _colours(_LIGHT, "#1f2937", "#ffffff")
    + "@media (prefers-color-scheme: dark){"
    + _colours(_DARK, "#e5e7eb", "#0d1117")
    + "}"
)


def to_mermaid(task: Task) -> str:
    """Returns a Mermaid flowchart, top to bottom. Raises the errors of `Plan.of`."""
    Plan.of(task)
    # Generated ids, because an id called `end`, or one with a space, would break the syntax.
    ids = {subtask.id: f"n{index}" for index, subtask in enumerate(task.subtasks)}
    lines = ["flowchart TD"]
    for subtask in task.subtasks:
        lines.append(f'    {ids[subtask.id]}["{mermaid_text(_label(subtask))}"]:::{subtask.status}')
    for source, target in _edges(task):
        flow = _flow(task, source, target)
        label = f'|"{mermaid_text(flow)}"|' if flow else ""
        lines.append(f"    {ids[source]} -->{label} {ids[target]}")
    for status in dict.fromkeys(subtask.status for subtask in task.subtasks):
        fill, stroke = _LIGHT[status]
        lines.append(f"    classDef {status} fill:{fill},stroke:{stroke},color:#1f2937")
    return "\n".join(lines) + "\n"


def to_dot(task: Task) -> str:
    """Returns a digraph of Graphviz, top to bottom. Raises the errors of `Plan.of`."""
    Plan.of(task)
    lines = ["digraph plan {", '    node [shape=box, style="rounded,filled"];']
    ids = {subtask.id: f"n{index}" for index, subtask in enumerate(task.subtasks)}
    for subtask in task.subtasks:
        fill, stroke = _LIGHT[subtask.status]
        colours = f'fillcolor="{fill}", color="{stroke}"'
        lines.append(f"    {ids[subtask.id]} [label={dot_text(_label(subtask))}, {colours}];")
    for source, target in _edges(task):
        flow = _flow(task, source, target)
        lines.append(f"    {ids[source]} -> {ids[target]}" + (f" [label={dot_text(flow)}];" if flow else ";"))
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(task: Task) -> str:
    """Returns the plan as an SVG document with light and dark colours. Raises the errors of `Plan.of`."""
    Plan.of(task)
    edges = _edges(task)
    look = Look(
        "Subtasks and their dependencies",
        _STYLE,
        {subtask.id: subtask.status.value for subtask in task.subtasks},
        {edge: flow for edge in edges if (flow := _flow(task, *edge))},
    )
    labels = {subtask.id: _label(subtask) for subtask in task.subtasks}
    return graph_to_svg([subtask.id for subtask in task.subtasks], edges, labels, look)


def _edges(task: Task) -> list[tuple[str, str]]:
    return [(source, subtask.id) for subtask in task.subtasks for source in dict.fromkeys(subtask.dependencies)]


def _label(subtask: SubTask) -> str:
    parts = [subtask.id, subtask.description]
    names = {
        "tool": subtask.tool_name,
        "decision": subtask.decision,
        "role": subtask.role,
        "capability": subtask.capability,
        "waits for": f"{subtask.needed} of {len(set(subtask.dependencies))}" if subtask.quorum else "",
        "starts after": _delay(subtask),
    }
    parts += [f"{noun}: {name}" for noun, name in names.items() if name]
    parts.append(subtask.status.value)
    return "\n".join(text for part in parts if (text := _one_line(part, MAX_LABEL)))


def _delay(subtask: SubTask) -> str:
    if not subtask.delay_seconds:
        return ""
    measured = f"p{100 * subtask.delay_quantile:g}, or " if subtask.delay_quantile else ""
    return f"{measured}{subtask.delay_seconds:g} s"


def _flow(task: Task, source: str, target: str) -> str:
    """Returns the templates of a subtask that use the result of another one."""
    subtask = task.get_subtask(target)
    assert subtask is not None
    if not subtask.tool_args or subtask.decision:
        return ""
    known = {*subtask.dependencies, *task.context}
    try:
        keys = dict.fromkeys(template_keys(subtask.tool_args, known))
    except ArgumentsTooLarge:
        return ""
    return _one_line(", ".join(f"{{{key}}}" for key in keys if root_of(key, known) == source), MAX_FLOW)


def _one_line(text: str, limit: int) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else f"{line[: limit - 3].rstrip()}..."
