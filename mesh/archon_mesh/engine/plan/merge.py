"""Merges subtasks: neighbours if a plan has too many steps, and steps without a purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from archon_mesh.engine.plan.errors import shown
from archon_mesh.engine.plan.faults import has_purpose
from archon_mesh.engine.plan.order import dependants, topological_order
from archon_mesh.engine.plan.replan import renamed
from archon_mesh.engine.plan.subtask import SubTask
from archon_mesh.engine.plan.task import Task

MAX_DESCRIPTION = 20_000
"""Characters of the description of merged subtasks."""


def merge_neighbours(subtasks: Sequence[SubTask], limit: int) -> tuple[list[SubTask], list[str]]:
    """Returns at most `limit` subtasks besides those that have ended, and a line for each merge.

    Neighbours in the order of execution with the same tool, role and capability are merged first. If that is not
    enough, the last ones become a single one that only thinks. The subtasks must have no cycle.
    """
    by_id = {subtask.id: subtask for subtask in subtasks}
    order = topological_order(tuple(subtasks), dependants(Task("", "", "", tuple(subtasks))))
    remaining = [by_id[id_] for id_ in order if not by_id[id_].has_ended]
    excess = len(remaining) - limit
    if excess <= 0:
        return list(subtasks), []
    groups: list[list[SubTask]] = []
    for subtask in remaining:
        if excess > 0 and groups and _may_merge(groups[-1][0], subtask):
            groups[-1].append(subtask)
            excess -= 1
        else:
            groups.append([subtask])
    if len(groups) > limit:
        groups[limit - 1 :] = [[subtask for group in groups[limit - 1 :] for subtask in group]]
    changes = [
        f"subtasks {', '.join(shown(each.id) for each in group[:20])} are merged: the plan has more than {limit}"
        for group in groups
        if len(group) > 1
    ]
    ended = [subtask for subtask in subtasks if subtask.has_ended]
    return _with_merged(ended, groups), changes


def merge_without_purpose(subtasks: Sequence[SubTask], goal: str) -> tuple[list[SubTask], list[str]]:
    """Returns the subtasks without those that do not name their work, and a line for each change.

    The dependants of such a step take over its dependencies. If no other subtask is left, it gets the goal as its
    description. The subtasks must have no cycle.
    """
    empty = {each.id: each for each in subtasks if not each.has_ended and not has_purpose(each)}
    if not empty:
        return list(subtasks), []
    if len(empty) == len(subtasks):
        first, *others = subtasks
        change = f"subtask {shown(first.id)!r} has the goal as its description: no step said what is to be done"
        return [replace(first, description=goal, dependencies=())], [change, *map(_merged_line, others)]
    order = topological_order(tuple(subtasks), dependants(Task("", "", "", tuple(subtasks))))
    # In the order of execution, so that a chain of such steps hands its dependencies on.
    for id_ in order:
        if id_ in empty:
            empty[id_] = _with_inherited(empty[id_], empty)
    kept = [_with_inherited(subtask, empty) for subtask in subtasks if subtask.id not in empty]
    return kept, [_merged_line(subtask) for subtask in empty.values()]


def _merged_line(subtask: SubTask) -> str:
    return f"subtask {shown(subtask.id)!r} is merged into what follows it: it does not say what is to be done"


def _with_inherited(subtask: SubTask, empty: Mapping[str, SubTask]) -> SubTask:
    if not any(id_ in empty for id_ in subtask.dependencies):
        return subtask
    dependencies: dict[str, None] = {}
    for id_ in subtask.dependencies:
        dependencies.update(dict.fromkeys(empty[id_].dependencies if id_ in empty else (id_,)))
    return replace(subtask, dependencies=tuple(dependencies))


def _binding(subtask: SubTask) -> tuple[str, str, str]:
    return subtask.tool_name, subtask.role, subtask.capability


def _is_joined(subtask: SubTask) -> bool:
    """Tells whether the subtask has a part of its own in a pattern of several."""
    joins = subtask.decision or subtask.quorum or subtask.delay_seconds or subtask.timeout_seconds
    return bool(joins or subtask.assigned_by or subtask.bid_for)


def _may_merge(first: SubTask, second: SubTask) -> bool:
    if any(_is_joined(each) for each in (first, second)):
        return False
    flags = [(each.expand, each.expand_on_failure) for each in (first, second)]
    return _binding(first) == _binding(second) and flags[0] == flags[1]


def _with_merged(ended: Sequence[SubTask], groups: Sequence[Sequence[SubTask]]) -> list[SubTask]:
    names = {subtask.id: group[0].id for group in groups for subtask in group if subtask.id != group[0].id}
    result = list(ended)
    for group in groups:
        merged = renamed(group[0] if len(group) == 1 else _merged(group), names)
        dependencies = [id_ for id_ in dict.fromkeys(merged.dependencies) if id_ != merged.id]
        result.append(replace(merged, dependencies=tuple(dependencies)))
    return result


def _merged(group: Sequence[SubTask]) -> SubTask:
    first = group[0]
    same_binding = all(_binding(each) == _binding(first) for each in group)
    # With different arguments, the tool is called several times: the agent that has it writes them.
    same_args = same_binding and all(each.tool_args == first.tool_args for each in group)
    tool_name, role, capability = _binding(first) if same_binding else ("", "", "")
    descriptions = dict.fromkeys(each.description.strip() for each in group if each.description.strip())
    outputs = dict.fromkeys(each.expected_output.strip() for each in group if each.expected_output.strip())
    schemas = [each.output_schema for each in group]
    return replace(
        first,
        description="; then ".join(descriptions)[:MAX_DESCRIPTION],
        expected_output="; ".join(outputs)[:MAX_DESCRIPTION],
        tool_name=tool_name,
        tool_args=first.tool_args if same_args else {},
        role=role,
        capability=capability,
        dependencies=tuple(id_ for each in group for id_ in each.dependencies),
        critical=any(each.critical for each in group),
        partial_input=all(each.partial_input for each in group),
        checkpoint=any(each.checkpoint for each in group),
        expand=any(each.expand for each in group),
        expand_on_failure=any(each.expand_on_failure for each in group),
        estimated_seconds=sum(each.estimated_seconds for each in group),
        estimated_cost_micro_usd=sum(each.estimated_cost_micro_usd for each in group),
        output_schema=first.output_schema if all(each == first.output_schema for each in schemas) else {},
        confidence=min(each.confidence for each in group),
        quorum=0,
        delay_seconds=0.0,
        delay_quantile=0.0,
        decision="",
        timeout_seconds=0.0,
        assigned_by="",
        bid_for="",
    )
