"""The frames between the orchestrator and the instances of a task, as the events of the run tell them.

The journal holds the events that frames cause, and those that cause frames. Heartbeats, progress, acknowledgements and
updates of memory are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from archon.api.common.v1 import common_pb2, failure_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.failure_kinds import GIVEN_BACK
from archon.types import RunEvent
from archon.wire import described


class Direction(StrEnum):
    """The direction of a frame: to the instance, or from it."""

    SENT = "sent"
    RECEIVED = "received"


@dataclass(frozen=True, slots=True)
class FrameView:
    """A frame of an attempt, by the event that it caused or that caused it. `name` is its name in the contract, and
    `sequence` the number of the frame in its direction, 0 if the event does not have it."""

    seq: int
    attempt: int
    direction: Direction
    name: str
    sequence: int
    text: str


@dataclass(slots=True)
class _Attempts:
    """The attempts of the task so far."""

    live: int = 0
    """The attempt in progress; 0 if there is none."""
    last: int = 0
    instance: str = ""


Frame = tuple[Direction, str, int, str]


def frames_of(events: Sequence[RunEvent], task_id: str) -> list[FrameView]:
    """Returns the frames of a task in these events, which begin with the first one of the run, in order."""
    frames: list[FrameView] = []
    attempts = _Attempts()
    delegations: dict[str, str] = {}
    for event in events:
        proto = event.proto
        if event.task_id == task_id:
            frames += _of_event(proto, attempts)
            if proto.HasField("delegated") and proto.delegated.child_task_id:
                delegations[proto.delegated.child_task_id] = proto.delegated.delegation_id
        elif event.task_id in delegations and attempts.live and _ends_task(proto):
            text = f"delegation {delegations[event.task_id]}"
            frames.append(FrameView(event.seq, attempts.live, Direction.SENT, "DelegateResult", 0, text))
    return frames


def _ends_task(event: run_pb2.RunEvent) -> bool:
    """Whether a delegated task has an answer with the event."""
    if event.HasField("task_state"):
        return event.task_state.state != common_pb2.TASK_STATE_SUBMITTED
    return event.HasField("result")


def _of_event(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[FrameView]:
    kind = event.WhichOneof("event") or ""
    if kind == "dispatched":
        attempts.live = attempts.last = event.task.attempt
        attempts.instance = event.dispatched.instance_id
    made = _FRAMES.get(kind)
    for direction, name, sequence, text in made(event, attempts) if made is not None else ():
        yield FrameView(event.seq, event.task.attempt or attempts.last, direction, name, sequence, text)
    ends = kind in ("result", "lost", "rejected", "retry", "approval_requested", "discarded")
    if (ends and event.task.attempt == attempts.live) or (kind == "input_requested" and not _continues(event)):
        attempts.live = 0


def _dispatched(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    given = ", ".join(f"{ref.role} (event {ref.seq})" if ref.seq else ref.role for ref in event.dispatched.given)
    context = f", with the answers of {given}" if given else ""
    yield Direction.SENT, "AssignTask", 0, f"to {event.dispatched.instance_id}{context}"


def _result(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if attempts.live:  # a reused answer, or one that a rule has chosen, came with no frame
        result = event.result
        text = result.failure.message or described(result.output)
        yield Direction.RECEIVED, "TaskResult", 0, f"{_state(result.state)}: {text}"


def _approval(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if attempts.live:
        result = event.approval_requested.result
        text = result.failure.message or described(result.output)
        yield Direction.RECEIVED, "TaskResult", 0, f"{_state(result.state)}: {text}"


def _asked(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    request = event.input_requested
    text = f"{request.input_id}: {described(request.prompt)}"
    if _continues(event):
        yield Direction.RECEIVED, "InputRequest", request.sequence, text
    else:
        yield Direction.RECEIVED, "TaskResult", 0, f"input required: {text}"


def _answered(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if attempts.live:  # else the next attempt is sent it, with its task
        given = event.input_given
        decision = question_pb2.Decision.Name(given.decision).removeprefix("DECISION_").lower()
        text = described(given.parts) if decision == "unspecified" else f"{decision} {described(given.parts)}".strip()
        yield Direction.SENT, "Input", 0, f"{given.input_id}: {text}"


def _delegated(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    made = event.delegated
    yield Direction.RECEIVED, "Delegate", made.sequence, f"{made.delegation_id} to {made.role}: {described(made.input)}"
    if made.failure.message:
        yield Direction.SENT, "DelegateResult", 0, f"{made.delegation_id} refused: {made.failure.message}"


def _budget(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    reserved = event.budget_reserved
    yield Direction.RECEIVED, "BudgetRequest", reserved.sequence, reserved.request_id
    granted = reserved.HasField("budget")
    yield Direction.SENT, "BudgetGrant", 0, reserved.request_id if granted else f"refused: {reserved.failure.message}"


def _rejected(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if GIVEN_BACK not in event.rejected.failure.metadata:
        yield Direction.RECEIVED, "Reject", 0, event.rejected.failure.message


def _retried(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if attempts.live:
        yield Direction.RECEIVED, "TaskResult", 0, f"failed: {event.retry.failure.message}"


def _stopping(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if event.task_state.stopping:
        yield Direction.SENT, "CancelTask", 0, event.task_state.failure.message


def _discarded(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    yield Direction.RECEIVED, "TaskResult", 0, "a result that did not count"
    reason = failure_pb2.ErrorReason.Name(event.discarded.reason).removeprefix("ERROR_REASON_")
    yield Direction.SENT, "Discarded", 0, reason


def _message(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    sent = event.message_sent
    yield Direction.RECEIVED, "PeerMessage", sent.sequence, sent.message.message_id
    refused = f" refused: {sent.failure.message}" if sent.failure.message else ""
    yield Direction.SENT, "MessageResult", 0, f"{sent.message.message_id}{refused}"


def _published(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    if event.item_published.sequence:  # else it came with the result
        yield Direction.RECEIVED, "Publish", event.item_published.sequence, described(event.item_published.parts)


def _records(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    count = event.recorded.count
    yield Direction.RECEIVED, "CallRecord", event.recorded.sequence, f"{count} call{'' if count == 1 else 's'}"


def _checkpoint(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    taken = event.checkpoint
    yield Direction.RECEIVED, "Checkpoint", taken.sequence, f"{taken.size or len(taken.data):,} bytes"


def _subscribed(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    yield Direction.RECEIVED, "Subscribe", event.subscribed.sequence, ", ".join(event.subscribed.topics)


def _no_delegation(event: run_pb2.RunEvent, attempts: _Attempts) -> Iterator[Frame]:
    cancelled = event.delegation_cancelled
    yield Direction.RECEIVED, "CancelDelegation", cancelled.sequence, cancelled.delegation_id


def _continues(event: run_pb2.RunEvent) -> bool:
    return bool(event.input_requested.sequence)


def _state(state: common_pb2.TaskState.ValueType) -> str:
    return common_pb2.TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", " ")


_FRAMES: Final[Mapping[str, Callable[[run_pb2.RunEvent, _Attempts], Iterator[Frame]]]] = {
    "dispatched": _dispatched,
    "result": _result,
    "approval_requested": _approval,
    "input_requested": _asked,
    "input_given": _answered,
    "delegated": _delegated,
    "delegation_cancelled": _no_delegation,
    "budget_reserved": _budget,
    "rejected": _rejected,
    "retry": _retried,
    "task_state": _stopping,
    "discarded": _discarded,
    "message_sent": _message,
    "subscribed": _subscribed,
    "item_published": _published,
    "recorded": _records,
    "checkpoint": _checkpoint,
}
"""The frames of an event of a task, by its kind."""
