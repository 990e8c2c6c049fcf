"""The connection from a task to its orchestrator."""

from __future__ import annotations

from typing import Protocol

from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2


class Link(Protocol):
    """Sends a task's frames to its orchestrator, and waits for the answers."""

    def send(self, frame: session_pb2.AgentFrame) -> None:
        """Sends a frame that may be dropped."""
        ...

    def recorded(self) -> None:
        """Has a call that was recorded sent soon: the handler may work for long after it."""
        ...

    def save(self, checkpoint: session_pb2.Checkpoint) -> None:
        """Sends a checkpoint reliably. Raises FrameTooLarge."""
        ...

    def publish(self, item: session_pb2.Publish) -> None:
        """Sends an item reliably. Raises FrameTooLarge, Unimplemented, ResourceExhausted."""
        ...

    async def delegate(self, delegation: session_pb2.Delegate) -> session_pb2.DelegateResult:
        """Sends a delegation and waits for its result."""
        ...

    async def send_message(self, message: message_pb2.PeerMessage) -> session_pb2.MessageResult:
        """Sends a message to other agents and waits until it is in the journal. Raises Unimplemented."""
        ...

    def subscribe(self, subscription: session_pb2.Subscribe) -> None:
        """Subscribes to messages of other agents, reliably. Raises Unimplemented."""
        ...

    async def ask(self, question: agent_pb2.InputRequest) -> session_pb2.Input:
        """Asks a person and waits for the answer."""
        ...

    async def reserve(self, budget: common_pb2.Budget) -> session_pb2.BudgetGrant:
        """Requests more of the budget and waits for the grant."""
        ...
