"""Which answers a task is handed: within a run context comes from the journal, and what the session knew before it was
journaled as the run was taken on."""

from __future__ import annotations

from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import ContextRef, TaskState


def context_of(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    """The answers of the direct predecessors, or of all ancestors where the role asks for them, in dependency order;
    before them the session's, of roles that have given none in this run."""
    assert run.submission is not None
    inside = _of_child(run, task) if task.parent else _of_predecessors(run, task)
    if not run.submission.outside:
        return inside
    here = {given.role for given in inside}
    scope = run.submission.scope
    before = (
        ContextRef(one.role, 0, one.version, scope)
        for one in run.submission.outside
        if task.role in one.readers and one.role not in here
    )
    return (*before, *inside)


def _of_predecessors(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    assert run.submission is not None
    wanted = set(task.predecessors)
    if task.role in run.submission.all_ancestors:
        for name in reversed(run.tasks):  # tasks stand in topological order
            if name in wanted:
                wanted |= set(run.tasks[name].predecessors)
    return tuple(ContextRef(run.tasks[name].role, run.tasks[name].result_seq) for name in run.tasks if name in wanted)


def _of_child(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    """A delegated task has no predecessors: it is given what the run knows by now of the roles that its own depends on,
    the newest answer of each."""
    assert run.submission is not None
    upstream = {edge.upstream for edge in run.submission.edges if edge.downstream == task.role}
    order = [target.role for target in run.submission.targets] or list(run.submission.roles)
    if task.role in run.submission.all_ancestors:
        for role in reversed(order):
            if role in upstream:
                upstream |= {edge.upstream for edge in run.submission.edges if edge.downstream == role}
    newest = {
        other.role: other.result_seq
        for other in sorted(run.tasks.values(), key=lambda one: one.result_seq)
        if other.role in upstream and other.state is TaskState.COMPLETED
    }
    return tuple(ContextRef(role, newest[role]) for role in order if role in newest)
