"""Which answers of the run a task is handed: within a run context comes from the journal."""

from __future__ import annotations

from archon_mesh.core.run.common import Given, TaskState
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task


def context_of(run: RunState, task: Task) -> tuple[Given, ...]:
    """The answers of the direct predecessors, or of all ancestors where the role asks for them, in dependency order."""
    assert run.submission is not None
    if task.parent:
        return _of_child(run, task)
    wanted = set(task.predecessors)
    if task.role in run.submission.all_ancestors:
        for name in reversed(run.tasks):  # tasks stand in topological order
            if name in wanted:
                wanted |= set(run.tasks[name].predecessors)
    return tuple(Given(run.tasks[name].role, run.tasks[name].result_seq) for name in run.tasks if name in wanted)


def _of_child(run: RunState, task: Task) -> tuple[Given, ...]:
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
    return tuple(Given(role, newest[role]) for role in order if role in newest)
