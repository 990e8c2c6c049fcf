"""Calls of a task that wait for its orchestrator: delegations, questions to people, requests for more of the budget."""

from __future__ import annotations

import asyncio
from itertools import chain, count
from typing import Any, Final, Protocol, TypeVar

from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, OperationCancelled, Unimplemented
from archon.frames import Channel, agent_content

A = TypeVar("A")

MAX_SENDING: Final = 32
"""Messages of an attempt that may wait for the journal at a time; further ones wait before they are sent."""


class Caller(Protocol):
    """The attempt that makes the calls."""

    channel: Channel[session_pb2.AgentFrame]
    limit: int

    @property
    def working(self) -> bool: ...

    def agreed(self, feature: str) -> bool: ...

    def remaining(self) -> float | None: ...

    def flush(self) -> None: ...

    def send(self, content: bytes) -> None: ...

    def stop_clock(self) -> None: ...

    def start_clock(self) -> None: ...


class PendingCalls:
    """The pending calls of one attempt. An answer may come twice, from two owners: the first counts."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._delegations: dict[str, asyncio.Future[session_pb2.DelegateResult]] = {}
        self._requests: dict[str, asyncio.Future[session_pb2.BudgetGrant]] = {}
        self._questions: dict[str, asyncio.Future[session_pb2.Input]] = {}
        self._messages: dict[str, asyncio.Future[session_pb2.MessageResult]] = {}
        self._sending = asyncio.Semaphore(MAX_SENDING)
        self._asking = asyncio.Lock()
        self._numbers = count(1)

    @property
    def waiting(self) -> bool:
        """True while a delegation is pending: the attempt takes no slot then."""
        return bool(self._delegations)

    async def delegate(self, delegation: session_pb2.Delegate) -> session_pb2.DelegateResult:
        """Sends a delegation and waits for its result. Raises FrameTooLarge, Unimplemented, DeadlineExceeded at the end
        of the task's time. If the call is cancelled, the orchestrator learns that the delegation is not needed."""
        content = agent_content("delegate", delegation)
        self._check(content, "delegate")
        self._caller.flush()
        try:
            return await self._call(self._delegations, delegation.delegation_id, content)
        except (asyncio.CancelledError, DeadlineExceeded):
            if self._caller.working:
                unneeded = session_pb2.CancelDelegation(delegation_id=delegation.delegation_id)
                self._caller.send(agent_content("cancel_delegation", unneeded))
            raise

    async def reserve(self, budget: common_pb2.Budget) -> session_pb2.BudgetGrant:
        """Requests more of the budget and waits for the grant. Raises as `delegate` does."""
        request = session_pb2.BudgetRequest(budget=budget, request_id=f"b{next(self._numbers)}")
        content = agent_content("budget_request", request)
        self._check(content, "budget")
        return await self._call(self._requests, request.request_id, content)

    async def send_message(self, message: message_pb2.PeerMessage) -> session_pb2.MessageResult:
        """Sends a message and waits until the orchestrator has taken or refused it. Raises as `delegate` does, and
        InvalidArgument if one with the same id is on its way."""
        content = agent_content("send_message", message)
        self._check(content, "messages")
        if message.message_id in self._messages:
            raise InvalidArgument(f"a message with the id {message.message_id!r} is on its way")
        async with self._sending:
            self._caller.flush()
            return await self._call(self._messages, message.message_id, content)

    def subscribe(self, subscription: session_pb2.Subscribe) -> None:
        """Subscribes to messages of other agents. Raises as `delegate` does."""
        content = agent_content("subscribe", subscription)
        self._check(content, "messages")
        self._caller.send(content)

    async def ask(self, question: agent_pb2.InputRequest) -> session_pb2.Input:
        """Asks a person and waits for the answer, as long as it takes: the time of the task stands still. Questions
        are asked one after another. Raises FrameTooLarge, Unimplemented."""
        content = agent_content("ask", question)
        async with self._asking:
            self._check(content, "input")
            self._caller.flush()
            self._caller.stop_clock()
            try:
                return await self._call(self._questions, question.input_id, content)
            finally:
                self._caller.start_clock()

    def _check(self, content: bytes, feature: str) -> None:
        if not self._caller.working:
            raise OperationCancelled("the task is over")
        if not self._caller.agreed(feature):
            raise Unimplemented(f"the caller of this task does not support the feature {feature}")
        self._caller.channel.check_size(content, self._caller.limit)

    async def _call(self, pending: dict[str, asyncio.Future[A]], name: str, content: bytes) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        pending[name] = answer
        self._caller.send(content)
        try:
            async with asyncio.timeout(self._caller.remaining()):
                return await answer
        except TimeoutError:
            raise DeadlineExceeded("the task's time is over") from None
        finally:
            pending.pop(name, None)

    def answered(self, frame: session_pb2.OrchestratorFrame) -> None:
        """Takes a delegate_result, an input, a message_result or a budget_grant; drops it if no call waits for it."""
        if frame.HasField("delegate_result"):
            delegation = self._delegations.pop(frame.delegate_result.delegation_id, None)
            if delegation is not None and not delegation.done():
                delegation.set_result(frame.delegate_result)
        elif frame.HasField("input"):
            question = self._questions.get(frame.input.input_id)
            if question is not None and not question.done():
                question.set_result(frame.input)
        elif frame.HasField("message_result"):
            message = self._messages.get(frame.message_result.message_id)
            if message is not None and not message.done():
                message.set_result(frame.message_result)
        else:
            request = self._requests.get(frame.budget_grant.request_id)
            if request is not None and not request.done():
                request.set_result(frame.budget_grant)

    def refuse(self, error: ArchonError) -> None:
        """Fails all calls: the orchestrator does not know these frames and will not answer."""
        for call in self._pending():
            if not call.done():
                call.set_exception(error)

    def close(self) -> None:
        """Cancels all calls: the task is over and nothing will be answered."""
        for call in self._pending():
            call.cancel()

    def _pending(self) -> list[asyncio.Future[Any]]:
        tables = (self._delegations, self._questions, self._requests, self._messages)
        return list(chain.from_iterable(table.values() for table in tables))
