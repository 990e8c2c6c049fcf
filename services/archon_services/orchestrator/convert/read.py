"""RunEvents of the journal as the engine's events."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_mesh.core.run import events as ev
from archon_mesh.core.run.types import (
    Amount,
    Budget,
    ContextRef,
    Edge,
    Failure,
    Requirement,
    SessionContextRef,
    Submission,
    Target,
    TaskState,
)
from archon_services.orchestrator.convert.failures import failure_from_proto

_STRATEGIES = {
    run_pb2.STRATEGY_PIPELINE: "pipeline",
    run_pb2.STRATEGY_AGENT: "agent",
    run_pb2.STRATEGY_PLAN: "plan",
}


def state_from_proto(number: int) -> TaskState:
    """The same number; one that isn't known reads as unspecified."""
    try:
        return TaskState(number)
    except ValueError:
        return TaskState.UNSPECIFIED


def seconds(event: run_pb2.RunEvent) -> float:
    """When an event was decided, in wall seconds."""
    return seconds_of(event.time)


def seconds_of(stamp: Timestamp | Duration) -> float:
    """Seconds, in whole microseconds."""
    return stamp.seconds + (stamp.nanos // 1000) / 1e6


def reason_name(reason: failure_pb2.ErrorReason.ValueType) -> str:
    """A reason as the core writes it."""
    return failure_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")


def event_from_proto(event: run_pb2.RunEvent) -> ev.Event:
    """Raises DataLoss where the journal holds what this revision can't read."""
    arm = event.WhichOneof("event")
    if arm not in _READ:
        raise DataLoss(f"event {event.seq} of run {event.run_id} can't be read by this version")
    return _READ[arm](event)


def _failure(failure: failure_pb2.Failure, present: bool) -> Failure | None:
    return failure_from_proto(failure) if present else None


def budget_from_proto(budget: common_pb2.Budget) -> Budget:
    """What may be spent; its time is the run's, and not here."""
    return Budget(budget.max_tokens, budget.max_cost_micro_usd, budget.max_depth)


def amount_from_usage(usage: common_pb2.Usage) -> Amount:
    """What was spent, in the budget's terms. A negative count is a member's mistake, and gives nothing back."""
    tokens = max(0, usage.input_tokens) + max(0, usage.output_tokens)
    return Amount(tokens, max(0, usage.cost_micro_usd))


def _reserved(event: run_pb2.Dispatched | run_pb2.BudgetReserved) -> Amount | None:
    if not event.HasField("budget"):
        return None
    return Amount(event.budget.max_tokens, event.budget.max_cost_micro_usd)


def outside_from_proto(known: Iterable[run_pb2.SessionContext]) -> tuple[SessionContextRef, ...]:
    """What the engine needs of it; the content stays with the submission's goal."""
    return tuple(SessionContextRef(one.item.ref.role, one.item.ref.version, tuple(one.readers)) for one in known)


def _submitted(event: run_pb2.RunEvent) -> ev.Event:
    said = event.submitted
    submission = Submission(
        run_id=event.run_id,
        tenant=said.tenant,
        request_id=said.request_id,
        session_id=said.session_id,
        strategy=_STRATEGIES.get(said.strategy, "pipeline"),
        roles=tuple(said.roles),
        edges=tuple(Edge(edge.upstream, edge.downstream, int(edge.policy)) for edge in said.edges),
        timeout=seconds_of(said.timeout),
        goal=said,
        requirements=tuple(Requirement(want.role, want.capability, want.version) for want in said.wants),
        all_ancestors=tuple(said.all_ancestors),
        targets=tuple(Target(target.role, target.description, target.coordinator) for target in said.targets),
        budget=budget_from_proto(said.budget),
        session_context=outside_from_proto(said.session_context),
    )
    return ev.Submitted(submission, said.owner, said.epoch)


def _task_state(event: run_pb2.RunEvent) -> ev.Event:
    said = event.task_state
    state = state_from_proto(said.state)
    if state is TaskState.SUBMITTED:
        return ev.TaskCreated(event.task.task_id, said.role, said.parent_task_id)
    if said.stopping:
        return ev.TaskStopping(event.task.task_id, said.role, event.task.attempt, failure_from_proto(said.failure))
    failure = _failure(said.failure, said.HasField("failure"))
    return ev.TaskEnded(event.task.task_id, said.role, event.task.attempt, state, failure)


def _dispatched(event: run_pb2.RunEvent) -> ev.Event:
    given = tuple(ContextRef(ref.role, ref.seq, ref.version, ref.scope) for ref in event.dispatched.given)
    return ev.Dispatched(
        event.task.task_id,
        event.task.attempt,
        event.task.epoch,
        event.dispatched.role,
        event.dispatched.instance_id,
        given,
        _reserved(event.dispatched),
        event.dispatched.conversation_version if event.dispatched.HasField("conversation_version") else None,
    )


def _delegated(event: run_pb2.RunEvent) -> ev.Event:
    said = event.delegated
    return ev.Delegated(
        event.task.task_id,
        event.task.attempt,
        said.delegation_id,
        said.child_task_id,
        said.role,
        said.memo_key,
        said.sequence,
        said.capability,
        seconds_of(said.timeout),
        budget_from_proto(said.budget),
        bool(said.checkpoint),
        said,
        _failure(said.failure, said.HasField("failure")),
    )


def _delegation_cancelled(event: run_pb2.RunEvent) -> ev.Event:
    said = event.delegation_cancelled
    return ev.DelegationCancelled(event.task.task_id, event.task.attempt, said.delegation_id, said.sequence)


def _budget_reserved(event: run_pb2.RunEvent) -> ev.Event:
    said = event.budget_reserved
    reserved = _reserved(said)
    return ev.BudgetReserved(event.task.task_id, event.task.attempt, said.request_id, said.sequence, reserved)


def _result(event: run_pb2.RunEvent) -> ev.Event:
    said = event.result
    payload = agent_pb2.TaskResult(state=said.state, output=said.output, used=said.used, metadata=said.metadata)
    if said.HasField("usage"):
        payload.usage.CopyFrom(said.usage)
    return ev.ResultReceived(
        event.task.task_id,
        event.task.attempt,
        said.role,
        state_from_proto(said.state),
        payload,
        _failure(said.failure, said.HasField("failure")),
        not said.no_publish,
        amount_from_usage(said.usage),
        said.remembered,
    )


def _input_requested(event: run_pb2.RunEvent) -> ev.Event:
    said = event.input_requested
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_INPUT_REQUIRED, checkpoint=said.checkpoint)
    asked = payload.input_request
    asked.input_id, asked.schema_json = said.input_id, said.schema_json
    asked.prompt.MergeFrom(said.prompt)
    if said.HasField("usage"):
        payload.usage.CopyFrom(said.usage)
    return ev.InputRequested(
        event.task.task_id,
        event.task.attempt,
        said.role,
        said.input_id,
        payload,
        amount_from_usage(said.usage),
        bool(said.checkpoint),
    )


def _input_given(event: run_pb2.RunEvent) -> ev.Event:
    said = event.input_given
    return ev.InputGiven(
        event.task.task_id, said.input_id, said.identity, said.request_id, said.payload_hash.hex(), said
    )


def _rejected(event: run_pb2.RunEvent) -> ev.Event:
    said = event.rejected
    return ev.Rejected(
        event.task.task_id,
        event.task.attempt,
        said.instance_id,
        failure_from_proto(said.failure),
        seconds_of(said.not_before),
    )


def _retried(event: run_pb2.RunEvent) -> ev.Event:
    said = event.retry
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED)
    if said.HasField("usage"):
        payload.usage.CopyFrom(said.usage)
    return ev.Retried(
        event.task.task_id,
        event.task.attempt,
        said.role,
        failure_from_proto(said.failure),
        seconds_of(said.not_before),
        amount_from_usage(said.usage),
        payload,
    )


def _lost(event: run_pb2.RunEvent) -> ev.Event:
    said = event.lost
    return ev.Lost(event.task.task_id, event.task.attempt, said.instance_id, failure_from_proto(said.failure))


def _cancel_requested(event: run_pb2.RunEvent) -> ev.Event:
    said = event.cancel_requested
    return ev.CancelRequested(said.identity, said.reason, reason_name(said.cause))


def _run_state(event: run_pb2.RunEvent) -> ev.Event:
    said = event.run_state
    failure = _failure(said.failure, said.HasField("failure"))
    return ev.RunEnded(state_from_proto(said.state), failure, tuple(said.answer_seqs))


_READ: dict[str | None, Callable[[run_pb2.RunEvent], ev.Event]] = {
    "submitted": _submitted,
    "claimed": lambda event: ev.Claimed(event.claimed.owner, event.claimed.epoch),
    "task_state": _task_state,
    "dispatched": _dispatched,
    "delegated": _delegated,
    "delegation_cancelled": _delegation_cancelled,
    "budget_reserved": _budget_reserved,
    "result": _result,
    "input_requested": _input_requested,
    "input_given": _input_given,
    "checkpoint": lambda event: ev.CheckpointTaken(
        event.task.task_id, event.task.attempt, event.checkpoint.sequence, event.checkpoint
    ),
    "paused": lambda event: ev.Paused(event.paused.identity),
    "resumed": lambda event: ev.Resumed(event.resumed.identity),
    "discarded": lambda event: ev.Discarded(
        event.task.task_id, event.task.attempt, reason_name(event.discarded.reason)
    ),
    "lost": _lost,
    "rejected": _rejected,
    "retry": _retried,
    "cancel_requested": _cancel_requested,
    "published": lambda event: ev.Published(
        event.task.task_id, event.published.role, event.published.ref.seq, event.published.ref.version
    ),
    "recorded": lambda event: ev.Recorded(event.task.task_id, event.task.attempt, event.recorded.count),
    "run_state": _run_state,
}
