"""The engine: `decide` turns an input into events.

It is pure: the clock is an argument, ids come with the input or derive from the run's id, and the state is never
changed. The events become facts when they are appended on condition of the run's epoch and last event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.alignment import without_outdated_check
from archon_mesh.engine.decide.attempts import input_missing, lost, reject, slot_found
from archon_mesh.engine.decide.breakpoints import set_breakpoints
from archon_mesh.engine.decide.budget import grant, usage
from archon_mesh.engine.decide.decision import decision
from archon_mesh.engine.decide.delegation import cancel_delegation, delegate
from archon_mesh.engine.decide.event_limit import journal_full, limit_events
from archon_mesh.engine.decide.fork import (
    reused_delegations,
    reused_inputs,
    reused_plan,
    reused_results,
)
from archon_mesh.engine.decide.human_input import ask, pause, respond, resume
from archon_mesh.engine.decide.messages import send, subscribe
from archon_mesh.engine.decide.plan_edit import edit_plan
from archon_mesh.engine.decide.results import result
from archon_mesh.engine.decide.termination import then_end
from archon_mesh.engine.decide.timeouts import tick
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, TaskState


def decide(run: RunState, new_input: inp.Input, now: float) -> list[ev.Event]:
    """The events that an input causes, in order; empty if it changes nothing. `now` is in wall seconds."""
    return limit_events(run, without_outdated_check(run, _DECIDE[type(new_input)](run, new_input, now)))


def task_id(run_id: str, number: int) -> str:
    """The id of a run's n-th task, counted from 1. Derived, so that decisions need no source of ids."""
    return f"{run_id}.{number}"


def _submit(run: RunState, submit: inp.Submit, now: float) -> list[ev.Event]:
    if run.submission is not None:
        return []
    created = [
        ev.TaskCreated(task_id(submit.submission.run_id, number), role)
        for number, role in enumerate(submit.submission.roles, 1)
    ]
    events: list[ev.Event] = [ev.Submitted(submit.submission, submit.owner, submit.epoch, submit.origin), *created]
    if submit.breakpoints:
        events.insert(1, ev.BreakpointsSet(submit.identity, submit.breakpoints))
    if submit.plan is not None:
        return reused_plan(submit, events, now)
    task_ids = {task.role: task.task_id for task in created}
    if submit.reused:
        events += reused_results(submit.submission, task_ids, submit.reused, len(events))
    if submit.delegated and not isinstance(events[-1], ev.RunEnded):
        run_id, count = submit.submission.run_id, len(created)
        events += reused_delegations(submit.delegated, task_ids, lambda number: task_id(run_id, count + number))
    return [*events, *reused_inputs(submit.answered, lambda answer: task_ids.get(answer.role, ""))]


def _claim(run: RunState, claim: inp.Claim, now: float) -> list[ev.Event]:
    if run.ended or claim.epoch <= run.epoch:
        return []
    return [ev.Claimed(claim.owner, claim.epoch, claim.origin)]


def _delegate(run: RunState, request: inp.DelegateIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    return [*_recorded(request), *delegate(run, task, request)] if task is not None else []


def _cancel_delegation(run: RunState, request: inp.CancelDelegationIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    return cancel_delegation(run, task, request) if task is not None else []


def _budget_request(run: RunState, request: inp.BudgetRequestIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    if task is None or request.request_id in task.requests:
        return []
    granted = grant(run, task, request.wanted)
    reserved, failure = (None, granted) if isinstance(granted, Failure) else (granted, None)
    return [ev.BudgetReserved(task.task_id, task.attempt, request.request_id, request.sequence, reserved, failure)]


def _usage(run: RunState, report: inp.UsageIn, now: float) -> list[ev.Event]:
    task = _active_task(run, report.task_id, report.attempt)
    return usage(run, task, report.spent) if task is not None else []


def _checkpoint(run: RunState, checkpoint: inp.CheckpointIn, now: float) -> list[ev.Event]:
    task = _active_task(run, checkpoint.task_id, checkpoint.attempt)
    if task is None:
        return []
    taken = ev.CheckpointTaken(task.task_id, task.attempt, checkpoint.sequence, checkpoint.payload)
    return [*_recorded(checkpoint), taken]


def _publish(run: RunState, request: inp.PublishIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    if task is None or request.sequence <= task.applied:  # or it comes again
        return []
    item = ev.ItemPublished(task.task_id, task.attempt, task.role, request.sequence, request.item)
    return [*_recorded(request), item]


def _ask(run: RunState, request: inp.AskIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    if task is None or request.sequence <= task.applied:  # or it comes again
        return []
    return [*_recorded(request), *ask(run, task, request)]


def _send(run: RunState, request: inp.SendIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    return [*_recorded(request), *send(run, task, request)] if task is not None else []


def _subscribe(run: RunState, request: inp.SubscribeIn, now: float) -> list[ev.Event]:
    task = _active_task(run, request.task_id, request.attempt)
    return subscribe(task, request) if task is not None else []


def _active_task(run: RunState, task_id: str, attempt: int) -> Task | None:
    """The task, if `attempt` is its current one, live and not stopping; else None."""
    task = run.current(task_id, attempt)
    return None if task is None or run.ended or run.ending is not None or task.stopping else task


def _recorded(frame: inp.DelegateIn | inp.CheckpointIn | inp.PublishIn | inp.SendIn | inp.AskIn) -> list[ev.Event]:
    return [ev.Recorded(frame.task_id, frame.attempt, frame.records)] if frame.records else []


def _records(run: RunState, records: inp.RecordsIn, now: float) -> list[ev.Event]:
    task = _active_task(run, records.task_id, records.attempt)
    if task is None or not records.count:
        return []
    return [ev.Recorded(records.task_id, records.attempt, records.count, records.sequence)]


def _published(run: RunState, publication: inp.PublishedIn, now: float) -> list[ev.Event]:
    task = run.tasks.get(publication.task_id)
    if (
        run.ended
        or task is None
        or publication.version in (task.memory_version, *(item.version for item in task.items))
    ):
        return []
    return [ev.Published(task.task_id, task.role, publication.seq, publication.version)]


def _cancel(run: RunState, cancel: inp.Cancel, now: float) -> list[ev.Event]:
    if run.ended or run.ending is not None or run.submission is None:
        return []
    reason = cancel.reason or "cancelled on request"
    failure = Failure("CANCELLED", "CANCELLED", reason)
    return then_end(run, [ev.CancelRequested(cancel.identity, reason)], set(), TaskState.CANCELED, failure)


_DECIDE: dict[type, Callable[[RunState, Any, float], list[ev.Event]]] = {
    inp.Submit: _submit,
    inp.Claim: _claim,
    inp.SlotFound: slot_found,
    inp.InputMissing: input_missing,
    inp.DecisionIn: decision,
    inp.ResultIn: result,
    inp.PlanIn: result,
    inp.QuestionIn: result,
    inp.DelegateIn: _delegate,
    inp.CancelDelegationIn: _cancel_delegation,
    inp.BudgetRequestIn: _budget_request,
    inp.UsageIn: _usage,
    inp.RejectIn: reject,
    inp.LostIn: lost,
    inp.WorkingIn: lambda run, working, now: [],
    inp.RecordsIn: _records,
    inp.PublishedIn: _published,
    inp.CheckpointIn: _checkpoint,
    inp.PublishIn: _publish,
    inp.SendIn: _send,
    inp.SubscribeIn: _subscribe,
    inp.AskIn: _ask,
    inp.Cancel: _cancel,
    inp.Respond: respond,
    inp.Pause: pause,
    inp.Resume: resume,
    inp.EditPlan: edit_plan,
    inp.SetBreakpoints: set_breakpoints,
    inp.Tick: tick,
    inp.JournalFull: journal_full,
}
