"""Messages that other instances deliver directly, outside of any run. They do not survive the process."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from archon.agent.messenger import MAX_MESSAGE_BYTES, MAX_MESSAGE_ID
from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.background import BackgroundLoop
from archon.errors import (
    FieldViolation,
    InvalidArgument,
    MessageNotAllowed,
    RequestIdReused,
    ResourceExhausted,
    Unimplemented,
)
from archon.message_profile import message_fault
from archon.principal import Kind, Principal
from archon.types.message import Message

_log = logging.getLogger(__name__)

OnDirect = Callable[[Message], Awaitable[Any]]
"""Handles a message. Its return value is not used."""

MAX_WAITING: Final = 1_000
"""Messages that wait for the handler."""

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the messages that wait for the handler."""

MAX_PER_CALL: Final = 100
"""Messages of one call."""

MAX_REMEMBERED: Final = 10_000
"""Calls whose request id is remembered: the same one again delivers nothing."""


class DirectInbox:
    """Takes messages in, and hands them to the handler one after the other, in the order in which they came. `role` and
    `types` are the role of this agent, and the types of messages that its profile allows, as in a Profile."""

    def __init__(self, role: str, types: Mapping[str, str], handler: OnDirect | None) -> None:
        self._role = role
        self._types = types
        self._handler = handler
        self._waiting: deque[tuple[Message, float, int]] = deque()
        self._bytes = 0
        self._requests: OrderedDict[tuple[str, str], tuple[str, list[str]]] = OrderedDict()
        self._arrived = asyncio.Event()
        self._loop = BackgroundLoop("direct messages", self._hand_over)

    def start(self) -> None:
        """Begins to hand messages over."""
        if self._handler is not None:
            self._loop.start()

    async def close(self) -> None:
        """Ends the handler; messages that wait are dropped."""
        await self._loop.close()

    def deliver(self, request: pb.DeliverRequest, caller: Principal | None) -> pb.DeliverResponse:
        """Takes in the messages of a call. Their sender is the caller: empty if it has no credentials. Raises
        Unimplemented without a handler, InvalidArgument, RequestIdReused, MessageNotAllowed, and ResourceExhausted if
        too many wait."""
        if self._handler is None:
            raise Unimplemented(f"{self._role} takes no messages from other instances", reason="NOT_SERVED")
        sender = "" if caller is None else caller.name if caller.kind is Kind.AGENT else caller.identity
        digest = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
        key = sender, request.request_id
        if (known := self._requests.get(key)) is not None:
            if known[0] != digest:
                raise RequestIdReused(f"the request id {request.request_id!r} came before with other messages")
            return pb.DeliverResponse(accepted_message_ids=known[1])
        _check(request)
        now = time.time()
        messages = [
            replace(Message.from_proto(message), sender_id=sender, sender_task_id="", seq=0, timestamp=now)
            for message in request.messages
        ]
        for message in messages:
            self._check_profile(message)
        is_full = len(self._waiting) + len(messages) > MAX_WAITING
        if is_full or self._bytes + request.ByteSize() > MAX_WAITING_BYTES:
            raise ResourceExhausted(f"{len(self._waiting)} messages wait for {self._role}", retry_delay=1.0)
        for message, given in zip(messages, request.messages, strict=True):
            size = given.ByteSize()
            self._waiting.append((message, now + message.ttl if message.ttl is not None else math.inf, size))
            self._bytes += size
        ids = [message.message_id for message in messages]
        self._requests[key] = digest, ids
        if len(self._requests) > MAX_REMEMBERED:
            self._requests.popitem(last=False)
        self._arrived.set()
        return pb.DeliverResponse(accepted_message_ids=ids)

    def _check_profile(self, message: Message) -> None:
        if fault := message_fault(self._role, self._types, str(message.message_type), {message.sender_id}):
            raise MessageNotAllowed(fault)

    async def _hand_over(self) -> None:
        while True:
            while self._waiting:
                message, until, size = self._waiting.popleft()
                self._bytes -= size
                if time.time() < until:
                    await self._handle(message)
            self._arrived.clear()
            await self._arrived.wait()

    async def _handle(self, message: Message) -> None:
        assert self._handler is not None
        try:
            await self._handler(message)
        except Exception:  # noqa: BLE001 - a fault of the handler costs its message alone
            _log.exception("the handler of direct messages failed", extra={"sender": message.sender_id})


def _check(request: pb.DeliverRequest) -> None:
    violations = []
    if not 0 < len(request.request_id) <= MAX_MESSAGE_ID:
        violations.append(FieldViolation("request_id", f"needs 1 to {MAX_MESSAGE_ID} characters"))
    if not 0 < len(request.messages) <= MAX_PER_CALL:
        violations.append(FieldViolation("messages", f"needs 1 to {MAX_PER_CALL} messages"))
    for number, message in enumerate(request.messages[:MAX_PER_CALL]):
        if not 0 < len(message.message_id) <= MAX_MESSAGE_ID:
            violations.append(
                FieldViolation(f"messages[{number}].message_id", f"needs 1 to {MAX_MESSAGE_ID} characters")
            )
        if sum(part.ByteSize() for part in message.content) > MAX_MESSAGE_BYTES:
            violations.append(
                FieldViolation(f"messages[{number}].content", f"has more than {MAX_MESSAGE_BYTES:,} bytes")
            )
    if violations:
        raise InvalidArgument("the messages cannot be delivered", field_violations=violations)
