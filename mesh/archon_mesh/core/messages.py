"""Chat messages as models take them, and how shared memory gets among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from archon_mesh.core.memory_item import MemoryItem

SHARED_CONTEXT_PREFIX = "Shared context from "


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call the tool `name`; `arguments_json` is as the model wrote it, not yet parsed."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation. `metadata` is for the framework and never sent to a model; `run_id` is the agent's
    run that it came with, where there is one."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    run_id: str = field(default="", compare=False)


def with_shared_context(messages: Sequence[ChatMessage], items: Iterable[MemoryItem]) -> list[ChatMessage]:
    """The messages with one system message per item right after the agent's own system prompt.

    Give the items in dependency order: they stay in it. A source that already has its message gets a newer
    version in its stead and never a second one, so doing this again changes nothing; a source that has no
    item this time keeps its message.
    """
    shared: dict[object, ChatMessage] = {}
    others: list[ChatMessage] = []
    for message in messages:
        if message.role == "system" and message.metadata.get("shared_memory") is True:
            shared[message.metadata.get("shared_memory_source")] = message
        else:
            others.append(message)
    given: dict[object, ChatMessage] = {}
    for item in items:
        earlier = given.get(item.source_id) or shared.pop(item.source_id, None)
        newer = _shared_message(item)
        given[item.source_id] = newer if earlier is None or _version(earlier) < item.version else earlier
    prompt = 1 if others and others[0].role == "system" else 0
    return [*others[:prompt], *shared.values(), *given.values(), *others[prompt:]]


def _shared_message(item: MemoryItem) -> ChatMessage:
    return ChatMessage(
        role="system",
        content=f"{SHARED_CONTEXT_PREFIX}{item.source_id}:\n{item.content}",
        metadata={
            "shared_memory": True,
            "shared_memory_source": item.source_id,
            "shared_memory_version": item.version,
        },
    )


def _version(message: ChatMessage) -> int:
    version = message.metadata.get("shared_memory_version")
    return version if isinstance(version, int) else 0
