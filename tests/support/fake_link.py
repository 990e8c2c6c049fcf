"""A task's way to an orchestrator that isn't there: what it sends is kept, what it asks is refused."""

from __future__ import annotations

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unimplemented


class FakeLink:
    """`sent` gets the frames."""

    def __init__(self, sent: list[session_pb2.AgentFrame]) -> None:
        self._sent = sent

    def send(self, frame: session_pb2.AgentFrame) -> None:
        self._sent.append(frame)

    def save(self, frame: session_pb2.AgentFrame) -> None:
        self._sent.append(frame)

    async def delegate(self, asked: session_pb2.Delegate) -> session_pb2.DelegateResult:
        raise Unimplemented("nobody takes delegations here")

    async def reserve(self, wanted: common_pb2.Budget) -> session_pb2.BudgetGrant:
        raise Unimplemented("nobody has a budget here")
