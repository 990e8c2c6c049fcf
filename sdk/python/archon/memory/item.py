"""Items of the shared memory. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archon.propagation import PropagationPolicy


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """The last answer of one role in a scope, or of one of its tasks.

    `timestamp` is in seconds since the Unix epoch; `version` counts from 1 per scope and role and never goes back;
    `ttl` is in seconds from `timestamp`, None means forever. `run_id` and `seq` name the event that published the item;
    they are empty and 0 if no run did. `task_id` is the task that gave the answer, empty if none did.
    """

    source_id: str
    content: str
    timestamp: float
    version: int
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    metadata: Mapping[str, str] = field(default_factory=dict)
    ttl: float | None = None
    run_id: str = ""
    seq: int = 0
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """One message of a watch: items in the order they were published. A snapshot replaces all earlier items."""

    items: tuple[MemoryItem, ...]
    snapshot: bool


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item that a search found, without its text. `passage` is the part of the text that answers the query best;
    `score`, from 0 to 1, is its similarity to the query."""

    item: MemoryItem
    passage: str
    score: float
