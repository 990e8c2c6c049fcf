"""The engine: `decide` says what an input means, and nothing else decides.

It is pure: the clock is an argument, ids come with the input or are made from the run's own, and it never changes
the state. Its events become facts when they are appended under the condition of the run's epoch and last event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.budget import exhausted, first_slice, grant, overspent, overspent_part
from archon_mesh.core.run.decide.context import context_of
from archon_mesh.core.run.decide.delegation import cancel_delegation, delegate, expired
from archon_mesh.core.run.decide.human_input import pause, respond, resume
from archon_mesh.core.run.decide.recovery import Kind, next_try, over_budget
from archon_mesh.core.run.decide.results import result
from archon_mesh.core.run.decide.termination import orphans, stop, then_end
from archon_mesh.core.run.effects import CANCEL_GRACE
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Failure, TaskState, quantize

MAX_EVENTS = 50_000
"""The most events that a run may have."""

MARGIN_EVENTS = 200
"""So many of them are kept for bringing a run to its end."""


def decide(run: RunState, given: inp.Input, now: float) -> list[ev.Event]:
    """The events that an input causes, in order; none where it changes nothing. `now` is in wall seconds."""
    happened = _DECIDE[type(given)](run, given, now)
    if happened and run.ending is None and run.last_seq + len(happened) > MAX_EVENTS - MARGIN_EVENTS:
        return _too_many(run, happened)
    return happened


def _too_many(run: RunState, happened: list[ev.Event]) -> list[ev.Event]:
    if isinstance(happened[-1], ev.RunEnded) or isinstance(happened[0], (ev.ResultReceived, ev.TaskEnded)):
        return happened  # it ends anyway, or the next event will see to it
    reason = f"the run has reached {MAX_EVENTS} events"
    failure = Failure("RESOURCE_EXHAUSTED", "TOO_MANY_EVENTS", reason)
    asked = ev.CancelRequested("", reason, "TOO_MANY_EVENTS")
    closed = {event.task_id for event in happened if isinstance(event, (ev.Lost, ev.Rejected))}
    kept = [event for event in happened if not isinstance(event, ev.Dispatched)]
    return then_end(run, [*kept, asked], closed, TaskState.FAILED, failure)


def task_id(run_id: str, number: int) -> str:
    """The id of a run's n-th task, from 1: made from the run's own, so that a decision needs no source of ids."""
    return f"{run_id}.{number}"


def _submit(run: RunState, given: inp.Submit, now: float) -> list[ev.Event]:
    if run.submission is not None:
        return []
    created = [
        ev.TaskCreated(task_id(given.submission.run_id, number), role)
        for number, role in enumerate(given.submission.roles, 1)
    ]
    return [ev.Submitted(given.submission, given.owner, given.epoch), *created]


def _claim(run: RunState, given: inp.Claim, now: float) -> list[ev.Event]:
    if run.ended or given.epoch <= run.epoch:
        return []
    return [ev.Claimed(given.owner, given.epoch)]


def _slot_found(run: RunState, given: inp.SlotFound, now: float) -> list[ev.Event]:
    task = run.tasks.get(given.task_id)
    if task is None or run.ended or not run.ready(task) or now < task.not_before:
        return []
    reserved = first_slice(run, task)
    if isinstance(reserved, Failure):
        return _fail(run, task, [], reserved)
    context = context_of(run, task)
    return [
        ev.Dispatched(
            task.task_id,
            task.attempt + 1,
            run.epoch,
            task.role,
            given.instance_id,
            context,
            reserved,
            given.conversation,
        )
    ]


def _reject(run: RunState, given: inp.RejectIn, now: float) -> list[ev.Event]:
    task = run.current(given.task_id, given.attempt)
    if run.ended or task is None:
        return []
    due = next_try(Kind.REFUSED, task.rejects + 1, given.delay, now)
    rejected = ev.Rejected(
        task.task_id, task.attempt, task.instance_id, given.failure, quantize(now) if due is None else due
    )
    if run.ending is not None:
        return then_end(run, [rejected], {task.task_id})
    if task.stopping:
        return [rejected, _stopped(task)]
    if due is None:
        return _fail(run, task, [rejected], given.failure)
    return [rejected]


def _lost(run: RunState, given: inp.LostIn, now: float) -> list[ev.Event]:
    task = run.current(given.task_id, given.attempt)
    if run.ended or task is None:
        return []
    lost = ev.Lost(task.task_id, task.attempt, task.instance_id, given.failure)
    if run.ending is not None:
        return then_end(run, [lost], {task.task_id})
    if task.stopping:
        return [lost, _stopped(task)]
    if (spent := over_budget(run.recovered)) is not None:
        return _fail(run, task, [lost], spent)
    if next_try(Kind.LOST, task.losses + 1, None, now) is not None:
        return [lost]
    poisoned = Failure(
        "ABORTED",
        "POISONED",
        f"{task.losses + 1} attempts of {task.role} ended with the loss of their process",
        (("role", task.role), ("task_id", task.task_id)),
    )
    return _fail(run, task, [lost], poisoned)


def _stopped(task: Task) -> ev.Event:
    return ev.TaskEnded(task.task_id, task.role, task.attempt, TaskState.CANCELED, task.failure)


def _fail(run: RunState, task: Task, before: list[ev.Event], failure: Failure) -> list[ev.Event]:
    """The task is given up. A delegated one's failure is its parent's to deal with, any other's is the run's."""
    ended = ev.TaskEnded(task.task_id, task.role, task.attempt, TaskState.FAILED, failure)
    if task.parent:
        return [*before, ended, *orphans(run, task)]
    return then_end(run, [*before, ended], {task.task_id}, TaskState.FAILED, failure)


def _delegate(run: RunState, given: inp.DelegateIn, now: float) -> list[ev.Event]:
    task = _going_on(run, given.task_id, given.attempt)
    if task is None:
        return []
    recorded = [ev.Recorded(given.task_id, given.attempt, given.records)] if given.records else []
    return [*recorded, *delegate(run, task, given)]


def _cancel_delegation(run: RunState, given: inp.CancelDelegationIn, now: float) -> list[ev.Event]:
    task = _going_on(run, given.task_id, given.attempt)
    return cancel_delegation(run, task, given) if task is not None else []


def _going_on(run: RunState, name: str, attempt: int) -> Task | None:
    """The current attempt's task, unless it is to stop."""
    task = run.current(name, attempt)
    return None if task is None or run.ended or run.ending is not None or task.stopping else task


def _budget_request(run: RunState, given: inp.BudgetRequestIn, now: float) -> list[ev.Event]:
    task = _going_on(run, given.task_id, given.attempt)
    if task is None or given.request_id in task.requests:
        return []
    reserved = grant(run, task, given.wanted)
    return [ev.BudgetReserved(task.task_id, task.attempt, given.request_id, given.sequence, reserved)]


def _usage(run: RunState, given: inp.UsageIn, now: float) -> list[ev.Event]:
    task = _going_on(run, given.task_id, given.attempt)
    if task is None:
        return []
    if not overspent(run, task, given.spent):
        part = overspent_part(run, task, given.spent)
        return stop(run, part, exhausted(part)) if part is not None else []
    failure = exhausted(task)
    asked = ev.CancelRequested("", failure.message, "BUDGET_EXHAUSTED")
    return then_end(run, [asked], set(), TaskState.FAILED, failure)


def _cancel(run: RunState, given: inp.Cancel, now: float) -> list[ev.Event]:
    if run.ended or run.ending is not None or run.submission is None:
        return []
    reason = given.reason or "cancelled on request"
    failure = Failure("CANCELLED", "CANCELLED", reason)
    return then_end(run, [ev.CancelRequested(given.identity, reason)], set(), TaskState.CANCELED, failure)


def _tick(run: RunState, given: inp.Tick, now: float) -> list[ev.Event]:
    if run.ended or run.submission is None:
        return []
    if run.standing_since and run.ending is None:
        return []
    if run.ending is None and now >= run.deadline:
        reason = f"the run's time of {run.submission.timeout:g} s was over"
        failure = Failure("DEADLINE_EXCEEDED", "RUN_TIMEOUT", reason)
        asked = ev.CancelRequested("", reason, "RUN_TIMEOUT")
        return then_end(run, [asked], set(), TaskState.FAILED, failure)
    if run.ending is not None and now >= run.ending_since + CANCEL_GRACE:
        return then_end(run, [], {task.task_id for task in run.live_tasks()})
    return expired(run, now) if run.ending is None else []


def _checkpoint(run: RunState, given: inp.CheckpointIn, now: float) -> list[ev.Event]:
    task = _going_on(run, given.task_id, given.attempt)
    if task is None:
        return []
    recorded = [ev.Recorded(given.task_id, given.attempt, given.records)] if given.records else []
    return [*recorded, ev.CheckpointTaken(task.task_id, task.attempt, given.sequence, given.payload)]


def _records(run: RunState, given: inp.RecordsIn, now: float) -> list[ev.Event]:
    if run.ended or given.task_id not in run.tasks:
        return []
    return [ev.Recorded(given.task_id, given.attempt, given.count)]


def _published(run: RunState, given: inp.PublishedIn, now: float) -> list[ev.Event]:
    task = run.tasks.get(given.task_id)
    if run.ended or task is None or task.memory_version == given.version:
        return []
    return [ev.Published(task.task_id, task.role, given.seq, given.version)]


_DECIDE: dict[type, Callable[[RunState, Any, float], list[ev.Event]]] = {
    inp.Submit: _submit,
    inp.Claim: _claim,
    inp.SlotFound: _slot_found,
    inp.ResultIn: result,
    inp.DelegateIn: _delegate,
    inp.CancelDelegationIn: _cancel_delegation,
    inp.BudgetRequestIn: _budget_request,
    inp.UsageIn: _usage,
    inp.RejectIn: _reject,
    inp.LostIn: _lost,
    inp.WorkingIn: lambda run, given, now: [],
    inp.RecordsIn: _records,
    inp.PublishedIn: _published,
    inp.CheckpointIn: _checkpoint,
    inp.Cancel: _cancel,
    inp.Respond: respond,
    inp.Pause: pause,
    inp.Resume: resume,
    inp.Tick: _tick,
}
