"""Assembles a request: system, working memory, long-term memory, recent turns, instruction, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence

from archon.errors import ArchonError
from archon.memory.values import to_json
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.core.compaction import is_summary, rounds
from archon_mesh.core.messages import ORIGIN, ChatMessage
from archon_mesh.llm.base import ModelRequest, estimate_input, estimate_tokens

WORKING_MEMORY = "[Working memory]"


def insert(messages: list[ChatMessage], added: Sequence[ChatMessage]) -> None:
    """Inserts messages after the system messages at the beginning."""
    start = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
    messages[start:start] = added


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


def working_memory(storage: GlobalStorage, messages: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
    """Returns the JSON values of a storage as a message, in the tokens of the budget that the system messages leave;
    no message without values or room. Keys that begin with `archon.` are the framework's own."""
    used = sum(estimate_tokens(message.content) for message in messages if message.role == "system")
    lines = [WORKING_MEMORY]
    left = budget - used - estimate_tokens(WORKING_MEMORY)
    for key, value in sorted(storage.to_dict().items()):
        if key.startswith("archon."):
            continue
        try:
            line = f"{key}: {to_json(value)}"
        except ArchonError:
            continue
        left -= estimate_tokens(line) + 1
        if left < 0:
            break
        lines.append(line)
    return [ChatMessage("user", "\n".join(lines), metadata={ORIGIN: "memory"})] if len(lines) > 1 else []
