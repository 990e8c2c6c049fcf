"""What a going attempt has said that counts: delegations, requests, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.task import Delegation, Task
from archon_mesh.core.run.types import quantize

if TYPE_CHECKING:
    from archon_mesh.core.run.state import RunState


def delegated(run: RunState, event: ev.Delegated, time: float) -> None:
    """The fold."""
    task = run.tasks[event.task_id]
    known = event.child in task.children.values()
    task.delegations[event.delegation_id] = Delegation(event.child, event.memo_key, known, event.failure)
    task.applied = max(task.applied, event.sequence)
    if event.checkpointed:
        task.checkpoint = event.payload
    if event.child and not known:
        task.children[event.memo_key] = event.child
        run.tasks[event.child] = Task(
            event.child,
            event.role,
            parent=event.task_id,
            capability=event.capability,
            payload_in=event.payload,
            timeout=event.timeout,
            deadline=quantize(time + event.timeout),
            budget=event.budget,
        )


def checkpoint_taken(run: RunState, event: ev.CheckpointTaken, time: float) -> None:
    """The fold."""
    task = run.tasks[event.task_id]
    task.checkpoint, task.applied = event.payload, max(task.applied, event.sequence)


def delegation_cancelled(run: RunState, event: ev.DelegationCancelled, time: float) -> None:
    """The fold."""
    task = run.tasks[event.task_id]
    task.delegations[event.delegation_id].cancelled = True
    task.applied = max(task.applied, event.sequence)


def budget_reserved(run: RunState, event: ev.BudgetReserved, time: float) -> None:
    """The fold."""
    task = run.tasks[event.task_id]
    task.requests[event.request_id] = event.reserved
    task.applied = max(task.applied, event.sequence)
    if event.reserved is not None:
        task.reserved += event.reserved
