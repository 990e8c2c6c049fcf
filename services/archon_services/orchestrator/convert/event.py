"""Events of the engine and RunEvents: a watcher receives the stored events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon.wire import to_seconds
from archon_mesh.engine import events as ev
from archon_services.orchestrator.convert import budget, delegation, human_input, message, plan, run, task


def event_from_proto(event: run_pb2.RunEvent) -> ev.Event:
    """Converts a stored event. Raises DataLoss if this revision does not know it."""
    arm = event.WhichOneof("event")
    if arm not in _READ:
        raise DataLoss(f"event {event.seq} of run {event.run_id} is unknown to this version")
    return _READ[arm](event)


def write_event(out: run_pb2.RunEvent, event: ev.Event, *, run_id: str, seq: int, time: Timestamp, epoch: int) -> None:
    """Writes an event into an empty RunEvent."""
    out.run_id, out.seq = run_id, seq
    out.time.CopyFrom(time)
    kind = type(event)
    if kind in _OF_TASKS:
        ref = out.task
        ref.task_id, ref.run_id, ref.epoch = event.task_id, run_id, epoch  # type: ignore[union-attr]
        if kind in _OF_ATTEMPTS:
            ref.attempt = event.attempt  # type: ignore[union-attr]
    _WRITE[kind](out, event)


def event_time(event: run_pb2.RunEvent) -> float:
    """Returns when an event was decided, in wall seconds."""
    return to_seconds(event.time)


_READ: Final[dict[str | None, Callable[[run_pb2.RunEvent], ev.Event]]] = {
    "submitted": run.read_submitted,
    "claimed": run.read_claimed,
    "cancel_requested": run.read_cancel_requested,
    "run_state": run.read_run_state,
    "planned": plan.read_planned,
    "task_state": task.read_task_state,
    "dispatched": task.read_dispatched,
    "result": task.read_result,
    "discarded": task.read_discarded,
    "lost": task.read_lost,
    "rejected": task.read_rejected,
    "retry": task.read_retried,
    "checkpoint": task.read_checkpoint,
    "item_published": task.read_item_published,
    "message_sent": message.read_message_sent,
    "subscribed": message.read_subscribed,
    "published": task.read_published,
    "recorded": task.read_recorded,
    "delegated": delegation.read_delegated,
    "delegation_cancelled": delegation.read_delegation_cancelled,
    "budget_reserved": budget.read_budget_reserved,
    "input_requested": human_input.read_input_requested,
    "input_given": human_input.read_input_given,
    "approval_requested": human_input.read_approval_requested,
    "breakpoints_set": human_input.read_breakpoints_set,
    "question_timed_out": human_input.read_question_timed_out,
    "paused": human_input.read_paused,
    "resumed": human_input.read_resumed,
}

_WRITE: Final[dict[type, Callable[[run_pb2.RunEvent, Any], None]]] = {
    ev.Submitted: run.write_submitted,
    ev.Claimed: run.write_claimed,
    ev.CancelRequested: run.write_cancel_requested,
    ev.RunEnded: run.write_run_state,
    ev.TaskCreated: task.write_task_created,
    ev.Planned: plan.write_planned,
    ev.TaskStopping: task.write_task_stopping,
    ev.TaskEnded: task.write_task_ended,
    ev.Dispatched: task.write_dispatched,
    ev.ResultReceived: task.write_result,
    ev.Discarded: task.write_discarded,
    ev.Lost: task.write_lost,
    ev.Rejected: task.write_rejected,
    ev.Retried: task.write_retried,
    ev.CheckpointTaken: task.write_checkpoint,
    ev.ItemPublished: task.write_item_published,
    ev.MessageSent: message.write_message_sent,
    ev.Subscribed: message.write_subscribed,
    ev.Published: task.write_published,
    ev.Recorded: task.write_recorded,
    ev.Delegated: delegation.write_delegated,
    ev.DelegationCancelled: delegation.write_delegation_cancelled,
    ev.BudgetReserved: budget.write_budget_reserved,
    ev.InputRequested: human_input.write_input_requested,
    ev.InputGiven: human_input.write_input_given,
    ev.ApprovalRequested: human_input.write_approval_requested,
    ev.BreakpointsSet: human_input.write_breakpoints_set,
    ev.QuestionTimedOut: human_input.write_question_timed_out,
    ev.Paused: human_input.write_paused,
    ev.Resumed: human_input.write_resumed,
}

_OF_TASKS: Final = frozenset(kind for kind in _WRITE if any(field.name == "task_id" for field in fields(kind)))
_OF_ATTEMPTS: Final = frozenset(kind for kind in _WRITE if any(field.name == "attempt" for field in fields(kind)))
