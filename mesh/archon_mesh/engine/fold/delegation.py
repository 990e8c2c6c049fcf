"""Folds the events of delegations."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Delegation, Task
from archon_mesh.engine.types import quantize


def delegated(run: RunState, event: ev.Delegated, time: float) -> None:
    task = run.tasks[event.task_id]
    memoized = bool(event.child) and task.children.get(event.memo_key) == event.child
    task.delegations[event.delegation_id] = Delegation(event.child, event.memo_key, memoized, event.failure)
    task.applied = max(task.applied, event.sequence)
    if event.checkpointed:
        task.checkpoint = event.payload
    is_dormant = not event.attempt  # it was taken over, and waits to be requested
    if memoized and (child := run.tasks[event.child]).dormant and not is_dormant:
        child.dormant, child.deadline = False, quantize(time + event.timeout)
    if event.child and not memoized:
        task.children[event.memo_key] = event.child
        run.tasks[event.child] = Task(
            event.child,
            event.role,
            parent=event.task_id,
            capability=event.capability,
            payload_in=event.payload,
            timeout=event.timeout,
            deadline=0.0 if is_dormant else quantize(time + event.timeout),
            budget=event.budget,
            dormant=is_dormant,
        )


def delegation_cancelled(run: RunState, event: ev.DelegationCancelled, time: float) -> None:
    task = run.tasks[event.task_id]
    task.delegations[event.delegation_id].cancelled = True
    task.applied = max(task.applied, event.sequence)
