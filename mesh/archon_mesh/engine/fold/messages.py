"""Folds the events of messages between tasks."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.message import NO_RECEIVER, SentMessage
from archon_mesh.engine.state import RunState


def message_sent(run: RunState, event: ev.MessageSent, time: float) -> None:
    task = run.tasks[event.task_id]
    task.applied = max(task.applied, event.sequence)
    task.replies[run.last_seq] = event.message_id, event.failure
    if event.failure is not None and event.failure.reason == NO_RECEIVER:
        task.sent[event.message_id] = 0
    run.messages_size += event.size
    if event.failure is not None or event.first_seq:
        return
    task.sent[event.message_id] = run.last_seq
    run.messages[run.last_seq] = SentMessage(
        run.last_seq,
        event.task_id,
        event.role,
        event.message_id,
        event.receiver,
        event.type,
        event.correlation_id,
        time,
        event.ttl,
        event.size,
        event.payload,
    )


def subscribed(run: RunState, event: ev.Subscribed, time: float) -> None:
    task = run.tasks[event.task_id]
    task.applied = max(task.applied, event.sequence)
    task.topics = tuple(dict.fromkeys((*(task.topics or ()), *event.topics)))
    task.subscribed_seq = task.subscribed_seq or run.last_seq
