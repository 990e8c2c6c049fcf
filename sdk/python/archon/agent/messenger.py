"""The messages of one attempt to other agents of its run, and theirs to it."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

from archon.agent.inbox import REPLY_PREFIX, Inbox
from archon.agent.link import Link
from archon.agent.values import Delegated
from archon.api.agent.v1 import message_pb2, session_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon.status import from_failure
from archon.surrogates import without_surrogates
from archon.types.message import Message, content_part
from archon.types.message_content import content_of, to_json_value, type_of
from archon.types.message_type import MessageType
from archon.wire import set_seconds

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""The most bytes of a message's content."""

MAX_MESSAGE_ID: Final = 256
"""The most characters of a message's id."""

TOPICS: Final = frozenset({"broadcast", *(f"type:{kind}" for kind in MessageType)})
"""The topics of messages without a receiver."""


class Messenger:
    """Sends and receives. It subscribes on the first call that receives."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._numbers: Counter[str] = Counter()
        self._topics: set[str] | None = None
        self.inbox = Inbox()

    async def send(
        self,
        content: object,
        to: str,
        kind: MessageType | str | None,
        *,
        correlation_id: str = "",
        ttl: float | None = None,
        message_id: str = "",
        expects_reply: bool = False,
    ) -> str:
        """Sends a message, and returns its id once the journal of the run has it."""
        kind = kind_of(content, kind)
        content = to_json_value(content)
        content_of(kind, content)  # raises InvalidArgument if the content is not of the type
        message = message_pb2.PeerMessage(
            receiver_id=without_surrogates(to),
            message_type=message_pb2.MessageType.ValueType(kind.number),
            content=[content_part(content).proto],
            correlation_id=without_surrogates(correlation_id),
            expects_reply=expects_reply,
        )
        if (size := message.content[0].ByteSize()) > MAX_MESSAGE_BYTES:
            reason = f"has {size:,} bytes, at most {MAX_MESSAGE_BYTES:,} are allowed; give large content by URL"
            raise InvalidArgument(f"the message {reason}", field_violations=[FieldViolation("content", reason)])
        if len(message_id) > MAX_MESSAGE_ID:
            raise InvalidArgument(f"the message_id has {len(message_id)} characters, at most {MAX_MESSAGE_ID}")
        message.message_id = message_id or self._id(message)
        if ttl is not None:
            if ttl <= 0:
                raise InvalidArgument(f"the ttl of a message is {ttl:g} s, and must be above 0")
            set_seconds(message.ttl, ttl)
        result = await self._link.send_message(message)
        if result.HasField("failure"):
            raise from_failure(result.failure)
        return message.message_id

    def _id(self, message: message_pb2.PeerMessage) -> str:
        """The id of the n-th message that is equal to this one: a later attempt gives the same message the same id."""
        data = message.SerializeToString(deterministic=True)
        digest = hashlib.sha256(data).hexdigest()[:32]
        self._numbers[digest] += 1
        return f"{REPLY_PREFIX if message.expects_reply else ''}{digest}.{self._numbers[digest]}"

    def subscribe(self, topics: tuple[str, ...] = ()) -> None:
        """Subscribes to the messages for this task, and to topics."""
        if unknown := sorted(set(topics) - TOPICS):
            reason = f"must be `broadcast` or `type:TYPE`, and not {unknown[0]!r}"
            raise InvalidArgument(f"a topic {reason}", field_violations=[FieldViolation("topics", reason)])
        new = [topic for topic in topics if self._topics is None or topic not in self._topics]
        if self._topics is None or new:
            self._link.subscribe(session_pb2.Subscribe(topics=new))
            self._topics = (self._topics or set()) | set(new)

    def messages(self, topics: tuple[str, ...], after: int, quiet: float | None) -> AsyncIterator[Message]:
        """Subscribes, and yields the received messages."""
        self.subscribe(topics)
        return self.inbox.messages(after, quiet)

    def handled(self, topics: tuple[str, ...]) -> AsyncIterator[Message]:
        """Subscribes, and yields the messages for this task and of these topics, which `messages` leaves out."""
        self.inbox.keep_apart(frozenset(topics))
        self.subscribe(topics)
        return self.inbox.handled()

    async def request(
        self, content: object, to: str, kind: MessageType | str | None, timeout: float, message_id: str = ""
    ) -> Message:
        """Sends a message and returns the reply to it."""
        self.subscribe()
        kind = kind or type_of(content) or MessageType.TASK_REQUEST
        own_id = f"{REPLY_PREFIX}{message_id}" if message_id else ""
        message_id = await self.send(content, to, kind, expects_reply=True, message_id=own_id)
        return await self.inbox.within(message_id, timeout)

    async def reply(self, message: Message, content: object, kind: MessageType | str | None) -> str:
        """Sends an answer to the sender of a message, and returns the id of the answer. Without a `kind` it has the
        type of its content, or else TASK_RESPONSE."""
        kind = kind or type_of(content) or MessageType.TASK_RESPONSE
        return await self.send(content, message.sender_task_id, kind, correlation_id=message.message_id)

    def receive(self, message: message_pb2.PeerMessage) -> None:
        """Takes in a message of the contract."""
        self.inbox.put(Message.from_proto(message))

    @staticmethod
    def text_of(content: object) -> str:
        """Returns a content as the text of a task of its own."""
        return _text_of(content)

    @staticmethod
    def answer_of(role: str, done: Delegated) -> Message:
        """Returns the answer of a delegated request as a message."""
        return Message(role, "", MessageType.TASK_RESPONSE, done.text, time.time(), parts=tuple(done.parts))


def kind_of(content: object, kind: MessageType | str | None) -> MessageType:
    """Returns the type of a message: of its content, as it was given, or a notification. Raises InvalidArgument if
    they do not fit together."""
    own = type_of(content)
    try:
        given = MessageType(kind) if kind is not None else own or MessageType.NOTIFICATION
    except ValueError:
        names = ", ".join(MessageType)
        raise InvalidArgument(f"{kind!r} is not a type of messages: {names}") from None
    if own is not None and given is not own:
        raise InvalidArgument(f"a {type(content).__name__} is the content of a message of type {own}, not {given}")
    return given


def _text_of(content: object) -> str:
    value: Any = to_json_value(content)
    if isinstance(value, dict):
        value = value.get("description") or value.get("issue") or value.get("query") or value
    return value if isinstance(value, str) else content_part(value).data_json or ""
