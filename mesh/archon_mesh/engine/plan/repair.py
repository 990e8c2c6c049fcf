"""Repairs a plan by fixed rules, so that a planner's reply can be executed as far as it is clear."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from archon_mesh.engine.decisions import DECISIONS, decision_fault
from archon_mesh.engine.plan.cycles import break_cycles
from archon_mesh.engine.plan.errors import ArgumentsTooLarge, EmptyPlan, shown
from archon_mesh.engine.plan.faults import (
    MAX_SUBTASKS,
    ancestors,
    assignment_fault,
    delay_fault,
    has_purpose,
    is_wrong_goal,
)
from archon_mesh.engine.plan.merge import merge_neighbours, merge_without_purpose
from archon_mesh.engine.plan.nearest_name import nearest_name
from archon_mesh.engine.plan.replan import free_id
from archon_mesh.engine.plan.subtask import SubTask
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import literal, replace_keys, root_of, template_keys

MAX_COMPARISONS: Final = 20_000
"""Names with which the unknown ones of a plan are compared; further unknown names are dropped."""


def repair(
    task: Task,
    *,
    tools: Collection[str] | None,
    roles: Collection[str] | None,
    capabilities: Collection[str] | None,
    max_subtasks: int = MAX_SUBTASKS,
) -> tuple[Task, tuple[str, ...]]:
    """Returns the task without faults, as `find_faults` finds them with the same arguments, and a line per change.

    Subtasks that have ended keep everything but dependencies that do not exist. Raises EmptyPlan, the only fault that
    cannot be repaired, if there are no subtasks, or none names its work, and neither does the query.
    """
    if not task.subtasks:
        raise EmptyPlan("the plan has no subtask")
    goal, changes = _restore_goal(task)
    subtasks = list(task.subtasks)

    def apply(step: Callable[[list[SubTask]], tuple[list[SubTask], list[str]]]) -> None:
        nonlocal subtasks
        subtasks, lines = step(subtasks)
        changes.extend(lines)

    apply(_make_ids_unique)
    apply(_drop_dangling)
    apply(_drop_large_arguments)
    apply(_drop_decisions)
    apply(break_cycles)
    apply(lambda current: merge_without_purpose(current, goal))
    apply(lambda current: merge_neighbours(current, max_subtasks))
    apply(lambda current: _repair_names(current, tools, roles, capabilities))
    # A step that had nothing but the name of a tool may have no purpose any more.
    apply(lambda current: merge_without_purpose(current, goal))
    apply(lambda current: _repair_templates(replace(task, subtasks=tuple(current))))
    apply(_lower_quorums)
    apply(_drop_assignments)
    apply(_drop_quantiles)
    if not all(subtask.has_ended or has_purpose(subtask) for subtask in subtasks):
        raise EmptyPlan("no subtask says what is to be done, and neither does the query")
    return replace(task, goal=goal, subtasks=tuple(subtasks)), tuple(changes)


def _restore_goal(task: Task) -> tuple[str, list[str]]:
    if not is_wrong_goal(task) and (task.goal.strip() or not task.original_query.strip()):
        return task.goal, []
    return task.original_query, [f"the goal is the query again: {shown(task.goal)!r} is not about it"]


def _make_ids_unique(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    taken = {subtask.id for subtask in subtasks}
    seen: dict[str, SubTask] = {}
    result, changes = [], []
    for subtask in subtasks:
        if subtask.id not in seen:
            seen[subtask.id] = subtask
            result.append(subtask)
        elif subtask == seen[subtask.id]:
            changes.append(f"subtask {shown(subtask.id)!r} is left out: it stands there twice")
        else:
            id_ = free_id(subtask.id, taken)
            taken.add(id_)
            result.append(replace(subtask, id=id_))
            changes.append(f"the second subtask {shown(subtask.id)!r} is now {shown(id_)!r}")
    return result, changes


def _drop_dangling(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    by_id = {subtask.id: subtask for subtask in subtasks}
    result, changes = [], []
    for subtask in subtasks:
        kept = [
            id_
            for id_ in dict.fromkeys(subtask.dependencies)
            # Ended subtasks wait for nothing.
            if id_ in by_id and (by_id[id_].has_ended or not subtask.has_ended)
        ]
        changes += [
            f"subtask {shown(subtask.id)!r} no longer depends on {shown(id_)!r}, which is no subtask"
            for id_ in dict.fromkeys(subtask.dependencies)
            if id_ not in by_id
        ]
        same = len(kept) == len(subtask.dependencies)
        result.append(subtask if same else replace(subtask, dependencies=tuple(kept)))
    return result, changes


def _drop_large_arguments(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    result, changes = [], []
    for subtask in subtasks:
        try:
            any(template_keys(subtask.tool_args))
        except ArgumentsTooLarge:
            subtask = replace(subtask, tool_args={})
            changes.append(f"the arguments of subtask {shown(subtask.id)!r} are dropped: they are too deep")
        result.append(subtask)
    return result, changes


def _drop_decisions(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    """Drops decisions that do not exist or have nothing to decide among, and the tools and wrong arguments of the
    others."""
    result, changes = [], []
    for subtask in subtasks:
        if subtask.decision and not subtask.has_ended:
            if subtask.decision not in DECISIONS or not subtask.dependencies:
                reason = "there is none" if subtask.decision not in DECISIONS else "it depends on no subtask"
                changes.append(f"subtask {shown(subtask.id)!r} has no decision {shown(subtask.decision)!r}: {reason}")
                subtask = replace(subtask, decision="", tool_args=subtask.tool_args if subtask.tool_name else {})
            elif subtask.tool_name:
                changes.append(f"subtask {shown(subtask.id)!r} has no tool: it decides")
                subtask = replace(subtask, tool_name="", tool_args={})
            elif problem := decision_fault(subtask.decision, subtask.tool_args):
                changes.append(f"subtask {shown(subtask.id)!r} decides without arguments: {problem}")
                subtask = replace(subtask, tool_args={})
        result.append(subtask)
    return result, changes


def _drop_assignments(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    """Empties `assigned_by` and `bid_for` of subtasks in which one of them is a fault."""
    by_id = {subtask.id: subtask for subtask in subtasks}
    result, changes = [], []
    for subtask in subtasks:
        if not subtask.has_ended and (fault := assignment_fault(subtask, by_id)):
            changes.append(f"subtask {shown(subtask.id)!r} is executed as without bids: it {fault}")
            subtask = replace(subtask, assigned_by="", bid_for="")
        result.append(subtask)
    return result, changes


def _drop_quantiles(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    """Empties the `delay_quantile` of subtasks in which it is a fault."""
    result, changes = [], []
    for subtask in subtasks:
        if not subtask.has_ended and (fault := delay_fault(subtask)):
            changes.append(f"subtask {shown(subtask.id)!r} starts after {subtask.delay_seconds:g} s: it {fault}")
            subtask = replace(subtask, delay_quantile=0.0)
        result.append(subtask)
    return result, changes


def _lower_quorums(subtasks: list[SubTask]) -> tuple[list[SubTask], list[str]]:
    result, changes = [], []
    for subtask in subtasks:
        count = len(set(subtask.dependencies))
        if subtask.quorum > count and not subtask.has_ended:
            changes.append(f"subtask {shown(subtask.id)!r} waits for all of its {count:,} dependencies")
            subtask = replace(subtask, quorum=0)
        result.append(subtask)
    return result, changes


def _repair_names(
    subtasks: list[SubTask],
    tools: Collection[str] | None,
    roles: Collection[str] | None,
    capabilities: Collection[str] | None,
) -> tuple[list[SubTask], list[str]]:
    changes: list[str] = []
    comparisons = 0

    def repaired(subtask: SubTask, noun: str, name: str, known: Collection[str] | None) -> str:
        nonlocal comparisons
        if not name or known is None or name in known:
            return name
        comparisons += len(known)
        nearest = (nearest_name(name, known) or "") if comparisons <= MAX_COMPARISONS else ""
        instead = f"{nearest!r} instead" if nearest else "none"
        changes.append(f"subtask {shown(subtask.id)!r} has {noun} {instead}: there is no {shown(name)!r}")
        return nearest

    result = []
    for subtask in subtasks:
        if not subtask.has_ended:
            tool_name = repaired(subtask, "the tool", subtask.tool_name, tools)
            subtask = replace(
                subtask,
                tool_name=tool_name,
                tool_args=subtask.tool_args if tool_name or not subtask.tool_name else {},
                role=repaired(subtask, "the role", subtask.role, roles),
                capability=repaired(subtask, "the capability", subtask.capability, capabilities),
            )
        result.append(subtask)
    return result, changes


def _repair_templates(task: Task) -> tuple[list[SubTask], list[str]]:
    """Makes a subtask depend on those whose results its templates use, or, if that would close a cycle or there is no
    such subtask, makes the template literal text."""
    changes: list[str] = []
    by_id = {subtask.id: subtask for subtask in task.subtasks}
    names = task.context.keys() | by_id.keys()
    for subtask in task.subtasks:
        keys = (
            []
            if subtask.has_ended or subtask.decision
            else list(dict.fromkeys(template_keys(subtask.tool_args, names)))
        )
        known = task.context.keys() | ancestors(subtask.dependencies, by_id) if keys else set()
        for key in keys:
            if root_of(key, known) is not None:
                continue
            source = root_of(key, by_id)
            if source is not None and subtask.id not in (sources := ancestors([source], by_id)):
                subtask = replace(subtask, dependencies=(*subtask.dependencies, source))
                known |= sources
                changes.append(f"subtask {shown(subtask.id)!r} now depends on {shown(source)!r}, whose result it uses")
            else:
                subtask = _with_literal(subtask, key, names)
                changes.append(
                    f"{{{shown(key)}}} is plain text in subtask {shown(subtask.id)!r}: there is no such value"
                )
        by_id[subtask.id] = subtask
    return list(by_id.values()), changes


def _with_literal(subtask: SubTask, key: str, known: Collection[str]) -> SubTask:
    def template(other: str) -> str:
        return literal(key) if other == key else f"{{{other}}}"

    return replace(subtask, tool_args=replace_keys(subtask.tool_args, known, template))
