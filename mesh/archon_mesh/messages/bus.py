"""MessageBus: agents in one process publish messages, and subscribe to topics.

The topics are the same as in a mesh: `agent:ID` for messages with a receiver, `broadcast` for all others, `type:TYPE`
for all others of one type. Nothing is stored: the messages of a bus end with its process."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from archon.errors import DeadlineExceeded, FieldViolation, InvalidArgument, NoReceiver, TooManyMessages
from archon.types import HelpRequest, Message, MessageType
from archon.types.message import content_part
from archon.types.message_content import content_of, to_json_value

MAX_WAITING: Final = 1_000
"""Messages that wait for one subscriber."""

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""Bytes of their contents."""

MAX_DEAD_LETTERS: Final = 1_000
"""Messages without a reader that a bus keeps, the newest."""

MAX_IDS: Final = 10_000
"""Ids of messages by which a bus knows one that is published again."""

_TYPES: Final = frozenset(f"type:{kind}" for kind in MessageType)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a subscriber did not read; `subscriber` is empty if there was none. `reason` is `no receiver`,
    `expired`, `inbox full` or `unsubscribed`."""

    message: Message
    reason: str
    subscriber: str = ""


class Subscription:
    """The inbox of one subscriber: an async iterator of its messages, in the order in which they were published. It
    ends when the subscription does and all messages are read."""

    def __init__(self, bus: MessageBus, subscriber: str, topics: frozenset[str]) -> None:
        self.subscriber = subscriber
        self.topics = topics
        self._bus = bus
        self._waiting: deque[tuple[Message, int]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._open = True

    def __len__(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Message:
        while True:
            while self._waiting:
                message, size = self._waiting.popleft()
                self._bytes -= size
                if not self._bus._is_expired(message):
                    return message
                self._bus._bury(message, "expired", self.subscriber)
            if not self._open:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    async def next(self, timeout: float) -> Message:
        """Returns the next message. Raises DeadlineExceeded if none comes within `timeout` seconds, or the subscription
        has ended."""
        try:
            async with asyncio.timeout(timeout):
                return await anext(self)
        except (TimeoutError, StopAsyncIteration):
            raise DeadlineExceeded(f"no message came within {timeout:g} s") from None

    def _put(self, message: Message, size: int) -> bool:
        """Returns False if there is no room."""
        if len(self._waiting) >= MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES:
            return False
        self._waiting.append((message, size))
        self._bytes += size
        self._changed.set()
        return True

    def _end(self) -> list[Message]:
        """Ends the subscription. Returns the messages without a reader."""
        self._open = False
        left = [message for message, _ in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        self._changed.set()
        return left


class MessageBus:
    """Delivers each message once to each subscriber of its topics, except to its sender.

    `clock` gives the time by which messages expire, in seconds since the Unix epoch. All methods must be called in one
    event loop.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._subscriptions: list[Subscription] = []
        self._ids: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._dead: deque[DeadLetter] = deque(maxlen=MAX_DEAD_LETTERS)

    @property
    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """The messages that were not read, oldest first."""
        return tuple(self._dead)

    def subscribe(self, subscriber: str, *topics: str) -> Subscription:
        """Subscribes an agent to the messages for it (`agent:SUBSCRIBER`), and to further topics. Raises
        InvalidArgument for a topic of another form."""
        for topic in topics:
            if topic != "broadcast" and topic not in _TYPES and not topic.startswith("agent:"):
                reason = f"must be `agent:ID`, `broadcast` or `type:TYPE`, and not {topic!r}"
                raise InvalidArgument(f"a topic {reason}", field_violations=[FieldViolation("topics", reason)])
        subscription = Subscription(self, subscriber, frozenset({f"agent:{subscriber}", *topics}))
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends a subscription; messages that wait become dead letters. Idempotent."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            for message in subscription._end():
                self._bury(message, "unsubscribed", subscription.subscriber)

    def publish(self, message: Message) -> Message:
        """Publishes a message, and returns it with its id and its time. One with the sender and the id of an earlier
        message is not delivered again.

        Raises InvalidArgument if the content is not of the message's type, NoReceiver if the receiver has not
        subscribed, and TooManyMessages if its inbox is full.
        """
        content = to_json_value(message.content)
        content_of(message.message_type, content)
        part = content_part(content)
        sent = replace(
            message,
            content=content,
            message_id=message.message_id or uuid.uuid4().hex,
            timestamp=message.timestamp or self._clock(),
        )
        if self._is_known(sent):
            return sent
        size = len((part.text or part.data_json or "").encode())
        names = {f"agent:{sent.receiver_id}"} if sent.receiver_id else {"broadcast", f"type:{sent.message_type}"}
        receivers = [
            each
            for each in self._subscriptions
            if not names.isdisjoint(each.topics) and each.subscriber != sent.sender_id
        ]
        if not receivers:
            self._bury(sent, "no receiver")
            if sent.receiver_id:
                raise NoReceiver(f"{sent.receiver_id!r} has not subscribed", metadata={"receiver": sent.receiver_id})
        full = [each for each in receivers if not each._put(sent, size)]
        for each in full:
            self._bury(sent, "inbox full", each.subscriber)
        if receivers and len(full) == len(receivers) and sent.receiver_id:
            raise TooManyMessages(f"the inbox of {sent.receiver_id!r} is full", metadata={"limit": str(MAX_WAITING)})
        return sent

    def reply(self, message: Message, sender_id: str, content: object) -> Message:
        """Answers a message with a `task_response`. Raises the errors of `publish`."""
        kind = MessageType.TASK_RESPONSE
        answer = Message(sender_id, message.sender_id, kind, content, correlation_id=message.message_id)
        return self.publish(answer)

    async def request(self, message: Message, timeout: float = 60.0) -> Message:
        """Publishes a message, and returns the first answer to it (`correlation_id`). Raises DeadlineExceeded if none
        comes within `timeout` seconds, and the errors of `publish`."""
        asker = f"{message.sender_id}/{uuid.uuid4().hex}"
        inbox = self.subscribe(asker)
        try:
            sent = self.publish(replace(message, sender_id=asker))
            deadline = asyncio.get_running_loop().time() + timeout
            while True:
                answer = await inbox.next(max(0.0, deadline - asyncio.get_running_loop().time()))
                if answer.correlation_id == sent.message_id:
                    return answer
        except DeadlineExceeded:
            raise DeadlineExceeded(f"no reply came within {timeout:g} s") from None
        finally:
            self.unsubscribe(inbox)

    async def request_help(self, task_id: str, issue: str, target_role: str, *, timeout: float = 60.0) -> Message:
        """Requests help with an issue of a task from a role, and returns the answer. Raises the errors of `request`."""
        request = HelpRequest(issue, task_id)
        return await self.request(Message(task_id, target_role, MessageType.HELP_REQUEST, request), timeout)

    def _is_known(self, message: Message) -> bool:
        key = message.sender_id, message.message_id
        if key in self._ids:
            return True
        self._ids[key] = None
        if len(self._ids) > MAX_IDS:
            self._ids.popitem(last=False)
        return False

    def _is_expired(self, message: Message) -> bool:
        return message.ttl is not None and self._clock() > message.timestamp + message.ttl

    def _bury(self, message: Message, reason: str, subscriber: str = "") -> None:
        self._dead.append(DeadLetter(message, reason, subscriber))
