"""What a task has asked its orchestrator: the answers to delegations, more of the budget."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, DeadlineExceeded, OperationCancelled, Unimplemented
from archon.frames import agent_content

if TYPE_CHECKING:
    from archon.agent.attempt import HeldTask

A = TypeVar("A")


class Questions:
    """Of one attempt. An answer may come twice, from an owner and from the one after it: the first counts."""

    def __init__(self, held: HeldTask) -> None:
        self._held = held
        self._delegations: dict[str, asyncio.Future[session_pb2.DelegateResult]] = {}
        self._requests: dict[str, asyncio.Future[session_pb2.BudgetGrant]] = {}
        self._numbers = count(1)

    @property
    def waiting(self) -> bool:
        """True while another role works for the task: it takes no slot then."""
        return bool(self._delegations)

    async def delegate(self, asked: session_pb2.Delegate) -> session_pb2.DelegateResult:
        """Raises FrameTooLarge, Unimplemented, DeadlineExceeded at the end of the task's time. Cancelled, it tells the
        orchestrator that nobody waits any more."""
        content = agent_content("delegate", asked)
        self._check(content, "delegate")
        self._held.settle()
        try:
            return await self._ask(self._delegations, asked.delegation_id, content)
        except (asyncio.CancelledError, DeadlineExceeded):
            if self._held.working:
                needless = session_pb2.CancelDelegation(delegation_id=asked.delegation_id)
                self._held.send(agent_content("cancel_delegation", needless))
            raise

    async def reserve(self, wanted: common_pb2.Budget) -> session_pb2.BudgetGrant:
        """Raises as `delegate` does."""
        request = session_pb2.BudgetRequest(budget=wanted, request_id=f"b{next(self._numbers)}")
        content = agent_content("budget_request", request)
        self._check(content, "budget")
        return await self._ask(self._requests, request.request_id, content)

    def _check(self, content: bytes, feature: str) -> None:
        if not self._held.working:
            raise OperationCancelled("the task is over")
        if not self._held.agreed(feature):
            raise Unimplemented(f"the caller of this task does not support the feature {feature}")
        self._held.channel.check_size(content, self._held.limit)

    async def _ask(self, asked: dict[str, asyncio.Future[A]], name: str, content: bytes) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        asked[name] = answer
        self._held.send(content)
        try:
            async with asyncio.timeout(self._held.remaining()):
                return await answer
        except TimeoutError:
            raise DeadlineExceeded("the task's time was over") from None
        finally:
            asked.pop(name, None)

    def answered(self, frame: session_pb2.OrchestratorFrame) -> None:
        """A delegate_result or a budget_grant. One that nobody waits for is dropped."""
        if frame.HasField("delegate_result"):
            waiting = self._delegations.pop(frame.delegate_result.delegation_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(frame.delegate_result)
        else:
            asking = self._requests.get(frame.budget_grant.request_id)
            if asking is not None and not asking.done():
                asking.set_result(frame.budget_grant)

    def close(self) -> None:
        """The task is over: nothing will be answered. Whatever the handler left behind to wait is cancelled."""
        for delegation in self._delegations.values():
            delegation.cancel()
        for request in self._requests.values():
            request.cancel()

    def refuse(self, error: ArchonError) -> None:
        """The orchestrator doesn't know these frames: nothing will be answered."""
        for delegation in self._delegations.values():
            if not delegation.done():
                delegation.set_exception(error)
        for request in self._requests.values():
            if not request.done():
                request.set_exception(error)
