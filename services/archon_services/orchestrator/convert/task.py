"""Events of tasks and attempts."""

from __future__ import annotations

from typing import cast

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds, to_seconds
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import PLAN_FAILED, UNDECIDED, ContextRef, Item, TaskState
from archon_services.orchestrator.convert.budget import amount_from_usage, amount_to_proto, read_reserved
from archon_services.orchestrator.convert.failures import (
    failure_from_proto,
    failure_to_proto,
    optional_failure,
    reason_from_proto,
    reason_to_proto,
)
from archon_services.orchestrator.convert.placement import choice_from_proto, write_choice


def state_from_proto(number: int) -> TaskState:
    """Converts a state; an unknown number reads as UNSPECIFIED."""
    try:
        return TaskState(number)
    except ValueError:
        return TaskState.UNSPECIFIED


def state_to_proto(state: TaskState) -> common_pb2.TaskState.ValueType:
    """Converts a state."""
    return cast(common_pb2.TaskState.ValueType, state)


def read_task_state(event: run_pb2.RunEvent) -> ev.Event:
    source = event.task_state
    state = state_from_proto(source.state)
    if state is TaskState.SUBMITTED:
        return ev.TaskCreated(
            event.task.task_id,
            source.role,
            source.parent_task_id,
            tuple(source.predecessors),
            source.step_id,
            source.align,
        )
    if source.stopping:
        return ev.TaskStopping(event.task.task_id, source.role, event.task.attempt, failure_from_proto(source.failure))
    failure = optional_failure(source)
    return ev.TaskEnded(event.task.task_id, source.role, event.task.attempt, state, failure)


def write_task_created(out: run_pb2.RunEvent, event: ev.TaskCreated) -> None:
    target = out.task_state
    target.role, target.state = event.role, common_pb2.TASK_STATE_SUBMITTED
    if event.parent:
        target.parent_task_id = event.parent
    if event.align:
        target.align = True
    if event.step_id or event.predecessors:
        target.step_id = event.step_id
        target.predecessors.extend(event.predecessors)


def write_task_stopping(out: run_pb2.RunEvent, event: ev.TaskStopping) -> None:
    out.task_state.role, out.task_state.stopping = event.role, True
    out.task_state.state = common_pb2.TASK_STATE_WORKING
    out.task_state.failure.CopyFrom(failure_to_proto(event.failure))


def write_task_ended(out: run_pb2.RunEvent, event: ev.TaskEnded) -> None:
    out.task_state.role, out.task_state.state = event.role, state_to_proto(event.state)
    if event.failure is not None:
        out.task_state.failure.CopyFrom(failure_to_proto(event.failure))


def read_dispatched(event: run_pb2.RunEvent) -> ev.Event:
    context = tuple(ContextRef(ref.role, ref.seq, ref.version, ref.scope) for ref in event.dispatched.given)
    return ev.Dispatched(
        event.task.task_id,
        event.task.attempt,
        event.task.epoch,
        event.dispatched.role,
        event.dispatched.instance_id,
        context,
        read_reserved(event.dispatched),
        event.dispatched.conversation_version if event.dispatched.HasField("conversation_version") else None,
        choice_from_proto(event.dispatched.placement) if event.dispatched.HasField("placement") else None,
        event.dispatched.expected_seconds,
        event.dispatched.ignores_breakpoints,
    )


def write_dispatched(out: run_pb2.RunEvent, event: ev.Dispatched) -> None:
    target = out.dispatched
    target.role, target.instance_id = event.role, event.instance_id
    if event.epoch != out.task.epoch:
        out.task.epoch = event.epoch
    for ref in event.context:
        if ref.seq:
            target.given.add(run_id=out.run_id, role=ref.role, seq=ref.seq)
        else:
            target.given.add(scope=ref.scope, role=ref.role, version=ref.version)
    if event.reserved is not None:
        amount_to_proto(event.reserved, target.budget)
    if event.conversation_version is not None:
        target.conversation_version = event.conversation_version
    if event.placement is not None:
        write_choice(event.placement, event.role, target.placement)
    if event.expected_seconds:
        target.expected_seconds = event.expected_seconds
    if event.ignores_breakpoints:
        target.ignores_breakpoints = True


def read_result(event: run_pb2.RunEvent) -> ev.ResultReceived:
    source = event.result
    payload = agent_pb2.TaskResult(state=source.state, output=source.output, used=source.used, metadata=source.metadata)
    if source.HasField("usage"):
        payload.usage.CopyFrom(source.usage)
    if source.HasField("resolution"):
        payload.resolution.CopyFrom(source.resolution)
    return ev.ResultReceived(
        event.task.task_id,
        event.task.attempt,
        source.role,
        state_from_proto(source.state),
        payload,
        optional_failure(source),
        not source.no_publish,
        amount_from_usage(source.usage),
        source.remembered,
        winner=source.resolution.winner_step_id,
    )


def write_result(out: run_pb2.RunEvent, event: ev.ResultReceived) -> None:
    target = out.result
    target.role, target.state, target.no_publish = event.role, state_to_proto(event.state), not event.publish
    if event.stores_turn:
        target.remembered = True
    source = event.payload
    if isinstance(source, agent_pb2.TaskResult):
        target.output.MergeFrom(source.output)
        if source.used:
            target.used.MergeFrom(source.used)
        if source.HasField("usage"):
            target.usage.CopyFrom(source.usage)
        if source.metadata:
            target.metadata.update(source.metadata)
        if source.HasField("resolution"):
            target.resolution.CopyFrom(source.resolution)
        target.messages_read = source.messages_read
    if event.failure is not None:
        target.failure.CopyFrom(failure_to_proto(event.failure))


def read_rejected(event: run_pb2.RunEvent) -> ev.Event:
    source = event.rejected
    return ev.Rejected(
        event.task.task_id,
        event.task.attempt,
        source.instance_id,
        failure_from_proto(source.failure),
        to_seconds(source.not_before),
    )


def write_rejected(out: run_pb2.RunEvent, event: ev.Rejected) -> None:
    out.rejected.instance_id = event.instance_id
    out.rejected.failure.CopyFrom(failure_to_proto(event.failure))
    set_seconds(out.rejected.not_before, event.not_before)


def read_retried(event: run_pb2.RunEvent) -> ev.Event:
    source = event.retry
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED, output=source.reply)
    if source.HasField("usage"):
        payload.usage.CopyFrom(source.usage)
    if source.HasField("resolution"):
        payload.resolution.CopyFrom(source.resolution)
    return ev.Retried(
        event.task.task_id,
        event.task.attempt,
        source.role,
        failure_from_proto(source.failure),
        to_seconds(source.not_before),
        amount_from_usage(source.usage),
        payload,
    )


def write_retried(out: run_pb2.RunEvent, event: ev.Retried) -> None:
    out.retry.role = event.role
    out.retry.failure.CopyFrom(failure_to_proto(event.failure))
    set_seconds(out.retry.not_before, event.not_before)
    if isinstance(event.payload, agent_pb2.TaskResult) and event.payload.HasField("usage"):
        out.retry.usage.CopyFrom(event.payload.usage)
    if event.failure.reason == UNDECIDED and isinstance(event.payload, agent_pb2.TaskResult):
        out.retry.resolution.CopyFrom(event.payload.resolution)
    if event.failure.reason == PLAN_FAILED and isinstance(event.payload, agent_pb2.TaskResult):
        out.retry.reply.MergeFrom(event.payload.output)


def read_lost(event: run_pb2.RunEvent) -> ev.Event:
    source = event.lost
    return ev.Lost(event.task.task_id, event.task.attempt, source.instance_id, failure_from_proto(source.failure))


def write_lost(out: run_pb2.RunEvent, event: ev.Lost) -> None:
    out.lost.instance_id = event.instance_id
    out.lost.failure.CopyFrom(failure_to_proto(event.failure))


def read_discarded(event: run_pb2.RunEvent) -> ev.Event:
    source = event.discarded
    payload = agent_pb2.TaskResult(usage=source.usage) if source.HasField("usage") else None
    return ev.Discarded(event.task.task_id, event.task.attempt, reason_from_proto(source.reason), payload)


def write_discarded(out: run_pb2.RunEvent, event: ev.Discarded) -> None:
    out.discarded.reason = reason_to_proto(event.reason)
    if isinstance(event.payload, agent_pb2.TaskResult) and event.payload.HasField("usage"):
        out.discarded.usage.CopyFrom(event.payload.usage)


def read_checkpoint(event: run_pb2.RunEvent) -> ev.Event:
    source = event.checkpoint
    return ev.CheckpointTaken(event.task.task_id, event.task.attempt, source.sequence, source)


def write_checkpoint(out: run_pb2.RunEvent, event: ev.CheckpointTaken) -> None:
    if isinstance(event.payload, run_pb2.CheckpointTaken):
        out.checkpoint.CopyFrom(event.payload)
    out.checkpoint.sequence = event.sequence


def read_item_published(event: run_pb2.RunEvent) -> ev.Event:
    source = event.item_published
    item = Item(int(source.policy), source)
    return ev.ItemPublished(event.task.task_id, event.task.attempt, source.role, source.sequence, item)


def write_item_published(out: run_pb2.RunEvent, event: ev.ItemPublished) -> None:
    if isinstance(event.item.payload, run_pb2.ItemPublished):
        out.item_published.CopyFrom(event.item.payload)
    target = out.item_published
    target.role, target.sequence = event.role, event.sequence
    target.policy = common_pb2.PropagationPolicy.ValueType(event.item.policy)


def read_published(event: run_pb2.RunEvent) -> ev.Event:
    ref = event.published.ref
    return ev.Published(event.task.task_id, event.published.role, ref.seq, ref.version)


def write_published(out: run_pb2.RunEvent, event: ev.Published) -> None:
    out.published.role = event.role
    ref = out.published.ref
    ref.role, ref.version, ref.run_id, ref.seq = event.role, event.version, out.run_id, event.seq


def read_recorded(event: run_pb2.RunEvent) -> ev.Event:
    return ev.Recorded(event.task.task_id, event.task.attempt, event.recorded.count, event.recorded.sequence)


def write_recorded(out: run_pb2.RunEvent, event: ev.Recorded) -> None:
    out.recorded.count, out.recorded.sequence = event.count, event.sequence
