"""Reads from the events of a run how the attempts of instances went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import plan_pb2
from archon.failure_kinds import FailureClass
from archon_mesh.core.value import value
from archon_mesh.engine import RunState, Task
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Failure, TaskState

_NOT_OWN: Final = frozenset({FailureClass.INPUT, FailureClass.COLLABORATION})
"""Classes of failures by which an instance is not judged: the request, the run's limits, or others are the cause."""

_OWN_KINDS: Final = frozenset({"collaboration.unresponsive_agent", "input.timeout"})
"""Kinds of these classes by which it is judged all the same: it was lost, or too slow for its task."""

_OF_THE_RUN: Final = frozenset({"RUN_TIMEOUT", "PAUSE_EXPIRED", "QUESTION_TIMED_OUT"})
"""Reasons of these kinds that have nothing to do with the instance."""

_TIMEOUTS: Final = frozenset({"STEP_TIMEOUT", "DELEGATION_TIMEOUT"})


@value
class Observation:
    """The statement of an event about the work of one instance: an attempt that completed, after `seconds` and for
    `cost` millionths of a US dollar, or failed; a bid; a result in a conflict."""

    role: str
    instance_id: str
    completed: bool = False
    failed: bool = False
    seconds: float = 0.0
    cost: int = 0
    has_bid: bool = False
    bid_kept: bool = False
    in_conflict: bool = False
    conflict_won: bool = False


def observe(events: Sequence[ev.Event], run: RunState) -> list[Observation]:
    """Returns the statements of committed events about instances; `run` is the state after them."""
    found: list[Observation] = []
    for event in events:
        kind = type(event)
        if kind is ev.ResultReceived:
            found += _of_result(event, run)  # type: ignore[arg-type]
        elif kind is ev.Retried:
            found += _of_retry(event, run)  # type: ignore[arg-type]
        elif kind is ev.Lost:
            found += _of_loss(event, run)  # type: ignore[arg-type]
        elif kind is ev.TaskEnded or kind is ev.TaskStopping:
            found += _of_timeout(event, run)  # type: ignore[arg-type]
    return found


def is_own(failure: Failure) -> bool:
    """Whether an instance is judged by a failure of its attempt: not if the attempt was cancelled, given back, or out
    of the run's budget, or if the request was at fault."""
    if failure.kind in _OWN_KINDS:
        return failure.reason not in _OF_THE_RUN
    return failure.failure_class not in _NOT_OWN


def _of_result(event: ev.ResultReceived, run: RunState) -> Iterator[Observation]:
    task = run.tasks[event.task_id]
    if event.attempt and task.instance_id:
        seconds = max(0.0, task.end_time - task.start_time)
        if event.state is TaskState.COMPLETED:
            yield Observation(event.role, task.instance_id, completed=True, seconds=seconds, cost=event.spent.cost)
            yield from _of_bid(event, task, run, seconds)
        elif event.state is not TaskState.CANCELED and event.failure is not None and is_own(event.failure):
            yield Observation(event.role, task.instance_id, failed=True)
            yield from _of_bid(event, task, run, seconds)
    if run.plan is not None and isinstance(event.payload, agent_pb2.TaskResult) and event.payload.resolution.conflict:
        yield from _of_conflict(event.payload.resolution, run)


def _of_retry(event: ev.Retried, run: RunState) -> Iterator[Observation]:
    instance_id = run.tasks[event.task_id].failed_instance
    if instance_id and event.attempt and is_own(event.failure):
        yield Observation(event.role, instance_id, failed=True)


def _of_loss(event: ev.Lost, run: RunState) -> Iterator[Observation]:
    if event.instance_id and is_own(event.failure):
        yield Observation(run.tasks[event.task_id].role, event.instance_id, failed=True)


def _of_timeout(event: ev.TaskEnded | ev.TaskStopping, run: RunState) -> Iterator[Observation]:
    """An attempt that was stopped because it took longer than its task may."""
    if not event.attempt or event.failure is None or event.failure.reason not in _TIMEOUTS:
        return
    if instance_id := run.holder(event.task_id, event.attempt):
        yield Observation(event.role, instance_id, failed=True)


def _of_bid(event: ev.ResultReceived, task: Task, run: RunState, seconds: float) -> Iterator[Observation]:
    """A step that was executed by the winner of an award, compared with the winner's bid."""
    step = run.plan.steps.get(task.step_id) if run.plan is not None and task.step_id else None
    if step is None or not step.assigned_by:
        return
    assert run.plan is not None
    award = run.tasks.get(run.plan.tasks.get(step.assigned_by, ""))
    if award is None or not isinstance(award.payload, agent_pb2.TaskResult):
        return
    for vote in award.payload.resolution.votes:
        if vote.step_id == award.payload.resolution.winner_step_id and vote.HasField("bid"):
            bid = vote.bid
            cheap = not bid.cost_micro_usd or event.spent.cost <= bid.cost_micro_usd
            quick = not bid.seconds or seconds <= bid.seconds
            kept = event.state is TaskState.COMPLETED and cheap and quick
            yield Observation(event.role, task.instance_id, has_bid=True, bid_kept=kept)


def _of_conflict(resolution: plan_pb2.Resolution, run: RunState) -> Iterator[Observation]:
    """The instances whose results differed; those that said the same as the winner have won too."""
    winning = next((vote for vote in resolution.votes if vote.step_id == resolution.winner_step_id), None)
    if winning is None:
        return
    assert run.plan is not None
    for vote in resolution.votes:
        task = run.tasks.get(run.plan.tasks.get(vote.step_id, ""))
        if task is not None and task.instance_id:
            won = vote.step_id == winning.step_id or (vote.support == winning.support and vote.support > vote.weight)
            yield Observation(task.role, task.instance_id, in_conflict=True, conflict_won=won)
