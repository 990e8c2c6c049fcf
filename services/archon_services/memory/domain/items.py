"""Items of the shared memory: as a role publishes them, as they are stored, and the result of a publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to publish. `ttl` is in seconds, None for no expiry.

    For an item that comes from a run, (epoch, seq) of its event is the fencing token against stale writers, and
    `task_id` is the task that gave it. For any other item, `run_id`, `epoch`, `seq` and `task_id` are unset.
    """

    role: str
    content: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    ttl: float | None = None
    run_id: str = ""
    epoch: int = 0
    seq: int = 0
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class Publish:
    """A request to publish items together. `request_id` is unique per tenant; without one, the request is not
    deduplicated."""

    tenant: str
    scope: str
    items: Sequence[NewItem]
    request_id: str = ""
    payload_hash: bytes = b""


@dataclass(frozen=True, slots=True)
class Published:
    """The result for one item. `version` is 0 if the text was blank and nothing was published."""

    role: str
    version: int
    repeated_before: bool = False


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item, and the event of the run that it comes from."""

    item: MemoryItem
    run_id: str = ""
    seq: int = 0


PublishOutcome = tuple[list[Published], list[StoredItem]]
"""The results of a publish, one per item, and the items that are new."""
