"""Selects the answers that a task receives as context: those of this run from its events, those of the session's
earlier runs from its submission."""

from __future__ import annotations

from collections.abc import Sequence

from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import ContextRef, TaskState


def context_of(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    """The answers of the direct predecessors, or of all ancestors if the role asks for them, in dependency order.

    They follow the session's answers of those upstream roles that have given none in this run.
    """
    assert run.submission is not None
    inside = _of_child(run, task) if task.parent else _of_predecessors(run, task)
    if not run.submission.session_context:
        return inside
    answered_here = {ref.role for ref in inside}
    scope = run.submission.scope
    from_session = (
        ContextRef(answer.role, 0, answer.version, scope)
        for answer in run.submission.session_context
        if task.role in answer.readers and answer.role not in answered_here
    )
    return (*from_session, *inside)


def _of_predecessors(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    assert run.submission is not None
    names: Sequence[str] = task.predecessors
    if names and task.role in run.submission.all_ancestors:
        wanted = set(names)
        for name in reversed(run.tasks):  # tasks are in topological order, as the predecessors of each are
            if name in wanted:
                wanted |= set(run.tasks[name].predecessors)
        names = [name for name in run.tasks if name in wanted]
    return tuple([ContextRef(run.tasks[name].role, run.tasks[name].result_seq) for name in names])


def _of_child(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    """The newest answer of each role upstream of the task's role: a delegated task has no predecessors."""
    assert run.submission is not None
    upstream = {edge.upstream for edge in run.submission.edges if edge.downstream == task.role}
    order = [target.role for target in run.submission.targets] or list(run.submission.roles)
    if task.role in run.submission.all_ancestors:
        for role in reversed(order):
            if role in upstream:
                upstream |= {edge.upstream for edge in run.submission.edges if edge.downstream == role}
    if not upstream:
        return ()
    newest: dict[str, int] = {}
    for other in run.tasks.values():
        if other.role in upstream and other.state is TaskState.COMPLETED:
            newest[other.role] = max(newest.get(other.role, 0), other.result_seq)
    return tuple(ContextRef(role, newest[role]) for role in order if role in newest)
