"""Effects: the actions that a run needs, given only its state.

A step makes `open_effects(after) - open_effects(before)` necessary, a restart `open_effects(loaded)`: the same
function. `effects_of` gives the first of the two from the step's events, without looking at every task of the run, if
the events are local: if they don't reach further than their own task and its parent. The simulation compares the two
for every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from archon_mesh.core.value import value
from archon_mesh.engine import events as ev
from archon_mesh.engine.context import updates_of
from archon_mesh.engine.message import SentMessage
from archon_mesh.engine.plan_progress import has_answer
from archon_mesh.engine.state import RunState
from archon_mesh.engine.step_placement import assignee, instances_beside
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import ContextRef, Requirement, Submission, TaskState

CANCEL_GRACE = 5.0
"""Seconds that attempts have to end after a run was cancelled; then the run ends without them."""


@value
class Place:
    """Find an instance for a ready task, not before `not_before` (wall seconds): the instance `prefer` if it is free,
    and otherwise none of `avoid` if another one is."""

    task_id: str
    want: Requirement
    attempt: int
    not_before: float
    avoid: tuple[str, ...] = ()
    prefer: str = ""


@value
class Assign:
    """Send the attempt to its instance."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str


@value
class Adopt:
    """Ask the instance whether it still holds an attempt that was dispatched under an earlier epoch."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str


@value
class CancelAttempt:
    """Tell the instance to stop the attempt."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str


@value
class Answer:
    """Send the attempt the result of its delegation."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    delegation_id: str


@value
class UpdateMemory:
    """Send the attempt an answer or item that is newer than its context."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    ref: ContextRef


@value
class GiveInput:
    """Send the attempt a person's answer to a question that it asked while it continued."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    input_id: str


@value
class Deliver:
    """Send the attempt a message that it has subscribed to, by the event that holds it."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    seq: int


@value
class ConfirmMessage:
    """Tell the attempt that its message was accepted, or refused, by the event that says so."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    seq: int


@value
class Grant:
    """Send the attempt the budget that it requested."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    request_id: str


@value
class Timer:
    """Wake the run at `at` (wall seconds)."""

    at: float


Effect = (
    Place
    | Assign
    | Adopt
    | CancelAttempt
    | Answer
    | UpdateMemory
    | GiveInput
    | Deliver
    | ConfirmMessage
    | Grant
    | Timer
)


def places(run: RunState) -> list[Place]:
    """Returns the ready tasks, which need an instance each, in the order of their creation."""
    return [place_of(run, task) for task in run.tasks.values() if run.ready(task)] if run.submission is not None else []


def place_of(run: RunState, task: Task) -> Place:
    """Returns the needs of the next attempt of a ready task."""
    assert run.submission is not None
    avoid = (task.avoid,) if task.avoid else ()
    if run.plan is None or not task.step_id:
        return Place(task.task_id, want_of(run.submission, task, task.role), task.attempt + 1, task.not_before, avoid)
    role, prefer = assignee(run, task)
    if prefer in avoid:
        prefer = ""
    want = want_of(run.submission, task, role)
    return Place(task.task_id, want, task.attempt + 1, task.not_before, (*avoid, *instances_beside(run, task)), prefer)


def open_effects(run: RunState) -> set[Effect]:
    """Returns everything that has to be done for this run."""
    if run.submission is None or run.ended:
        return set()
    return {*places(run), *attempt_effects(run), *timers(run)}


def attempt_effects(run: RunState) -> set[Effect]:
    """Returns everything that has to be sent to the attempts of a run under way."""
    effects: set[Effect] = set()
    for task in run.tasks.values():
        for attempt, instance_id in task.abandoned:  # the owner that stopped them may have died before they heard it
            effects.add(CancelAttempt(task.task_id, attempt, run.epoch, instance_id))
        if task.live and not task.state.final:
            _of_attempt(run, task, effects)
    return effects


def timers(run: RunState) -> set[Timer]:
    """Returns the times at which a run under way has to be woken, except for retries."""
    if run.ending is not None:
        return {Timer(run.ending_since + CANCEL_GRACE)}
    found: set[Timer] = set()
    for task in run.tasks.values():
        if task.state.final:
            continue
        if task.asking is not None and task.asking.deadline:
            found.add(Timer(task.asking.deadline))
        if task.deadline and not task.answered and not run.clock_stopped_since:
            found.add(Timer(task.deadline))
    if not run.clock_stopped_since:
        found.add(Timer(run.deadline))
    elif run.pause_deadline:
        found.add(Timer(run.pause_deadline))
    return found


def want_of(submission: Submission, task: Task, role: str) -> Requirement:
    """Returns the requirement for an instance of a role that is to execute the task: the run's for the role, and the
    capability that the task needs."""
    want = submission.requirement(role)
    return Requirement(role, task.capability, want.version) if task.capability else want


def _of_attempt(run: RunState, task: Task, effects: set[Effect]) -> None:
    key = task.task_id, task.attempt, run.epoch, task.instance_id
    if run.ending is not None or task.stopping:
        effects.add(CancelAttempt(*key))
        return
    effects.add(Assign(*key) if task.dispatch_epoch == run.epoch else Adopt(*key))
    for delegation_id, delegation in task.delegations.items():
        if not delegation.cancelled and (delegation.failure is not None or run.tasks[delegation.child].answered):
            effects.add(Answer(*key, delegation_id))
    for request_id in task.requests:
        effects.add(Grant(*key, request_id))
    for input_id in task.answers:
        effects.add(GiveInput(*key, input_id))
    for ref in updates_of(run, task):
        effects.add(UpdateMemory(*key, ref))
    for seq in task.replies:
        effects.add(ConfirmMessage(*key, seq))
    effects.update(Deliver(*key, message.seq) for message in _inbox(run, task))


def _inbox(run: RunState, task: Task) -> Iterator[SentMessage]:
    """The messages that the current attempt has subscribed to, in order."""
    topics = task.topics
    if topics is not None:
        for message in run.messages.values():
            if message.is_for(task.task_id, task.role, task.step_id, topics):
                yield message


_LOCAL = frozenset(
    {
        ev.Submitted,
        ev.BreakpointsSet,
        ev.TaskCreated,
        ev.Planned,
        ev.TaskEnded,
        ev.Dispatched,
        ev.Delegated,
        ev.ResultReceived,
        ev.BudgetReserved,
        ev.Recorded,
        ev.Published,
        ev.CheckpointTaken,
        ev.ItemPublished,
        ev.MessageSent,
        ev.Subscribed,
        ev.RunEnded,
    }
)


def is_local(run: RunState, events: Sequence[ev.Event]) -> bool:
    """Returns whether `effects_of` can tell the effects of these events, which are not applied to `run` yet. If not,
    the caller needs `open_effects` of the state before them."""
    if run.ending is not None:
        return False
    for event in events:
        if type(event) not in _LOCAL:
            return False
        if type(event) is ev.Dispatched and event.expected_seconds:
            return False  # it moves the times of the copies beside its step
        if type(event) is ev.TaskEnded and (has_answer(run) or not _is_end_of_idle_step(run, event)):
            return False
        if isinstance(event, (ev.TaskEnded, ev.ResultReceived)) and _stops_asking(run, event.task_id):
            return False
        if type(event) is ev.ResultReceived and type(events[-1]) is not ev.RunEnded:
            task = run.tasks.get(event.task_id)  # None: one of the events before creates it
            if task is not None and (task.stopping or (not task.parent and _may_end(run, task, event))):
                return False  # the run begins to end, and other attempts have to stop
    return True


def _stops_asking(run: RunState, task_id: str) -> bool:
    """Whether the end of the task withdraws a question to a person: the run's clock, which it stopped, may go on."""
    task = run.tasks.get(task_id)
    return task is not None and bool(task.question)


def _is_end_of_idle_step(run: RunState, event: ev.TaskEnded) -> bool:
    """Whether the task executes a step that is not in progress, so that its end has no effect but on other steps."""
    task = run.tasks.get(event.task_id)  # None: one of the events before creates it
    return run.plan is not None and (task is None or (bool(task.step_id) and not task.live))


def _may_end(run: RunState, task: Task, event: ev.ResultReceived) -> bool:
    """Whether the run may begin to end with the result of a task that was not delegated."""
    if run.plan is None:
        return event.state is not TaskState.COMPLETED or run.incomplete == 1
    return not task.step_id or run.plan.sinks == (task.step_id,) or has_answer(run)


def effects_of(run: RunState, events: Sequence[ev.Event]) -> list[Effect]:
    """Returns the effects of events that are local (`is_local`), without places; `run` is the state after them. Timers
    may be among them that were set before."""
    if run.ended or run.submission is None or not events:
        return []
    if run.ending is not None:  # since these events, such as an edit that leaves nothing to do
        return _of_ending(run)
    effects: list[Effect] = []
    for seq, event in enumerate(events, run.last_seq - len(events) + 1):
        if (add := _EFFECTS.get(type(event))) is not None:
            add(run, event, seq, effects)
    if len(run.tasks) > len(run.root_ids):
        effects += _updates(run, events)
    return list(dict.fromkeys(effects)) if len(effects) > 1 else effects


def _of_ending(run: RunState) -> list[Effect]:
    """The effects of events with which a run has begun to end: all attempts have to stop."""
    attempts = (task for task in run.live_tasks() if not task.state.final and not task.stopping)
    cancels = [CancelAttempt(task.task_id, task.attempt, run.epoch, task.instance_id) for task in attempts]
    return [*cancels, *timers(run)]


def _updates(run: RunState, events: Sequence[ev.Event]) -> Iterator[UpdateMemory]:
    """The answers and items among the last events that attempts at delegated tasks must receive."""
    assert run.submission is not None
    published = {event.role for event in events if isinstance(event, (ev.ResultReceived, ev.ItemPublished))}
    if not any(edge.upstream in published for edge in run.submission.edges):
        return  # as nearly always: a run may have a thousand tasks
    base = run.last_seq - len(events)
    for task in run.tasks.values():
        if task.parent and task.live and not task.stopping:
            for ref in updates_of(run, task):
                if ref.seq > base:
                    yield UpdateMemory(task.task_id, task.attempt, run.epoch, task.instance_id, ref)


def _submitted(run: RunState, event: ev.Submitted, seq: int, effects: list[Effect]) -> None:
    effects.append(Timer(run.deadline))


def _dispatched(run: RunState, event: ev.Dispatched, seq: int, effects: list[Effect]) -> None:
    if run.current(event.task_id, event.attempt) is not None:
        effects.append(Assign(event.task_id, event.attempt, run.epoch, event.instance_id))


def _result_received(run: RunState, event: ev.ResultReceived, seq: int, effects: list[Effect]) -> None:
    task = run.tasks[event.task_id]
    if task.parent:
        _answers(run, run.tasks[task.parent], event.task_id, effects)
    elif run.plan is not None:
        _successors_timed(run, task, effects)


def _task_created(run: RunState, event: ev.TaskCreated, seq: int, effects: list[Effect]) -> None:
    task = run.tasks.get(event.task_id)
    if task is not None and task.step_id:
        _timed(run, task, effects)


def _task_ended(run: RunState, event: ev.TaskEnded, seq: int, effects: list[Effect]) -> None:
    if run.plan is not None:
        _successors_timed(run, run.tasks[event.task_id], effects)


def _successors_timed(run: RunState, task: Task, effects: list[Effect]) -> None:
    for task_id in task.successors:
        _timed(run, run.tasks[task_id], effects)


def _timed(run: RunState, task: Task, effects: list[Effect]) -> None:
    if task.deadline and not task.answered and not run.clock_stopped_since:
        effects.append(Timer(task.deadline))


def _budget_reserved(run: RunState, event: ev.BudgetReserved, seq: int, effects: list[Effect]) -> None:
    task = run.current(event.task_id, event.attempt)
    if task is not None and not task.stopping:
        effects.append(Grant(task.task_id, task.attempt, run.epoch, task.instance_id, event.request_id))


def _answers(run: RunState, parent: Task, child: str, effects: list[Effect]) -> None:
    if not parent.live or parent.stopping:
        return
    key = parent.task_id, parent.attempt, run.epoch, parent.instance_id
    effects += [
        Answer(*key, delegation_id)
        for delegation_id, delegation in parent.delegations.items()
        if delegation.child == child and not delegation.cancelled
    ]


def _message_sent(run: RunState, event: ev.MessageSent, seq: int, effects: list[Effect]) -> None:
    sender = run.current(event.task_id, event.attempt)
    if sender is not None and not sender.stopping:
        effects.append(ConfirmMessage(sender.task_id, sender.attempt, run.epoch, sender.instance_id, seq))
    if event.failure is not None or event.first_seq:
        return
    for task in run.live_tasks():
        if task.topics is None or task.stopping:
            continue
        if run.messages[seq].is_for(task.task_id, task.role, task.step_id, task.topics):
            effects.append(Deliver(task.task_id, task.attempt, run.epoch, task.instance_id, seq))


def _subscribed(run: RunState, event: ev.Subscribed, seq: int, effects: list[Effect]) -> None:
    task = run.current(event.task_id, event.attempt)
    if task is not None and not task.stopping:
        key = task.task_id, task.attempt, run.epoch, task.instance_id
        known = None if task.subscribed_seq == seq else tuple(set(task.topics or ()) - set(event.topics))
        effects += [
            Deliver(*key, message.seq)
            for message in _inbox(run, task)
            if known is None or not message.is_for(task.task_id, task.role, task.step_id, known)
        ]


def _delegated(run: RunState, event: ev.Delegated, seq: int, effects: list[Effect]) -> None:
    task, child = run.current(event.task_id, event.attempt), run.tasks.get(event.child)
    answered = event.failure is not None or (child is not None and child.answered)
    if child is not None and child.deadline and not answered and not run.clock_stopped_since:
        effects.append(Timer(child.deadline))
    if answered and task is not None and not task.stopping and not task.delegations[event.delegation_id].cancelled:
        key = task.task_id, task.attempt, run.epoch, task.instance_id
        effects.append(Answer(*key, event.delegation_id))


_EFFECTS: dict[type, Callable[[RunState, Any, int, list[Effect]], None]] = {
    ev.Submitted: _submitted,
    ev.TaskCreated: _task_created,
    ev.TaskEnded: _task_ended,
    ev.Dispatched: _dispatched,
    ev.ResultReceived: _result_received,
    ev.Delegated: _delegated,
    ev.BudgetReserved: _budget_reserved,
    ev.MessageSent: _message_sent,
    ev.Subscribed: _subscribed,
}
"""The local events that have effects."""
