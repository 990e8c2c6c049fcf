"""Messages between agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from archon.api.agent.v1 import message_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon.surrogates import without_surrogates
from archon.types.message_content import MessageContent, content_of
from archon.types.message_type import MessageType
from archon.types.part import Part, json_part, to_messages, to_parts
from archon.wire import set_seconds, to_seconds


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one agent to another, or to all subscribers of a topic if `receiver_id` is empty.

    `content` is a text, or another JSON value; of several `parts`, the text of all of them. `timestamp` is in seconds
    since the Unix epoch. `correlation_id` is the id of the message that this one answers. `ttl` is in seconds; None:
    the message does not expire. The mesh takes the sender from the connection."""

    sender_id: str
    receiver_id: str = ""
    message_type: MessageType = MessageType.NOTIFICATION
    content: Any = ""
    timestamp: float = 0.0
    correlation_id: str = ""
    message_id: str = ""
    sender_task_id: str = ""
    ttl: float | None = None
    seq: int = 0
    """The number of the event that holds it, in the run's journal; 0 outside of a mesh."""
    parts: tuple[Part, ...] = ()

    @property
    def topic(self) -> str:
        """`agent:ID`, or `broadcast` if it has no receiver. Subscribers of `type:TYPE` receive such a message, too."""
        return f"agent:{self.receiver_id}" if self.receiver_id else "broadcast"

    @property
    def text(self) -> str:
        """The content as text; JSON if it is not a text."""
        return self.content if isinstance(self.content, str) else json.dumps(self.content, ensure_ascii=False)

    def typed(self) -> MessageContent:
        """Returns the content as the value of its type, such as a HelpRequest. Raises InvalidArgument if it is not of
        that form."""
        return content_of(self.message_type, self.content)

    def to_dict(self) -> dict[str, Any]:
        """Returns the message as JSON types."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "parts"}
        return {**values, "message_type": str(self.message_type)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Message:
        """Returns the message that `to_dict` gave. Raises InvalidArgument if it is something else."""
        known = {field.name for field in fields(cls)} - {"parts"}
        if (unknown := sorted(set(values) - known)) or "sender_id" not in values:
            names = ", ".join(unknown) or "sender_id is missing"
            raise InvalidArgument(f"not a message: {names}", field_violations=[FieldViolation("message", names)])
        try:
            return cls(**{**values, "message_type": MessageType(values.get("message_type", "notification"))})
        except ValueError:
            raise InvalidArgument(f"{values['message_type']!r} is not a type of messages") from None

    @property
    def proto(self) -> message_pb2.PeerMessage:
        """The message as one of the contract."""
        out = message_pb2.PeerMessage(
            message_id=self.message_id,
            sender_id=self.sender_id,
            receiver_id=without_surrogates(self.receiver_id),
            message_type=message_pb2.MessageType.ValueType(self.message_type.number),
            content=to_messages(self.parts or (content_part(self.content),)),
            correlation_id=without_surrogates(self.correlation_id),
            sender_task_id=self.sender_task_id,
            seq=self.seq,
        )
        if self.timestamp:
            set_seconds(out.send_time, self.timestamp)
        if self.ttl is not None:
            set_seconds(out.ttl, self.ttl)
        return out

    @classmethod
    def from_proto(cls, message: message_pb2.PeerMessage) -> Message:
        """Returns the message of the contract as a plain value."""
        parts = to_parts(message.content)
        return cls(
            message.sender_id,
            message.receiver_id,
            MessageType.of_number(message.message_type),
            _content_of(parts),
            to_seconds(message.send_time),
            message.correlation_id,
            message.message_id,
            message.sender_task_id,
            to_seconds(message.ttl) if message.HasField("ttl") else None,
            message.seq,
            parts,
        )


def content_part(content: Any) -> Part:
    """Returns a text, or another JSON value, as a part. Raises InvalidArgument for anything else."""
    if isinstance(content, str):
        return Part(text=without_surrogates(content))
    try:
        return json_part(json.dumps(content, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the content of a message is a text or a JSON value: {error}") from None


def _content_of(parts: tuple[Part, ...]) -> Any:
    if len(parts) == 1 and parts[0].data_json is not None:
        try:
            return json.loads(parts[0].data_json)
        except ValueError:
            return parts[0].data_json
    return "\n".join(part.text if part.text is not None else part.data_json or "" for part in parts)
