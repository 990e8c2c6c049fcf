"""The engine's events as RunEvents: what the journal stores is what a watcher gets.

A submission's goal travels as `Submitted` with all that the core doesn't read (goal, metadata, trace, budget, what the
session knew); a result's payload is the agent's `TaskResult`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import events as ev
from archon_mesh.core.run.types import NO_LIMIT, Amount, TaskState
from archon_services.orchestrator.convert.failures import failure_to_proto

STRATEGIES = {"pipeline": run_pb2.STRATEGY_PIPELINE, "agent": run_pb2.STRATEGY_AGENT, "plan": run_pb2.STRATEGY_PLAN}


def state_to_proto(state: TaskState) -> common_pb2.TaskState.ValueType:
    """The same number."""
    return cast(common_pb2.TaskState.ValueType, int(state))


def stamp(to: Timestamp | Duration, seconds: float) -> None:
    """Writes seconds in whole microseconds; `seconds_of` reads exactly what `quantize` gave."""
    to.seconds = int(seconds)
    to.nanos = round((seconds - to.seconds) * 1e6) * 1000


def timestamp(seconds: float) -> Timestamp:
    """As `stamp`."""
    whole = int(seconds)
    return Timestamp(seconds=whole, nanos=round((seconds - whole) * 1e6) * 1000)


def event_to_proto(event: ev.Event, *, run_id: str, seq: int, time: Timestamp, epoch: int) -> run_pb2.RunEvent:
    """Converts an event."""
    out = run_pb2.RunEvent()
    write_event(out, event, run_id=run_id, seq=seq, time=time, epoch=epoch)
    return out


def write_event(out: run_pb2.RunEvent, event: ev.Event, *, run_id: str, seq: int, time: Timestamp, epoch: int) -> None:
    """Writes an event into an empty RunEvent."""
    out.run_id, out.seq = run_id, seq
    out.time.seconds, out.time.nanos = time.seconds, time.nanos
    if task_id := getattr(event, "task_id", ""):
        task = out.task
        task.task_id, task.run_id, task.attempt, task.epoch = task_id, run_id, getattr(event, "attempt", 0), epoch
    _WRITE[type(event)](out, event)


def _submitted(out: run_pb2.RunEvent, event: ev.Submitted) -> None:
    said = event.submission
    if isinstance(said.goal, run_pb2.Submitted):
        out.submitted.CopyFrom(said.goal)
    to = out.submitted
    to.request_id, to.session_id, to.tenant = said.request_id, said.session_id, said.tenant
    to.strategy, to.owner, to.epoch = STRATEGIES[said.strategy], event.owner, event.epoch
    if to.roles or to.edges:
        del to.roles[:], to.edges[:]
    to.roles.extend(said.roles)
    for edge in said.edges:
        to.edges.add(upstream=edge.upstream, downstream=edge.downstream, policy=edge.policy)
    del to.wants[:]
    for want in said.requirements:
        to.wants.add(role=want.role, capability=want.capability, version=want.version)
    to.all_ancestors[:] = said.all_ancestors
    del to.targets[:]
    for target in said.targets:
        to.targets.add(role=target.role, description=target.description, coordinator=target.coordinator)
    if said.budget != NO_LIMIT:
        budget = to.budget
        budget.max_tokens, budget.max_cost_micro_usd = said.budget.tokens, said.budget.cost
        budget.max_depth = said.budget.depth
    stamp(to.timeout, said.timeout)


def _claimed(out: run_pb2.RunEvent, event: ev.Claimed) -> None:
    out.claimed.owner, out.claimed.epoch = event.owner, event.epoch


def _task_created(out: run_pb2.RunEvent, event: ev.TaskCreated) -> None:
    out.task_state.role, out.task_state.state = event.role, common_pb2.TASK_STATE_SUBMITTED
    out.task_state.parent_task_id = event.parent


def _dispatched(out: run_pb2.RunEvent, event: ev.Dispatched) -> None:
    out.task.epoch = event.epoch
    out.dispatched.role, out.dispatched.instance_id = event.role, event.instance_id
    for given in event.context:
        if given.seq:
            out.dispatched.given.add(run_id=out.run_id, role=given.role, seq=given.seq)
        else:
            out.dispatched.given.add(scope=given.scope, role=given.role, version=given.version)
    if event.reserved is not None:
        amount_to_proto(event.reserved, out.dispatched.budget)
    if event.conversation_version is not None:
        out.dispatched.conversation_version = event.conversation_version


def amount_to_proto(amount: Amount, to: common_pb2.Budget) -> None:
    """Present even where nothing was reserved: all zero is not the same as no budget."""
    to.SetInParent()
    to.max_tokens, to.max_cost_micro_usd = amount.tokens, amount.cost


def _delegated(out: run_pb2.RunEvent, event: ev.Delegated) -> None:
    if isinstance(event.payload, run_pb2.Delegated):
        out.delegated.CopyFrom(event.payload)
    to = out.delegated
    to.delegation_id, to.child_task_id, to.role = event.delegation_id, event.child, event.role
    to.memo_key, to.sequence, to.capability = event.memo_key, event.sequence, event.capability
    stamp(to.timeout, event.timeout)
    if event.failure is not None:
        to.failure.CopyFrom(failure_to_proto(event.failure))


def _delegation_cancelled(out: run_pb2.RunEvent, event: ev.DelegationCancelled) -> None:
    out.delegation_cancelled.delegation_id, out.delegation_cancelled.sequence = event.delegation_id, event.sequence


def _budget_reserved(out: run_pb2.RunEvent, event: ev.BudgetReserved) -> None:
    out.budget_reserved.request_id, out.budget_reserved.sequence = event.request_id, event.sequence
    if event.reserved is not None:
        amount_to_proto(event.reserved, out.budget_reserved.budget)


def _result(out: run_pb2.RunEvent, event: ev.ResultReceived) -> None:
    to = out.result
    to.role, to.state, to.no_publish = event.role, state_to_proto(event.state), not event.publish
    to.remembered = event.stores_turn
    said = event.payload
    if isinstance(said, agent_pb2.TaskResult):
        to.output.MergeFrom(said.output)
        to.used.MergeFrom(said.used)
        if said.HasField("usage"):
            to.usage.CopyFrom(said.usage)
        if said.metadata:
            to.metadata.update(said.metadata)
    if event.failure is not None:
        to.failure.CopyFrom(failure_to_proto(event.failure))


def _input_requested(out: run_pb2.RunEvent, event: ev.InputRequested) -> None:
    to = out.input_requested
    to.input_id, to.role = event.input_id, event.role
    said = event.payload
    if isinstance(said, agent_pb2.TaskResult):
        to.prompt.MergeFrom(said.input_request.prompt)
        to.schema_json, to.checkpoint = said.input_request.schema_json, said.checkpoint
        if said.HasField("usage"):
            to.usage.CopyFrom(said.usage)


def _input_given(out: run_pb2.RunEvent, event: ev.InputGiven) -> None:
    if isinstance(event.payload, run_pb2.InputGiven):
        out.input_given.CopyFrom(event.payload)
    to = out.input_given
    to.input_id, to.identity, to.request_id = event.input_id, event.identity, event.request_id
    to.payload_hash = bytes.fromhex(event.digest)


def _checkpoint_taken(out: run_pb2.RunEvent, event: ev.CheckpointTaken) -> None:
    if isinstance(event.payload, run_pb2.CheckpointTaken):
        out.checkpoint.CopyFrom(event.payload)
    out.checkpoint.sequence = event.sequence


def _paused(out: run_pb2.RunEvent, event: ev.Paused) -> None:
    out.paused.identity = event.identity


def _resumed(out: run_pb2.RunEvent, event: ev.Resumed) -> None:
    out.resumed.identity = event.identity


def _discarded(out: run_pb2.RunEvent, event: ev.Discarded) -> None:
    out.discarded.reason = failure_pb2.ErrorReason.Value("ERROR_REASON_" + event.reason)


def _lost(out: run_pb2.RunEvent, event: ev.Lost) -> None:
    out.lost.instance_id = event.instance_id
    out.lost.failure.CopyFrom(failure_to_proto(event.failure))


def _rejected(out: run_pb2.RunEvent, event: ev.Rejected) -> None:
    out.rejected.instance_id = event.instance_id
    out.rejected.failure.CopyFrom(failure_to_proto(event.failure))
    stamp(out.rejected.not_before, event.not_before)


def _retried(out: run_pb2.RunEvent, event: ev.Retried) -> None:
    out.retry.role = event.role
    out.retry.failure.CopyFrom(failure_to_proto(event.failure))
    stamp(out.retry.not_before, event.not_before)
    if isinstance(event.payload, agent_pb2.TaskResult) and event.payload.HasField("usage"):
        out.retry.usage.CopyFrom(event.payload.usage)


def _task_stopping(out: run_pb2.RunEvent, event: ev.TaskStopping) -> None:
    out.task_state.role, out.task_state.stopping = event.role, True
    out.task_state.state = common_pb2.TASK_STATE_WORKING
    out.task_state.failure.CopyFrom(failure_to_proto(event.failure))


def _task_ended(out: run_pb2.RunEvent, event: ev.TaskEnded) -> None:
    out.task_state.role, out.task_state.state = event.role, state_to_proto(event.state)
    if event.failure is not None:
        out.task_state.failure.CopyFrom(failure_to_proto(event.failure))


def _cancel_requested(out: run_pb2.RunEvent, event: ev.CancelRequested) -> None:
    to = out.cancel_requested
    to.identity, to.reason = event.identity, event.reason
    to.cause = failure_pb2.ErrorReason.Value("ERROR_REASON_" + event.cause)


def _published(out: run_pb2.RunEvent, event: ev.Published) -> None:
    out.published.role = event.role
    ref = out.published.ref
    ref.role, ref.version, ref.run_id, ref.seq = event.role, event.version, out.run_id, event.seq


def _recorded(out: run_pb2.RunEvent, event: ev.Recorded) -> None:
    out.recorded.count = event.count


def _run_ended(out: run_pb2.RunEvent, event: ev.RunEnded) -> None:
    out.run_state.state = state_to_proto(event.state)
    out.run_state.answer_seqs.extend(event.answer_seqs)
    if event.failure is not None:
        out.run_state.failure.CopyFrom(failure_to_proto(event.failure))


_WRITE: dict[type, Callable[[run_pb2.RunEvent, Any], None]] = {
    ev.Submitted: _submitted,
    ev.Claimed: _claimed,
    ev.TaskCreated: _task_created,
    ev.Dispatched: _dispatched,
    ev.Delegated: _delegated,
    ev.DelegationCancelled: _delegation_cancelled,
    ev.BudgetReserved: _budget_reserved,
    ev.ResultReceived: _result,
    ev.InputRequested: _input_requested,
    ev.InputGiven: _input_given,
    ev.CheckpointTaken: _checkpoint_taken,
    ev.Paused: _paused,
    ev.Resumed: _resumed,
    ev.Discarded: _discarded,
    ev.Lost: _lost,
    ev.Rejected: _rejected,
    ev.Retried: _retried,
    ev.TaskStopping: _task_stopping,
    ev.TaskEnded: _task_ended,
    ev.CancelRequested: _cancel_requested,
    ev.Published: _published,
    ev.Recorded: _recorded,
    ev.RunEnded: _run_ended,
}
