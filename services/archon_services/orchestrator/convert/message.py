"""Events of messages between agents."""

from __future__ import annotations

from archon.api.agent.v1 import message_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.types.enum_name import enum_name
from archon.wire import set_seconds, to_seconds
from archon_mesh.engine import events as ev
from archon_mesh.engine.message import SentMessage
from archon_services.orchestrator.convert.failures import failure_to_proto, optional_failure


def type_name(number: int) -> str:
    """The name of a message's type; empty if it is not set, or came later."""
    return enum_name(message_pb2.MessageType, "MESSAGE_TYPE_", number)


def content_size(message: message_pb2.PeerMessage) -> int:
    """The bytes of a message that count towards the limits of a run."""
    return sum(part.ByteSize() for part in message.content)


def read_message_sent(event: run_pb2.RunEvent) -> ev.Event:
    source, message = event.message_sent, event.message_sent.message
    return ev.MessageSent(
        event.task.task_id,
        event.task.attempt,
        source.role,
        source.sequence,
        message.message_id,
        message.receiver_id,
        type_name(message.message_type),
        message.correlation_id,
        to_seconds(message.ttl),
        content_size(message),
        message,
        optional_failure(source),
        source.first_seq,
    )


def write_message_sent(out: run_pb2.RunEvent, event: ev.MessageSent) -> None:
    target, message = out.message_sent, out.message_sent.message
    target.role, target.sequence, target.first_seq = event.role, event.sequence, event.first_seq
    if isinstance(event.payload, message_pb2.PeerMessage):
        message.CopyFrom(event.payload)
    message.message_id, message.receiver_id = event.message_id, event.receiver
    message.correlation_id, message.message_type = event.correlation_id, _type_number(event.type)
    message.sender_id, message.sender_task_id = event.role, event.task_id
    message.send_time.CopyFrom(out.time)
    if event.ttl:
        set_seconds(message.ttl, event.ttl)
    if event.failure is not None:
        target.failure.CopyFrom(failure_to_proto(event.failure))
    else:
        message.seq = event.first_seq or out.seq


def message_to_proto(sent: SentMessage) -> message_pb2.PeerMessage:
    """The message as its receivers get it."""
    message = message_pb2.PeerMessage()
    if isinstance(sent.payload, message_pb2.PeerMessage):
        message.CopyFrom(sent.payload)
    message.message_id, message.receiver_id = sent.message_id, sent.receiver
    message.message_type, message.correlation_id = _type_number(sent.type), sent.correlation_id
    message.sender_id, message.sender_task_id, message.seq = sent.role, sent.task_id, sent.seq
    set_seconds(message.send_time, sent.time)
    if sent.ttl:
        set_seconds(message.ttl, sent.ttl)
    return message


def read_subscribed(event: run_pb2.RunEvent) -> ev.Event:
    source = event.subscribed
    return ev.Subscribed(event.task.task_id, event.task.attempt, source.sequence, tuple(source.topics))


def write_subscribed(out: run_pb2.RunEvent, event: ev.Subscribed) -> None:
    out.subscribed.topics.extend(event.topics)
    out.subscribed.sequence = event.sequence


def _type_number(name: str) -> message_pb2.MessageType.ValueType:
    return message_pb2.MessageType.Value(f"MESSAGE_TYPE_{name.upper() or 'UNSPECIFIED'}")
