"""Applies events to a run's state: the table of fold functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from archon_mesh.engine import events as ev
from archon_mesh.engine.fold import attempts, budget, creation, delegation, human_input, messages, termination
from archon_mesh.engine.state import RunState


def apply(run: RunState, event: ev.Event, time: float) -> None:
    """Changes `run` in place by one event that was decided at `time` (wall seconds)."""
    run.last_seq += 1
    if time > run.latest_time:
        run.latest_time = time
    _FOLD[type(event)](run, event, time)


def fold(events: Iterable[tuple[ev.Event, float]]) -> RunState:
    """The state after these (event, time) pairs, from the first event on. Times are in wall seconds."""
    run = RunState()
    for event, time in events:
        apply(run, event, time)
    return run


_FOLD: dict[type, Callable[[RunState, Any, float], None]] = {
    ev.Submitted: creation.submitted,
    ev.Claimed: creation.claimed,
    ev.TaskCreated: creation.task_created,
    ev.Planned: termination.planned,
    ev.Dispatched: attempts.dispatched,
    ev.Delegated: delegation.delegated,
    ev.DelegationCancelled: delegation.delegation_cancelled,
    ev.BudgetReserved: budget.budget_reserved,
    ev.ResultReceived: termination.result_received,
    ev.InputRequested: human_input.input_requested,
    ev.ApprovalRequested: human_input.approval_requested,
    ev.BreakpointsSet: human_input.breakpoints_set,
    ev.QuestionTimedOut: human_input.question_timed_out,
    ev.InputGiven: human_input.input_given,
    ev.CheckpointTaken: attempts.checkpoint_taken,
    ev.ItemPublished: attempts.item_published,
    ev.MessageSent: messages.message_sent,
    ev.Subscribed: messages.subscribed,
    ev.Paused: human_input.paused,
    ev.Resumed: human_input.resumed,
    ev.Discarded: termination.discarded,
    ev.Lost: attempts.lost,
    ev.Rejected: attempts.rejected,
    ev.Retried: attempts.retried,
    ev.TaskStopping: termination.task_stopping,
    ev.TaskEnded: termination.task_ended,
    ev.CancelRequested: termination.cancel_requested,
    ev.Published: creation.published,
    ev.Recorded: creation.recorded,
    ev.RunEnded: termination.run_ended,
}
