"""Events of delegations."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds, to_seconds
from archon_mesh.engine import events as ev
from archon_services.orchestrator.convert.budget import budget_from_proto
from archon_services.orchestrator.convert.failures import failure_to_proto, optional_failure


def read_delegated(event: run_pb2.RunEvent) -> ev.Event:
    source = event.delegated
    return ev.Delegated(
        event.task.task_id,
        event.task.attempt,
        source.delegation_id,
        source.child_task_id,
        source.role,
        source.memo_key,
        source.sequence,
        source.capability,
        to_seconds(source.timeout),
        budget_from_proto(source.budget),
        bool(source.checkpoint),
        source,
        optional_failure(source),
    )


def write_delegated(out: run_pb2.RunEvent, event: ev.Delegated) -> None:
    if isinstance(event.payload, run_pb2.Delegated):
        out.delegated.CopyFrom(event.payload)
    target = out.delegated
    target.delegation_id, target.child_task_id, target.role = event.delegation_id, event.child, event.role
    target.memo_key, target.sequence, target.capability = event.memo_key, event.sequence, event.capability
    set_seconds(target.timeout, event.timeout)
    if event.failure is not None:
        target.failure.CopyFrom(failure_to_proto(event.failure))


def read_delegation_cancelled(event: run_pb2.RunEvent) -> ev.Event:
    source = event.delegation_cancelled
    return ev.DelegationCancelled(event.task.task_id, event.task.attempt, source.delegation_id, source.sequence)


def write_delegation_cancelled(out: run_pb2.RunEvent, event: ev.DelegationCancelled) -> None:
    out.delegation_cancelled.delegation_id, out.delegation_cancelled.sequence = event.delegation_id, event.sequence
