"""A message that a task of a run has sent to others."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from archon_mesh.core.value import value
from archon_mesh.engine.types import Payload

BROADCAST: Final = "broadcast"
"""The topic of all messages without a receiver."""

NO_RECEIVER: Final = "NO_RECEIVER"
"""The failure reason of a message that no task of the run receives."""

TYPE_PREFIX: Final = "type:"
"""Begins the topic of the messages of one type without a receiver."""


@value
class SentMessage:
    """A message, by the event `seq` that holds it. `receiver` names a role, a step or a task; empty: the subscribers of
    the topics. `type` is the name of a MessageType in lower case; `time` is in wall seconds, `ttl` in seconds from then
    on (0: the message does not expire), `size` in bytes."""

    seq: int
    task_id: str
    role: str
    message_id: str
    receiver: str
    type: str
    correlation_id: str = ""
    time: float = 0.0
    ttl: float = 0.0
    size: int = 0
    payload: Payload = field(default=None, compare=False)

    def is_expired(self, now: float) -> bool:
        """Whether it is not delivered any more. `now` is in wall seconds."""
        return bool(self.ttl) and now > self.time + self.ttl

    def is_for(self, task_id: str, role: str, step_id: str, topics: tuple[str, ...]) -> bool:
        """Whether a task that has subscribed to the topics receives it. No task receives its own messages."""
        if task_id == self.task_id:
            return False
        if self.receiver:
            return self.receiver in (role, task_id, step_id)
        return BROADCAST in topics or TYPE_PREFIX + self.type in topics
