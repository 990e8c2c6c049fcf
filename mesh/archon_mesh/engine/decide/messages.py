"""Decides about messages between the tasks of a run: whether one is accepted, and for whom."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.message import NO_RECEIVER
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, quantize

MAX_MESSAGES: Final = 1_000
"""The most messages of a run."""

MAX_MESSAGES_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of the messages of a run."""

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""The most bytes of one message."""

MAX_TOPICS: Final = 16
"""The most topics of an attempt: there are fewer different ones."""


def send(run: RunState, task: Task, request: inp.SendIn) -> list[ev.Event]:
    """The event of a message; none if the same frame came before."""
    if request.sequence <= task.applied:
        return []
    first_seq = task.sent.get(request.message_id, 0)
    was_refused = request.message_id in task.sent and not first_seq
    failure = None if first_seq else _no_receiver(request) if was_refused else _refusal(run, task, request)
    # A message without a receiver stays readable, as long as there is room for it.
    is_lost = failure is not None and failure.reason == NO_RECEIVER
    has_room = run.messages_size + request.size <= MAX_MESSAGES_BYTES
    is_kept = not first_seq and (failure is None or (is_lost and has_room))
    return [
        ev.MessageSent(
            task.task_id,
            task.attempt,
            task.role,
            request.sequence,
            request.message_id,
            request.receiver,
            request.type,
            request.correlation_id,
            quantize(request.ttl),
            request.size if is_kept else 0,
            request.payload if is_kept else None,
            failure,
            first_seq,
        )
    ]


def subscribe(task: Task, request: inp.SubscribeIn) -> list[ev.Event]:
    """The event of a subscription; none if the same frame came before, or adds nothing."""
    known = task.topics or ()
    topics = tuple(topic for topic in dict.fromkeys(request.topics) if topic not in known)[: MAX_TOPICS - len(known)]
    if request.sequence <= task.applied or (task.topics is not None and not topics):
        return []
    return [ev.Subscribed(task.task_id, task.attempt, request.sequence, topics)]


def _refusal(run: RunState, task: Task, request: inp.SendIn) -> Failure | None:
    """Why the message is refused; None if it is accepted."""
    if not request.message_id or not request.type:
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "a message needs an id and a type")
    if request.size > MAX_MESSAGE_BYTES:
        reason = f"the message has {request.size:,} bytes, at most {MAX_MESSAGE_BYTES:,} are allowed"
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", f"{reason}; give large content by URL")
    if request.forbidden:
        return Failure("PERMISSION_DENIED", "MESSAGE_NOT_ALLOWED", request.forbidden)
    if request.receiver and not any(_receives(other, task, request) for other in run.tasks.values()):
        return _no_receiver(request)
    if len(run.messages) >= MAX_MESSAGES:
        return _too_many(f"a run can have at most {MAX_MESSAGES:,} messages", MAX_MESSAGES)
    if run.messages_size + request.size > MAX_MESSAGES_BYTES:
        return _too_many(
            f"the messages of a run can have at most {MAX_MESSAGES_BYTES:,} bytes together", MAX_MESSAGES_BYTES
        )
    return None


def _receives(other: Task, sender: Task, request: inp.SendIn) -> bool:
    """Whether a task that has not ended has the receiver's name; it reads messages already if a reply is expected."""
    if other is sender or request.receiver not in (other.role, other.step_id, other.task_id):
        return False
    return not other.answered and not other.unneeded and not (request.expects_reply and other.topics is None)


def _no_receiver(request: inp.SendIn) -> Failure:
    reason = f"no task of the run receives messages for {request.receiver!r}"
    return Failure("NOT_FOUND", NO_RECEIVER, reason, (("receiver", request.receiver),))


def _too_many(reason: str, limit: int) -> Failure:
    return Failure("RESOURCE_EXHAUSTED", "TOO_MANY_MESSAGES", reason, (("limit", str(limit)),))
