"""Messages between the tasks of a run, and who has read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import convert
from archon.types.failure import Failure
from archon.types.message import Message


class MessageState(StrEnum):
    """The state of a message."""

    SENT = "sent"
    READ = "read"
    REFUSED = "refused"
    EXPIRED = "expired"
    UNREAD = "unread"
    """The run has ended, and no task has read it."""


@dataclass(slots=True)
class MessageView:
    """A message of the task `task_id`; with `failure` it was refused. `readers` are the ids of the tasks whose results
    say that they have read it."""

    message: Message
    task_id: str
    failure: Failure | None = None
    readers: list[str] = field(default_factory=list)

    def state(self, now: float, *, ended: bool) -> MessageState:
        """Returns its state. `now` is in seconds since the epoch; `ended`: the run has ended."""
        if self.failure is not None:
            return MessageState.REFUSED
        if self.readers:
            return MessageState.READ
        if self.message.ttl is not None and now > self.message.timestamp + self.message.ttl:
            return MessageState.EXPIRED
        return MessageState.UNREAD if ended else MessageState.SENT


class Messages(list[MessageView]):
    """The messages of a run, in order; each is listed once, however often attempts have sent it."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: dict[str, set[str]] = {}

    def apply(self, event: run_pb2.RunEvent, kind: str) -> None:
        """Folds an event of a message, a subscription or a dispatch."""
        task_id = event.task.task_id
        match kind:
            case "message_sent" if not event.message_sent.first_seq:
                sent = event.message_sent
                failure = convert.failure(sent.failure) if sent.HasField("failure") else None
                self.append(MessageView(Message.from_proto(sent.message), task_id, failure))
            case "subscribed":
                self._topics.setdefault(task_id, set()).update(event.subscribed.topics)
            case "dispatched":
                self._topics.pop(task_id, None)

    def note_read(self, task_id: str, role: str, step_id: str, read_seq: int) -> None:
        """Notes that a task has read its messages up to a number."""
        topics = self._topics.get(task_id, set())
        for each in self:
            message = each.message
            if each.failure is not None or each.task_id == task_id or message.seq > read_seq:
                continue
            named = message.receiver_id in (role, step_id, task_id)
            if named if message.receiver_id else topics & {"broadcast", f"type:{message.message_type}"}:
                each.readers.append(task_id)
