"""What an agent remembers of a session as a stateful role: its history, as the task brings it and as the answer adds to
it. Messages that are more than a role and a text bring the rest along as metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from archon.agent import HistoryMessage, TaskContext
from archon.errors import DataLoss
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.form import message_from_json, message_to_json

FORM: Final = "dev.archon.mesh/message"
MAX_TURN_CHARS: Final = 80_000
"""A longer turn is remembered as its question and its answer, without the calls of tools in between."""

_ROLES: Final[Mapping[str, Literal["system", "assistant", "tool"]]] = {
    "system": "system",
    "assistant": "assistant",
    "tool": "tool",
}


class TurnKeeper:
    """Keeps what one task adds to its history. What the agent compacts is its own affair: the conversation stays."""

    def __init__(self) -> None:
        self._added: list[ChatMessage] = []

    def appended(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        """See HistoryKeeper."""
        self._added += messages

    def replaced(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        """See HistoryKeeper."""

    def undone(self, key: str, run_id: str) -> None:
        """See HistoryKeeper."""
        self._added = [message for message in self._added if message.run_id != run_id]

    async def flush(self, key: str) -> None:
        """See HistoryKeeper. It goes with the answer."""

    def turn(self) -> list[HistoryMessage] | None:
        """To go with the answer; None: what was asked and what is answered says enough."""
        turn = [_told(message) for message in self._added]
        size = sum(len(one.text) + sum(map(len, one.metadata.values())) for one in turn)
        return turn if turn and size <= MAX_TURN_CHARS else None


def remembered(task: TaskContext, keeper: TurnKeeper, agent_name: str) -> HistoryList:
    """The agent's history in the task's session."""
    messages = [_message(one) for one in task.history]
    return HistoryList(messages, keeper, task.conversation_id, agent_name=agent_name)


def _told(message: ChatMessage) -> HistoryMessage:
    bare = ChatMessage(message.role, message.content, run_id=message.run_id)
    if message == bare:
        return HistoryMessage(message.role, message.content)
    return HistoryMessage(message.role, message.content, metadata={FORM: message_to_json(replace(message, content=""))})


def _message(said: HistoryMessage) -> ChatMessage:
    if (form := said.metadata.get(FORM)) is not None:
        try:
            return replace(message_from_json(form, ""), content=said.text)
        except DataLoss:
            pass  # another version's: its words are what counts
    return ChatMessage(_ROLES.get(said.role, "user"), said.text)
