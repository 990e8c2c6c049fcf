"""Breaks the cycles of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from archon_mesh.engine.plan.errors import ArgumentsTooLarge, shown
from archon_mesh.engine.plan.faults import cycle_of
from archon_mesh.engine.plan.order import dependants, topological_order
from archon_mesh.engine.plan.subtask import SubTask
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import root_of, template_keys

_MAX_BREAKS: Final = 100
_MAX_SIZE: Final = 2_000


def break_cycles(subtasks: Sequence[SubTask]) -> tuple[list[SubTask], list[str]]:
    """Returns the subtasks without cycles, and a line for each dependency that was dropped: the weakest of its cycle.

    In a plan with more than _MAX_SIZE subtasks and dependencies, or more cycles than _MAX_BREAKS, all dependencies
    within cycles on later subtasks are dropped, which takes linear time.
    """
    current, changes = list(subtasks), list[str]()
    size = len(current) + sum(len(subtask.dependencies) for subtask in current)
    for _ in range(_MAX_BREAKS if size <= _MAX_SIZE else 0):
        cycle = cycle_of(tuple(current))
        if cycle is None:
            return current, changes
        position = {subtask.id: index for index, subtask in enumerate(current)}
        edges = [(cycle[index - 1], id_) for index, id_ in enumerate(cycle)]
        source, target = min(edges, key=lambda edge: _strength(edge, current, position))
        subtask = current[position[target]]
        current[position[target]] = _without(subtask, {source})
        changes.append(f"subtask {shown(target)!r} no longer depends on {shown(source)!r}: they formed a cycle")
    return _drop_backward(current, changes)


def _strength(edge: tuple[str, str], subtasks: list[SubTask], position: dict[str, int]) -> tuple[bool, bool, bool, int]:
    """Returns how much a subtask needs a dependency; the smallest value is the weakest edge.

    The weakest one carries no data (no template uses the result); then one whose dependant may start without it; then
    one against the order in which the planner wrote the steps; then the one that was written last.
    """
    source, target = edge
    subtask = subtasks[position[target]]
    is_used = source in _used(subtask, position)
    return is_used, not subtask.partial_input, position[source] < position[target], -position[target]


def _used(subtask: SubTask, known: dict[str, int]) -> set[str | None]:
    try:
        return {root_of(key, known) for key in template_keys(subtask.tool_args, known)}
    except ArgumentsTooLarge:
        return set()


def _drop_backward(subtasks: list[SubTask], changes: list[str]) -> tuple[list[SubTask], list[str]]:
    ordered = set(topological_order(tuple(subtasks), dependants(Task("", "", "", tuple(subtasks)))))
    position = {subtask.id: index for index, subtask in enumerate(subtasks) if subtask.id not in ordered}
    kept, count = [], 0
    for index, subtask in enumerate(subtasks):
        backward = {id_ for id_ in subtask.dependencies if position.get(id_, -1) >= index}
        count += len(backward)
        kept.append(_without(subtask, backward) if backward else subtask)
    if count:
        changes.append(f"{count} dependencies on later subtasks are dropped: there were too many cycles")
    return kept, changes


def _without(subtask: SubTask, dropped: set[str]) -> SubTask:
    return replace(subtask, dependencies=tuple(id_ for id_ in subtask.dependencies if id_ not in dropped))
