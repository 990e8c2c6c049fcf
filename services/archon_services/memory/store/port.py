"""What a store of the shared memory can do, and the plain values it takes and gives.

A scope belongs to a tenant. Within one, only the last item of each role is kept; its version rises with each publish
and never comes back, not after a clear, an expiry or a restart either.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy


@dataclass(frozen=True, slots=True)
class NewItem:
    """One answer to publish. `ttl` is in seconds, None for ever. Where it comes from a run, (epoch, seq) of the event
    is the fence against a late writer; without a run all three are empty."""

    role: str
    content: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    ttl: float | None = None
    run_id: str = ""
    epoch: int = 0
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Publish:
    """Answers to publish together. `request_id` is unique per tenant; empty: not remembered."""

    tenant: str
    scope: str
    items: Sequence[NewItem]
    request_id: str = ""
    payload_hash: bytes = b""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of one. `version` is 0 where the text was blank and nothing was published."""

    role: str
    version: int
    repeated_before: bool = False


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item, and the event of a run that it comes from."""

    item: MemoryItem
    run_id: str = ""
    seq: int = 0


class MemoryStore(Protocol):
    """Every method raises Unavailable where the store doesn't answer within seconds, and ResourceExhausted where it has
    no room: too much waits, the disk is full."""

    async def publish(self, publish: Publish) -> list[Published]:
        """Publishes all items or none, durable on return; one answer per item, in the same order.

        Raises RequestIdReused where the request id came with another payload; Aborted / STALE_EPOCH where the
        (epoch, seq) of an item lies below the last of its (scope, run, role).
        """
        ...

    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        """What stands in a scope, in the order it was published. An item whose time is over may be among them."""
        ...

    async def clear(self, tenant: str, scope: str) -> int:
        """Forgets the items of a scope; how many there were."""
        ...

    def watch(self, tenant: str, scope: str) -> AsyncGenerator[list[StoredItem], None]:
        """What stands, then each publish once and in order. Raises ResourceExhausted where the caller is too slow."""
        ...

    def end_watches(self) -> None:
        """Sends all watchers away, for a shutdown."""
        ...

    async def structure(self) -> str:
        """The structure as it was saved last; empty where none was."""
        ...

    async def save_structure(self, structure: str) -> None:
        """Keeps the structure over restarts."""
        ...
