"""The parts of a request beside its system messages, each within its share of the token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from archon.errors import ArchonError
from archon.memory.values import to_json
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.core.compaction import is_summary, rounds
from archon_mesh.core.messages import ORIGIN, ChatMessage
from archon_mesh.llm.base import ModelRequest, estimate_input, estimate_tokens

WORKING_MEMORY: Final = "[Working memory]"
CHANGED_WORKING_MEMORY: Final = "[Working memory, changed]"


def within_history(
    messages: Sequence[ChatMessage], history: Sequence[ChatMessage], run_id: str, budget: int
) -> list[ChatMessage]:
    """Returns the messages without the oldest turns of earlier runs that exceed the budget, in tokens.

    Summaries and messages of the current run stay, and a call stays with its result.
    """
    earlier_ids = {id(message) for message in history if message.run_id != run_id and not is_summary(message)}
    earlier = [message for message in messages if id(message) in earlier_ids]
    kept: list[list[ChatMessage]] = []
    for each in reversed(rounds(earlier)):
        budget -= estimate_input(ModelRequest(each))
        if budget < 0:
            break
        kept.insert(0, each)
    if len(kept) < len(rounds(earlier)):
        while kept and kept[0][0].role != "user":
            kept.pop(0)
    kept_ids = {id(message) for each in kept for message in each}
    return [message for message in messages if id(message) not in earlier_ids or id(message) in kept_ids]


def working_memory(storage: GlobalStorage, budget: int) -> dict[str, str]:
    """Returns the JSON values of a storage as text, by key and in its order, within a budget of tokens.

    Keys that begin with `archon.` are the framework's own.
    """
    values: dict[str, str] = {}
    left = budget - estimate_tokens(WORKING_MEMORY)
    for key, value in sorted(storage.to_dict().items()):
        if key.startswith("archon."):
            continue
        try:
            text = to_json(value)
        except ArchonError:
            continue
        left -= estimate_tokens(f"{key}: {text}") + 1
        if left < 0:
            break
        values[key] = text
    return values


def working_memory_message(values: Mapping[str, str], heading: str = WORKING_MEMORY) -> list[ChatMessage]:
    """Returns the message that shows values of the working memory; no message without values."""
    lines = [heading, *(f"{key}: {text}" for key, text in values.items())]
    return [ChatMessage("user", "\n".join(lines), metadata={ORIGIN: "memory"})] if values else []
