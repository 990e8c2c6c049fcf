"""The changes that a fork makes to the run that it is forked from: tasks to execute again, answers, inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon.lineage import RunLineage, TaskLineage, Use

MAX_NAMED: Final = 10
"""Tasks that an error names."""

_DEFAULT_KEY: Final = re.compile(r"[0-9a-f]{16,128}\.[0-9]+")
"""The key of a delegation whose agent has named none."""

Parts = Sequence[common_pb2.Part]


@dataclass(frozen=True, slots=True)
class Asked:
    """The changes as the caller names them: tasks by role, step or id."""

    rerun: Sequence[str] = ()
    answers: Sequence[tuple[str, Parts]] = ()
    inputs: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes by the ids of the run's tasks. `affected` are the tasks that are executed again for them, each with
    the use that is the reason, None if it is changed itself."""

    rerun: Mapping[str, None] = field(default_factory=dict)
    answers: Mapping[str, Parts] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    affected: Mapping[str, Use | None] = field(default_factory=dict)


def changes_of(asked: Asked, lineage: RunLineage) -> Changes:
    """Resolves the names, and finds the tasks to run again. Raises InvalidArgument if a name has no task, or several
    where one is needed, or if the changes of a task exclude each other."""
    rerun: dict[str, None] = {}
    for name in asked.rerun:
        rerun |= dict.fromkeys(task.task_id for task in _named(lineage, "rerun", name))
    answers: dict[str, Parts] = {}
    for name, parts in asked.answers:
        task = _single(lineage, "edited_answers", name)
        if lineage.is_planner(task) and not task.predecessors:
            raise invalid("edited_answers", f"{name} makes the plan: edit the plan, or fork with another goal")
        if task.task_id in answers:
            raise invalid("edited_answers", f"{name} is named twice")
        answers[task.task_id] = parts
    inputs: dict[str, str] = {}
    for name, text in asked.inputs:
        task = _single(lineage, "edited_inputs", name, lambda task: not task.parent_task_id)
        if lineage.is_planner(task):
            raise invalid("edited_inputs", f"{name} plans for the goal: fork with another goal")
        if task.task_id in inputs:
            raise invalid("edited_inputs", f"{name} is named twice")
        inputs[task.task_id] = text
    if both := [task_id for task_id in answers if task_id in rerun or task_id in inputs]:
        label = lineage.tasks[both[0]].label
        raise invalid("edited_answers", f"{label} is not executed if its answer is edited")
    return Changes(rerun, answers, inputs, _affected({**rerun, **dict.fromkeys(inputs)}, answers, lineage))


def _affected(changed: Mapping[str, None], answers: Mapping[str, Parts], lineage: RunLineage) -> dict[str, Use | None]:
    """The tasks to execute again. A delegation under a key of the agent's own counts as changed with the task that made
    it: the key does not tell whether it would request the same."""
    roots: dict[str, None] = {**changed, **dict.fromkeys(answers)}
    while True:
        found = lineage.affected(roots)
        more = {
            child: None
            for task_id in found
            if task_id not in answers
            for key, child in lineage.tasks[task_id].children.items()
            if child not in found and not identifies_request(key)
        }
        if not more:
            return {task_id: use for task_id, use in found.items() if task_id not in answers}
        roots |= more


def identifies_request(memo_key: str) -> bool:
    """Whether equal keys of delegations mean equal requests: if the agent has named none."""
    return _DEFAULT_KEY.fullmatch(memo_key) is not None


def _named(lineage: RunLineage, field_name: str, name: str) -> list[TaskLineage]:
    if not name:
        raise invalid(field_name, "empty name of a task")
    if not (tasks := lineage.named(name)):
        known = dict.fromkeys(task.step_id or task.role for task in lineage.tasks.values())
        names = ", ".join([*known][:MAX_NAMED]) or "none"
        raise invalid(field_name, f"the run has no task {name!r} up to this event; it has {names}")
    return tasks


def _single(
    lineage: RunLineage, field_name: str, name: str, admits: Callable[[TaskLineage], bool] = lambda task: True
) -> TaskLineage:
    tasks = [task for task in _named(lineage, field_name, name) if admits(task)]
    if not tasks:
        raise invalid(field_name, f"{name} was delegated: its input is the request of the task that delegates")
    # Of a step that was planned again only the last task counts.
    tasks = [task for task in tasks if not task.step_id or lineage.in_force(task)] or tasks[-1:]
    if len(tasks) > 1:
        names = ", ".join(task.step_id or task.task_id for task in tasks[:MAX_NAMED])
        raise invalid(field_name, f"{name} has {len(tasks)} tasks in the run; name one of {names}")
    return tasks[0]


def invalid(field_name: str, description: str) -> InvalidArgument:
    """Returns the error about a field of the request."""
    violation = FieldViolation(field_name, description)
    return InvalidArgument(f"{field_name}: {description}", field_violations=[violation])
