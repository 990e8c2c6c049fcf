"""The conditions of a replan, and the parts of the old plan that the new one keeps."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan.errors import shown
from archon_mesh.engine.plan.subtask import SubTask, SubTaskStatus
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import replace_keys, root_of

MAX_REPLANS: Final = 3
"""How often a plan is made anew."""

MAX_ALIGNMENT_CHECKS: Final = 20
"""How often it is checked whether a plan in progress still serves its query."""

MAX_PROBLEM: Final = 1_000
"""Characters of such a check's findings."""


@dataclass(frozen=True, slots=True)
class ReplanPolicy:
    """When a plan is made anew: after so many failed attempts of one subtask, or failed subtasks in a row, or if the
    confidence is below a value from 0 to 1. A failed critical subtask is enough in itself, and so is a check of the
    plan's alignment with the query that finds none; `max_alignment_checks` are made at most."""

    failures_of_subtask: int = 3
    consecutive_failures: int = 2
    min_confidence: float = 0.3
    max_replans: int = MAX_REPLANS
    max_alignment_checks: int = MAX_ALIGNMENT_CHECKS


@dataclass(frozen=True, slots=True)
class ReplanCounters:
    """The counters that a replan is decided by, since the last plan, except for `replans`.

    `failures` has the failed attempts by subtask, `consecutive_failures` the subtasks that failed since the last one
    that completed, `critical_failure` the id of a failed critical subtask. `confidence` is the confidence in the
    subtask that is next, or in the last result, from 0 to 1. `misalignment` says why the plan no longer serves the
    query; empty if nothing is known against it.
    """

    failures: Mapping[str, int] = field(default_factory=dict)
    consecutive_failures: int = 0
    critical_failure: str | None = None
    confidence: float = 1.0
    replans: int = 0
    misalignment: str = ""

    def with_failed_attempt(self, subtask_id: str) -> ReplanCounters:
        """Counts a failed attempt of a subtask."""
        return replace(self, failures={**self.failures, subtask_id: self.failures.get(subtask_id, 0) + 1})

    def with_failed(self, subtask: SubTask) -> ReplanCounters:
        """Counts a subtask that has failed for good."""
        critical = subtask.id if subtask.critical else self.critical_failure
        return replace(self, consecutive_failures=self.consecutive_failures + 1, critical_failure=critical)

    def without_doubts(self) -> ReplanCounters:
        """Returns the counters with the failures alone. A low confidence, and a plan that does not serve the query, are
        no reason to give up subtasks that may still succeed."""
        return replace(self, confidence=1.0, misalignment="")

    def with_completed(self, subtask_id: str = "") -> ReplanCounters:
        """Counts a subtask that has completed, whatever failed attempts it had."""
        failures = {id_: count for id_, count in self.failures.items() if id_ != subtask_id}
        return replace(self, failures=failures, consecutive_failures=0)

    def with_replan(self) -> ReplanCounters:
        """Counts a replan, and starts to count anew."""
        return ReplanCounters(replans=self.replans + 1)


DEFAULT_POLICY: Final = ReplanPolicy()


def replan_reason(counters: ReplanCounters, policy: ReplanPolicy = DEFAULT_POLICY) -> str | None:
    """Returns the reason to make the plan anew, or None: there is no cause, or no replan left."""
    if counters.replans >= policy.max_replans:
        return None
    if counters.critical_failure is not None:
        return f"the critical subtask {shown(counters.critical_failure)} failed"
    for id_, count in counters.failures.items():
        if count >= policy.failures_of_subtask:
            return f"subtask {shown(id_)} failed {count} times"
    if counters.consecutive_failures >= policy.consecutive_failures:
        return f"{counters.consecutive_failures} subtasks in a row failed"
    if counters.misalignment:
        return f"the plan no longer serves the query: {shortened(counters.misalignment, MAX_PROBLEM)}"
    if counters.confidence < policy.min_confidence:
        return f"the confidence is {counters.confidence:.2f}, below {policy.min_confidence:.2f}"
    return None


def carry_over(old: Task, new: Task) -> Task:
    """Returns the new plan with the completed subtasks of the old one before its own.

    The id and the original query come from the old task; the values of both contexts are kept. A new subtask that
    repeats a completed one is left out; its dependants depend on the completed one. A new subtask that only has the id
    of a completed one gets another id, also in the dependencies and templates of the new subtasks. Ids that the new
    plan does not have refer to completed subtasks.
    """
    completed = [each for each in old.subtasks if each.status is SubTaskStatus.COMPLETED]
    completed_ids = {each.id for each in completed}
    kept = [
        replace(each, dependencies=tuple(id_ for id_ in each.dependencies if id_ in completed_ids))
        for each in completed
    ]
    by_work = {_work(each): each.id for each in completed}
    taken = {each.id for each in (*old.subtasks, *new.subtasks)}
    names: dict[str, str] = {}
    added: list[SubTask] = []
    for subtask in new.subtasks:
        if (done := by_work.get(_work(subtask))) is not None:
            names.setdefault(subtask.id, done)
            continue
        added.append(subtask)
        if subtask.id in completed_ids and subtask.id not in names:
            names[subtask.id] = free_id(subtask.id, taken)
            taken.add(names[subtask.id])
    return Task(
        old.id,
        old.original_query,
        new.goal or old.goal,
        (*kept, *(renamed(each, names) for each in added)),
        {**old.context, **new.context},
    )


def is_same_work(old: Task, new: Task) -> bool:
    """Tells whether two plans leave the same to be done, under whatever ids: the same work after the same work."""
    return _left(old) == _left(new)


def _left(task: Task) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    work = {subtask.id: _work(subtask) for subtask in task.subtasks}
    left = [subtask for subtask in task.subtasks if not subtask.has_ended]
    return sorted((work[each.id], sorted(work[id_] for id_ in each.dependencies if id_ in work)) for each in left)


def free_id(id_: str, taken: Collection[str]) -> str:
    """Returns an id that is not taken: the given one with a number."""
    # A hyphen, because templates read the text after a dot as a path.
    number = 2
    while f"{id_}-{number}" in taken:
        number += 1
    return f"{id_}-{number}"


def renamed(subtask: SubTask, names: Mapping[str, str]) -> SubTask:
    """Returns a subtask with other ids, also in its dependencies and templates."""
    if not names:
        return subtask

    def new_template(key: str) -> str:
        root = root_of(key, names)
        return f"{{{key}}}" if root is None else f"{{{names[root]}{key[len(root) :]}}}"

    return replace(
        subtask,
        id=names.get(subtask.id, subtask.id),
        dependencies=tuple(names.get(id_, id_) for id_ in subtask.dependencies),
        tool_args=replace_keys(subtask.tool_args, names, new_template),
        assigned_by=names.get(subtask.assigned_by, subtask.assigned_by),
        bid_for=names.get(subtask.bid_for, subtask.bid_for),
    )


def _work(subtask: SubTask) -> tuple[str, ...]:
    """Returns a key that is equal for subtasks that ask for the same work."""
    if subtask.decision:
        arguments = json.dumps(subtask.tool_args, sort_keys=True, default=str)
        return subtask.decision, subtask.role, arguments, *sorted(subtask.dependencies)
    if subtask.tool_name:
        return subtask.tool_name, json.dumps(subtask.tool_args, sort_keys=True, default=str)
    return subtask.role, subtask.capability, " ".join(subtask.description.split())
