"""The history of a stateful role's session: received with a task, extended by its answer.

Messages that have more than a role and a text carry the rest as metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from archon.agent import HistoryMessage, TaskContext
from archon.agent.history import shortened
from archon.errors import DataLoss
from archon.types.part import to_messages
from archon.wire import described
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import EARLIER_RUN, PROVIDER_STATE, ChatMessage
from archon_mesh.memory.message_json import message_from_json, message_to_json

MESSAGE_KEY: Final = "dev.archon.mesh/message"
"""The metadata key of a whole message, in the JSON form of `archon_mesh.memory`."""

MAX_TURN_CHARS: Final = 80_000
"""A turn with a longer text is stored as its query and its answer, without the tool calls in between."""

MAX_FILE_CHARS: Final = 180_000
"""A turn whose files have more characters, in base64, is stored with labels in their place. Of both together, in any
script, a frame has room for a turn."""

_ROLES: Final[Mapping[str, Literal["system", "assistant", "tool"]]] = {
    "system": "system",
    "assistant": "assistant",
    "tool": "tool",
}


class TurnRecorder:
    """A HistorySink that records the messages that one task adds. Compaction by the agent does not change them."""

    def __init__(self) -> None:
        self._added: list[ChatMessage] = []

    def appended(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        self._added += messages

    def replaced(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        pass  # compaction shortens the model's input, not the stored session

    def undone(self, key: str, run_id: str) -> None:
        self._added = [message for message in self._added if message.run_id != run_id]

    async def flush(self, key: str) -> None:
        pass  # the messages are stored together with the answer

    def new_messages(self) -> list[HistoryMessage] | None:
        """Returns the messages to store with the answer, or None if the query and the answer are enough."""
        labelled = [message.without_files() for message in self._added]
        if _size(labelled) <= MAX_TURN_CHARS:
            files = sum(len(file.data) // 3 * 4 + len(file.url) for message in self._added for file in message.files)
            return [_encode(message) for message in (self._added if files <= MAX_FILE_CHARS else labelled)] or None
        query, answer = self._added[0], self._added[-1]
        if query.files:  # the query that is stored by default has no labels
            return [HistoryMessage(each.role, shortened(each.described)) for each in (query, answer)]
        return None


def _size(messages: Sequence[ChatMessage]) -> int:
    encoded = map(_encode, messages)
    return sum(len(message.text) + sum(map(len, message.metadata.values())) for message in encoded)


def load_history(task: TaskContext, recorder: TurnRecorder, agent_name: str) -> HistoryList:
    """Returns the agent's history in the session of the task."""
    messages = [_decode(message) for message in task.history]
    return HistoryList(messages, recorder, task.conversation_id, agent_name=agent_name)


def _encode(message: ChatMessage) -> HistoryMessage:
    # Providers need their own state, such as signed thinking, between a tool call and its result only.
    kept = {key: value for key, value in message.metadata.items() if key != PROVIDER_STATE}
    message = replace(message, metadata=kept)
    plain = ChatMessage(message.role, message.content, run_id=message.run_id)
    if message == plain:
        return HistoryMessage(message.role, message.content)
    metadata = {MESSAGE_KEY: message_to_json(replace(message, content=""))}
    return HistoryMessage(message.role, message.content, metadata=metadata)


def _decode(message: HistoryMessage) -> ChatMessage:
    if (data := message.metadata.get(MESSAGE_KEY)) is not None:
        try:
            return replace(message_from_json(data, EARLIER_RUN), content=message.text)
        except DataLoss:
            pass  # written by another version: role and text are enough
    text = "\n\n".join(filter(None, (described(to_messages(message.parts)), message.text)))
    return ChatMessage(_ROLES.get(message.role, "user"), text, run_id=EARLIER_RUN)
