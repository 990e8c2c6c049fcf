"""Shows a workflow before it is run: its steps as text, or as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan import SubTask, Task, to_dot, to_mermaid
from archon_mesh.workflows.schema import DEFAULT_MEMBERS, StepPart, default_id
from archon_mesh.workflows.workflow import Workflow

MAX_SHOWN: Final = 200
"""Characters of a text."""


def to_text(workflow: Workflow) -> str:
    """Returns the parameters and the steps, each on a line."""
    lines = [f"{workflow.reference}" + (f": {workflow.description}" if workflow.description else "")]
    for name, parameter in workflow.parameters.items():
        default = "required" if parameter.required else f"default {parameter.default!r}"
        allowed = f", one of {', '.join(map(str, parameter.enum))}" if parameter.enum is not None else ""
        note = f": {parameter.description}" if parameter.description else ""
        lines.append(f"  -p {name}={parameter.type} ({default}{allowed}){note}")
    return "\n".join([*lines, *_lines(workflow.steps, 1)]) + "\n"


def workflow_to_mermaid(workflow: Workflow) -> str:
    """Returns a Mermaid flowchart of the steps."""
    return to_mermaid(_as_task(workflow))


def workflow_to_dot(workflow: Workflow) -> str:
    """Returns a digraph of Graphviz of the steps."""
    return to_dot(_as_task(workflow))


def _as_task(workflow: Workflow) -> Task:
    """All steps with both branches of each condition, and the steps of a loop once."""
    subtasks: list[SubTask] = []
    _collect(subtasks, workflow.steps, (), "")
    return Task("", "", "", tuple(subtasks))


def _collect(
    subtasks: list[SubTask], steps: Sequence[StepPart], after: tuple[str, ...], prefix: str
) -> tuple[str, ...]:
    for index, step in enumerate(steps):
        id_ = prefix + (step.id or step.save_as or default_id(index))
        subtasks.append(
            SubTask(
                id_,
                _what(step),
                tool_name=step.tool or "",
                dependencies=after,
                role=step.role or "",
                capability=step.capability or "",
            )
        )
        ends: list[str] = []
        for key, inner in step.blocks():
            if key == "parallel":
                for number, each in enumerate(inner):
                    inner_prefix = f"{id_}/" + ("" if each.id or each.save_as else f"{number + 1}-")
                    ends += _collect(subtasks, [each], (id_,), inner_prefix)
            else:
                ends += _collect(subtasks, inner, (id_,), f"{id_}/{key}/")
        if step.on_error is not None and step.on_error.steps:
            ends += [id_, *_collect(subtasks, step.on_error.steps, (id_,), f"{id_}/on_error/")]
        if step.kind == "if" and not step.else_:
            ends.append(id_)
        after = tuple(dict.fromkeys(ends)) or (id_,)
    return after


def _lines(steps: Sequence[StepPart], depth: int) -> Iterator[str]:
    for index, step in enumerate(steps):
        saved = f" -> {step.save_as}" if step.save_as else ""
        yield f"{'  ' * depth}{index + 1}. {_what(step)}{saved}{_error(step)}"
        for key, inner in step.blocks():
            if key in ("then", "else"):
                yield f"{'  ' * depth}   {key}:"
            yield from _lines(inner, depth + 2)
        if step.on_error is not None and step.on_error.steps:
            yield f"{'  ' * depth}   on error:"
            yield from _lines(step.on_error.steps, depth + 2)


def _error(step: StepPart) -> str:
    if step.on_error is None:
        return ""
    parts = [f"retry {step.on_error.retry}"] if step.on_error.retry else []
    parts += ["continue"] if step.on_error.then == "continue" else []
    return f" [on error: {', '.join(parts)}]" if parts else ""


def _what(step: StepPart) -> str:
    match step.kind:
        case "tool":
            text = f"tool {step.tool}"
        case "role" | "capability":
            text = f"{step.kind} {step.role or step.capability}: {step.task}"
        case "workflow":
            text = f"workflow {step.workflow}"
        case "committee":
            text = f"committee of {step.members or DEFAULT_MEMBERS}: {step.committee}"
        case "swarm":
            text = f"swarm of {step.members or DEFAULT_MEMBERS}: {step.swarm}"
        case "approve":
            text = f"approve: {step.approve}"
        case "if":
            text = f"if {step.if_}"
        case "for_each":
            text = f"for each {step.as_ or 'item'} of {step.for_each}"
        case "parallel":
            text = "at the same time"
        case _:
            text = str(step.task)
    return shortened(" ".join(text.split()), MAX_SHOWN)
