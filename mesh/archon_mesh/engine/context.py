"""Selects the answers that a task receives as context: of this run from its events, of the session's earlier runs from
its submission. Of each role it is the newest that the edge lets through: the answer, or an item."""

from __future__ import annotations

from collections.abc import Iterable

from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import ContextRef, Submission, TaskState


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


def updates_of(run: RunState, task: Task) -> list[ContextRef]:
    """The context that a live attempt would receive now, and has not received with its task: newer answers of roles
    that work at the same time. Only a delegated task can have any, since any other starts after its predecessors."""
    if not task.parent:
        return []
    return [ref for ref in _of_child(run, task) if ref not in task.context]


def _of_predecessors(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    assert run.submission is not None
    if not task.predecessors:
        return ()
    if task.step_id:
        return _of_step(run, task)
    if task.role not in run.submission.all_ancestors:
        answers: list[ContextRef] = []
        for name in task.predecessors:
            other = run.tasks[name]
            if other.items:
                break
            answers.append(ContextRef(other.role, other.result_seq))
        else:
            return tuple(answers)
    policies = _policies(run.submission, task.role)
    return _newest(run.roots(), policies, run.submission.roles)


def _of_step(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    """A step receives the answers of the tasks that it depends on, each of its own, whatever their roles; a bid that
    assigns it is no answer."""
    plan = run.plan
    assigning = plan.steps[task.step_id].assigned_by if plan is not None and plan.in_force(task) else ""
    upstream = (run.tasks[id_] for id_ in task.predecessors if not assigning or run.tasks[id_].step_id != assigning)
    return tuple(ContextRef(other.role, other.result_seq) for other in upstream if other.state is TaskState.COMPLETED)


def _of_child(run: RunState, task: Task) -> tuple[ContextRef, ...]:
    """A delegated task has no predecessors: its context comes from all tasks of the roles upstream of its own."""
    assert run.submission is not None
    policies = _policies(run.submission, task.role)
    if not policies:
        return ()
    order = [target.role for target in run.submission.targets] or run.submission.roles
    return _newest(run.tasks.values(), policies, order)


def _newest(tasks: Iterable[Task], policies: dict[str, int], order: Iterable[str]) -> tuple[ContextRef, ...]:
    newest: dict[str, int] = {}
    for task in tasks:
        if task.role in policies and (seq := task.newest(policies[task.role])):
            newest[task.role] = max(newest.get(task.role, 0), seq)
    return tuple(ContextRef(role, newest[role]) for role in order if role in newest)


def _policies(submission: Submission, role: str) -> dict[str, int]:
    """The roles upstream of this one, with the widest policy that a whole path from there has: the direct ones, or all
    ancestors if the role asks for them."""
    policies = {edge.upstream: edge.policy for edge in submission.edges if edge.downstream == role}
    if role not in submission.all_ancestors:
        return policies
    waiting = list(policies)
    while waiting:  # ends: policies only widen, and there are few
        reader = waiting.pop()
        for edge in submission.edges:
            if edge.downstream == reader:
                policy = min(edge.policy, policies[reader])
                if policy > policies.get(edge.upstream, 0):
                    policies[edge.upstream] = policy
                    waiting.append(edge.upstream)
    return policies
