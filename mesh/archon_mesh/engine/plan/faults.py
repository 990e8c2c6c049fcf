"""Finds the faults of a plan, before anything of it is executed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from archon_mesh.core.words import FUNCTION_WORDS, stem, words
from archon_mesh.engine.decisions import DECISIONS, decision_fault
from archon_mesh.engine.plan.errors import ArgumentsTooLarge, shown
from archon_mesh.engine.plan.order import dependants, find_cycle, topological_order
from archon_mesh.engine.plan.subtask import SubTask
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import root_of, template_keys

MAX_SUBTASKS: Final = 20
"""Subtasks that a plan of a planner may have, without those that have ended."""

QUANTILES: Final = (0.0, 0.95)
"""Values that a `delay_quantile` may have."""

MAX_PLAN_SUBTASKS: Final = 1_000
"""Subtasks that a plan may have at all."""


class FaultKind(StrEnum):
    """The kind of a plan's fault."""

    EMPTY_PLAN = "empty_plan"
    DUPLICATE_ID = "duplicate_id"
    DANGLING_DEPENDENCY = "dangling_dependency"
    CYCLE = "cycle"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_ROLE = "unknown_role"
    UNKNOWN_CAPABILITY = "unknown_capability"
    TOO_MANY_STEPS = "too_many_steps"
    STEP_WITHOUT_PURPOSE = "step_without_purpose"
    MISSING_TEMPLATE_KEY = "missing_template_key"
    ARGUMENTS_TOO_LARGE = "arguments_too_large"
    NOT_EXPANDED = "not_expanded"
    QUORUM_TOO_LARGE = "quorum_too_large"
    UNKNOWN_DECISION = "unknown_decision"
    INVALID_DECISION = "invalid_decision"
    INVALID_ASSIGNMENT = "invalid_assignment"
    INVALID_DELAY = "invalid_delay"
    WRONG_GOAL = "wrong_goal"

    @property
    def failure_kind(self) -> str:
        """The kind of failure in `archon.failure_kinds`; empty for a plan that cannot be executed."""
        return _FAILURE_KINDS.get(self, "")


_FAILURE_KINDS: Final = {
    FaultKind.CYCLE: "planning.cycle",
    FaultKind.TOO_MANY_STEPS: "planning.over_decomposition",
    FaultKind.MISSING_TEMPLATE_KEY: "planning.context_loss",
    FaultKind.WRONG_GOAL: "planning.misread_goal",
    FaultKind.UNKNOWN_TOOL: "model.hallucination",
    FaultKind.UNKNOWN_ROLE: "model.hallucination",
    FaultKind.UNKNOWN_CAPABILITY: "model.hallucination",
}


@dataclass(frozen=True, slots=True)
class PlanFault:
    """One fault. `subtask_id` is empty if it is one of the whole plan; `message` describes it in a sentence."""

    kind: FaultKind
    subtask_id: str
    message: str


def find_faults(
    task: Task,
    *,
    tools: Collection[str] | None,
    roles: Collection[str] | None,
    capabilities: Collection[str] | None,
    max_subtasks: int = MAX_SUBTASKS,
) -> tuple[PlanFault, ...]:
    """Returns all faults of a plan; of subtasks that have ended, only faults of ids and dependencies.

    `tools`, `roles` and `capabilities` are the names that exist; None if they are not known, and not checked.
    """
    return tuple(_faults(task, (tools, roles, capabilities), max_subtasks))


Names = tuple[Collection[str] | None, Collection[str] | None, Collection[str] | None]


def _faults(task: Task, names: Names, max_subtasks: int) -> Iterator[PlanFault]:
    if not task.subtasks:
        yield PlanFault(FaultKind.EMPTY_PLAN, "", "the plan has no subtask")
    yield from _id_faults(task)
    cycle = cycle_of(task.subtasks)
    if cycle is not None:
        path = shown(" -> ".join([*cycle, cycle[0]]))
        yield PlanFault(FaultKind.CYCLE, cycle[0], f"the subtasks depend on each other in a circle: {path}")
    remaining = [subtask for subtask in task.subtasks if not subtask.has_ended]
    if len(remaining) > max_subtasks:
        message = f"the plan has {len(remaining)} subtasks; at most {max_subtasks} are allowed"
        yield PlanFault(FaultKind.TOO_MANY_STEPS, "", message)
    by_id = {subtask.id: subtask for subtask in task.subtasks}
    for subtask in remaining:
        yield from _name_faults(subtask, names)
        yield from _join_faults(subtask)
        if fault := assignment_fault(subtask, by_id):
            yield PlanFault(FaultKind.INVALID_ASSIGNMENT, subtask.id, f"subtask {shown(subtask.id)!r} {fault}")
        if not has_purpose(subtask):
            message = f"subtask {shown(subtask.id)!r} does not say what is to be done"
            yield PlanFault(FaultKind.STEP_WITHOUT_PURPOSE, subtask.id, message)
    if cycle is None and len(remaining) <= MAX_PLAN_SUBTASKS:
        yield from _template_faults(task)
    if is_wrong_goal(task):
        message = f"the goal {shown(task.goal)!r} is not about the query"
        yield PlanFault(FaultKind.WRONG_GOAL, "", message)


def cycle_of(subtasks: tuple[SubTask, ...]) -> list[str] | None:
    """Returns the ids of a cycle, each depending on the one before it, or None."""
    by_id = {subtask.id: subtask for subtask in subtasks}
    unique = tuple(by_id.values())
    task = Task("", "", "", unique)
    ordered = set(topological_order(unique, dependants(task)))
    rest = {id_: subtask for id_, subtask in by_id.items() if id_ not in ordered}
    return find_cycle(rest) if rest else None


def has_purpose(subtask: SubTask) -> bool:
    """Tells whether a subtask names its work: by a description, a tool, a role, a capability or a decision."""
    names = (subtask.tool_name, subtask.role, subtask.capability, subtask.decision)
    return any(names) or any(each.isalnum() for each in subtask.description)


def is_wrong_goal(task: Task) -> bool:
    """Tells whether the goal has no content word of the query, if the query has any."""
    query, goal = _topic(task.original_query), _topic(task.goal)
    return bool(query) and query.isdisjoint(goal)


def ancestors(ids: Iterable[str], by_id: Mapping[str, SubTask]) -> set[str]:
    """Returns the subtasks with these ids, and all that they depend on, directly or not."""
    pending = [id_ for id_ in ids if id_ in by_id]
    found = set(pending)
    while pending:
        for id_ in by_id[pending.pop()].dependencies:
            if id_ in by_id and id_ not in found:
                found.add(id_)
                pending.append(id_)
    return found


def _id_faults(task: Task) -> Iterator[PlanFault]:
    known = {subtask.id for subtask in task.subtasks}
    seen: set[str] = set()
    for subtask in task.subtasks:
        if subtask.id in seen:
            message = f"two subtasks have the id {shown(subtask.id)!r}"
            yield PlanFault(FaultKind.DUPLICATE_ID, subtask.id, message)
        seen.add(subtask.id)
        for id_ in dict.fromkeys(subtask.dependencies):
            if id_ not in known:
                message = f"subtask {shown(subtask.id)!r} depends on {shown(id_)!r}, which is no subtask"
                yield PlanFault(FaultKind.DANGLING_DEPENDENCY, subtask.id, message)


def _name_faults(subtask: SubTask, names: Names) -> Iterator[PlanFault]:
    values = (subtask.tool_name, subtask.role, subtask.capability)
    kinds = (FaultKind.UNKNOWN_TOOL, FaultKind.UNKNOWN_ROLE, FaultKind.UNKNOWN_CAPABILITY)
    for value, known, kind in zip(values, names, kinds, strict=True):
        if value and known is not None and value not in known:
            noun = kind.value.removeprefix("unknown_")
            message = f"subtask {shown(subtask.id)!r} names the {noun} {shown(value)!r}, which does not exist"
            yield PlanFault(kind, subtask.id, message)


def _join_faults(subtask: SubTask) -> Iterator[PlanFault]:
    name, count = shown(subtask.id), len(set(subtask.dependencies))
    if subtask.quorum > count:
        message = f"subtask {name!r} waits for {subtask.quorum:,} of {count:,} dependencies"
        yield PlanFault(FaultKind.QUORUM_TOO_LARGE, subtask.id, message)
    if fault := delay_fault(subtask):
        yield PlanFault(FaultKind.INVALID_DELAY, subtask.id, f"subtask {name!r} {fault}")
    if not subtask.decision:
        return
    if subtask.decision not in DECISIONS:
        message = f"subtask {name!r} names the decision {shown(subtask.decision)!r}, which does not exist"
        yield PlanFault(FaultKind.UNKNOWN_DECISION, subtask.id, message)
    elif problem := decision_fault(subtask.decision, subtask.tool_args):
        yield PlanFault(FaultKind.INVALID_DECISION, subtask.id, f"subtask {name!r}: {problem}")
    if not count:
        message = f"subtask {name!r} decides among the results of its dependencies, and has none"
        yield PlanFault(FaultKind.INVALID_DECISION, subtask.id, message)
    if subtask.tool_name:
        message = f"subtask {name!r} has both a decision and the tool {shown(subtask.tool_name)!r}"
        yield PlanFault(FaultKind.INVALID_DECISION, subtask.id, message)


def delay_fault(subtask: SubTask) -> str:
    """Returns the fault of the `delay_quantile` of a subtask, in a clause; empty if there is none."""
    if subtask.delay_quantile not in QUANTILES:
        return f"starts after the measured quantile {subtask.delay_quantile:g}; only 0.95 is served"
    if subtask.delay_quantile and subtask.delay_seconds <= 0:
        return "starts after a measured time, and has no `delay_seconds` for as long as too little is measured"
    return ""


def assignment_fault(subtask: SubTask, by_id: Mapping[str, SubTask]) -> str:
    """Returns the fault of `assigned_by` or `bid_for` of a subtask, in a clause; empty if there is none."""
    if subtask.assigned_by:
        deciding = by_id.get(subtask.assigned_by)
        if deciding is None or subtask.assigned_by not in subtask.dependencies or not deciding.decision:
            return f"is assigned by {shown(subtask.assigned_by)!r}, which is no decision that it depends on"
        if subtask.decision:
            return "decides, and is assigned by another decision"
    if subtask.bid_for:
        if subtask.bid_for not in by_id or subtask.bid_for == subtask.id:
            return f"bids for {shown(subtask.bid_for)!r}, which is no other subtask"
        if subtask.tool_name or subtask.decision:
            return "bids, and cannot use a tool or decide"
    return ""


def _template_faults(task: Task) -> Iterator[PlanFault]:
    by_id = {subtask.id: subtask for subtask in task.subtasks}
    names = task.context.keys() | by_id.keys()
    for subtask in task.subtasks:
        if subtask.has_ended or not subtask.tool_args or subtask.decision:
            continue
        try:
            keys = list(dict.fromkeys(template_keys(subtask.tool_args, names)))
        except ArgumentsTooLarge as error:
            yield PlanFault(FaultKind.ARGUMENTS_TOO_LARGE, subtask.id, f"subtask {shown(subtask.id)!r}: {error}")
            continue
        known = task.context.keys() | ancestors(subtask.dependencies, by_id) if keys else ()
        for key in keys:
            if root_of(key, known) is None:
                message = (
                    f"subtask {shown(subtask.id)!r} uses {{{shown(key)}}}, which is neither a subtask that it depends "
                    "on nor a value of the context"
                )
                yield PlanFault(FaultKind.MISSING_TEMPLATE_KEY, subtask.id, message)


def _topic(text: str) -> set[str]:
    """Returns the stems of the content words of a text. Of scripts without spaces, each character is a word."""
    found: Iterable[str] = (word for word in words(text) if word not in FUNCTION_WORDS)
    return {part for word in found for part in ([stem(word)] if word.isascii() else _parts(word))}


def _parts(word: str) -> Iterable[str]:
    return word if any(ord(char) >= 0x2E80 for char in word) else (stem(word),)
