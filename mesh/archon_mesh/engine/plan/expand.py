"""Expansions: a plan that is completed while it is executed, because its next steps depend on results.

A subtask with `expand` is not executed: as soon as its dependencies have completed, the planner is asked for its
replacement. So it is if a subtask with `expand_on_failure` fails. Everything that has begun is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from archon_mesh.engine.plan.errors import shown
from archon_mesh.engine.plan.faults import FaultKind, PlanFault
from archon_mesh.engine.plan.subtask import WAITING, SubTask, SubTaskStatus
from archon_mesh.engine.plan.task import Task

MAX_EXPANSIONS: Final = 200
"""How often a plan is expanded."""


def due_expansions(task: Task, handled: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the ids of the subtasks in whose place the planner has to plan now: those with `expand` of whose
    dependencies enough have completed, or with partial input all have ended, and those with `expand_on_failure` that
    failed.

    `handled` are failed subtasks that an earlier expansion was for.
    """
    by_id = {subtask.id: subtask for subtask in task.subtasks}
    return tuple(subtask.id for subtask in task.subtasks if is_due(subtask, by_id, handled))


def is_due(subtask: SubTask, by_id: Mapping[str, SubTask], handled: Collection[str]) -> bool:
    """Tells whether the planner has to plan in the place of a subtask. `by_id` has the subtasks that it depends on."""
    if awaits_expansion(subtask, handled):
        return True
    if not subtask.expand or subtask.status not in WAITING:
        return False
    upstream = [each for id_ in set(subtask.dependencies) if (each := by_id.get(id_)) is not None]
    completed = sum(each.status is SubTaskStatus.COMPLETED for each in upstream)
    if completed >= min(subtask.needed, len(upstream)):
        return True
    return subtask.partial_input and all(each.has_ended and not awaits_expansion(each, handled) for each in upstream)


def awaits_expansion(subtask: SubTask, handled: Collection[str]) -> bool:
    """Tells whether a subtask has failed and the planner has yet to plan its replacement."""
    return subtask.expand_on_failure and subtask.status is SubTaskStatus.FAILED and subtask.id not in handled


def expanded(old: Task, reply: Task, places: Collection[str]) -> Task:
    """Returns the plan with the planner's reply for these places.

    A subtask that has begun stays as it is, whatever the reply has for it. Of the others, those that the reply has are
    taken from it, those in `places` that it does not have are left out, and the rest is kept. A subtask that depends on
    one of the `places` and is not in the reply depends on the last new subtasks instead.
    """
    replied = {subtask.id: subtask for subtask in reply.subtasks}
    known = {subtask.id for subtask in old.subtasks}
    added = [subtask for subtask in reply.subtasks if subtask.id not in known]
    last = _last(added)
    left_out = {each.id: each for each in old.subtasks if each.id in places and not _stays(each, replied)}
    replaced = {id_ for id_ in places if id_ in known and id_ not in replied}

    def kept(subtask: SubTask) -> SubTask:
        if subtask.status not in WAITING:
            return subtask
        if subtask.id in replied:
            return _without(replied[subtask.id], left_out)
        return _moved(subtask, replaced, last or _before(left_out))

    subtasks = [kept(subtask) for subtask in old.subtasks if subtask.id not in left_out]
    subtasks += [_without(subtask, left_out) for subtask in added]
    return Task(
        old.id,
        old.original_query,
        reply.goal or old.goal,
        tuple(subtasks),
        {**old.context, **reply.context},
    )


def expansion_faults(task: Task, places: Collection[str]) -> list[PlanFault]:
    """Returns the places that a plan leaves as they were, though all that they depend on is there."""
    by_id = {subtask.id: subtask for subtask in task.subtasks}
    message = "subtask {!r} is still to be expanded, though all that it depends on has completed"
    return [
        PlanFault(FaultKind.NOT_EXPANDED, id_, message.format(shown(id_)))
        for id_ in places
        if id_ in by_id and by_id[id_].expand and is_due(by_id[id_], by_id, ())
    ]


def _stays(subtask: SubTask, replied: Mapping[str, SubTask]) -> bool:
    return subtask.status not in WAITING or subtask.id in replied


def _last(added: Collection[SubTask]) -> tuple[str, ...]:
    """The ids of the new subtasks on which no other new one depends."""
    used = {id_ for subtask in added for id_ in subtask.dependencies}
    return tuple(subtask.id for subtask in added if subtask.id not in used)


def _before(left_out: Mapping[str, SubTask]) -> tuple[str, ...]:
    """The dependencies of the omitted subtasks."""
    ids = (id_ for subtask in left_out.values() for id_ in subtask.dependencies)
    return tuple(id_ for id_ in dict.fromkeys(ids) if id_ not in left_out)


def _without(subtask: SubTask, left_out: Mapping[str, SubTask]) -> SubTask:
    """The subtask, which takes over the dependencies of the omitted ones."""
    return _moved(subtask, left_out.keys(), _before(left_out))


def _moved(subtask: SubTask, gone: Collection[str], to: tuple[str, ...]) -> SubTask:
    if not any(id_ in gone for id_ in subtask.dependencies):
        return subtask
    ids = (id_ for each in subtask.dependencies for id_ in (to if each in gone else (each,)))
    return replace(subtask, dependencies=tuple(id_ for id_ in dict.fromkeys(ids) if id_ != subtask.id))
