"""Chat messages and tool calls, and the insertion of shared memory into a list of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from archon.errors import InvalidArgument
from archon.surrogates import without_surrogates
from archon_mesh.core.media import Media
from archon_mesh.core.memory_item import MemoryItem

SHARED_CONTEXT_PREFIX = "Shared context from "

PROVIDER_STATE = "provider_state"
"""The key of a message's metadata under which the client of its model keeps the data to send back."""

ORIGIN = "origin"
"""The key of a message's metadata that names the origin of an added message, such as `memory`."""

OF_RESULT = "of_result"
"""The key of a user's message's metadata that says that its files come from a tool's result."""

EARLIER_RUN = "earlier"
"""The `run_id` of messages from earlier runs of a session, if these runs are not known by name."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by a model; `arguments_json` is as the model wrote it, not parsed."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation. `metadata` is for the framework and never sent to a model; only the value of
    PROVIDER_STATE goes back to the provider that it came from. Lone surrogates of the content become question marks.
    `files` follow the content, in messages of a user and in results of tools; the content of a result has their labels.
    Raises InvalidArgument if one of them is no Media.

    `run_id` is the run of the agent that added the message, or empty.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    run_id: str = field(default="", compare=False)
    files: Sequence[Media] = ()

    def __post_init__(self) -> None:
        content = without_surrogates(self.content)
        if content is not self.content:
            object.__setattr__(self, "content", content)
        if isinstance(self.files, list):
            object.__setattr__(self, "files", tuple(self.files))
        if self.files and not (isinstance(self.files, tuple) and all(isinstance(each, Media) for each in self.files)):
            raise InvalidArgument("invalid files of a message: expected Media, such as `load_file` returns")

    @property
    def described(self) -> str:
        """The content with the label of each file, for readers that get no files."""
        labels = [file.label for file in self.files if file.label not in self.content]
        return "\n".join(filter(None, (self.content, *labels)))

    def without_files(self) -> ChatMessage:
        """Returns the message with the labels of its files in their place."""
        return replace(self, content=self.described, files=()) if self.files else self


def with_shared_context(messages: Sequence[ChatMessage], items: Iterable[MemoryItem]) -> list[ChatMessage]:
    """Inserts one system message per item after the agent's own system prompt.

    The items keep their order, which should be the dependency order. A newer version replaces the message of the same
    source and task, so inserting the same items again changes nothing; a source without an item keeps its message.
    """
    shared: dict[tuple[object, object], ChatMessage] = {}
    others: list[ChatMessage] = []
    for message in messages:
        metadata = message.metadata
        if message.role == "system" and metadata.get("shared_memory") is True:
            shared[metadata.get("shared_memory_source"), metadata.get("shared_memory_task", "")] = message
        else:
            others.append(message)
    current: dict[tuple[object, object], ChatMessage] = {}
    for item in items:
        source = item.source_id, item.task_id
        earlier = current.get(source) or shared.pop(source, None)
        newer = _shared_message(item)
        current[source] = newer if earlier is None or _version(earlier) < item.version else earlier
    prompt = 1 if others and others[0].role == "system" else 0
    return [*others[:prompt], *shared.values(), *current.values(), *others[prompt:]]


def _shared_message(item: MemoryItem) -> ChatMessage:
    task = f" ({item.task_id})" if item.task_id else ""
    return ChatMessage(
        role="system",
        content=f"{SHARED_CONTEXT_PREFIX}{item.source_id}{task}:\n{item.content}",
        metadata={
            "shared_memory": True,
            "shared_memory_source": item.source_id,
            "shared_memory_version": item.version,
            **({"shared_memory_task": item.task_id} if item.task_id else {}),
        },
    )


def _version(message: ChatMessage) -> int:
    version = message.metadata.get("shared_memory_version")
    return version if isinstance(version, int) else 0
