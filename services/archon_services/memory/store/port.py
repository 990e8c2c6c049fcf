"""The interfaces of the shared memory's stores.

A scope belongs to a tenant. Within a scope, only the last item of each role, policy and task is kept, and only items of
the role's last run. The role's version rises with each publish and is never reused, not after a clear, an expiry or a
restart either.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from archon.errors import ArchonError
from archon_services.memory.domain.items import Publish, Published, StoredItem
from archon_services.memory.domain.working import Value, Write, Written
from archon_services.memory.store.value_watches import ValueBatch


class MemoryStore(Protocol):
    """Keeps published items and the role graph. Every method raises Unavailable if the store does not answer within
    seconds, and ResourceExhausted if it is overloaded or its disk is full."""

    async def publish(self, request: Publish) -> list[Published]:
        """Publishes all items or none, durable on return. Returns one result per item, in the same order.

        Raises RequestIdReused if the request id was used with another payload, and Aborted (STALE_EPOCH) if the (epoch,
        seq) of an item is below the last of its (scope, run, role).
        """
        ...

    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        """Returns the items of a scope in the order they were published. Expired items may be among them."""
        ...

    async def clear(self, tenant: str, scope: str) -> int:
        """Deletes the items of a scope and returns their number."""
        ...

    def watch(self, tenant: str, scope: str) -> AsyncGenerator[list[StoredItem], None]:
        """Yields the current items, then the items of each publish once and in order. Raises ResourceExhausted if the
        caller is too slow."""
        ...

    def end_watches(self) -> None:
        """Ends all watches with Unavailable, for a shutdown."""
        ...

    async def load_role_graph(self) -> str:
        """Returns the role graph that was saved last, or an empty string."""
        ...

    async def save_role_graph(self, graph_json: str) -> None:
        """Saves the role graph durably."""
        ...


class WorkingStore(Protocol):
    """Keeps working memory. Every method raises Unavailable if the store does not answer within seconds, and
    ResourceExhausted if it is overloaded or its disk is full."""

    async def write(self, request: Write) -> Written:
        """Applies a write, durable on return. Raises Aborted (CONFLICT) if another version is current, and
        ResourceExhausted if the scope is full."""
        ...

    async def value(self, tenant: str, scope: str, key: str) -> Value | None:
        """Returns the current value of a key."""
        ...

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]:
        """Returns the values whose keys begin with `prefix` and follow `after`, in code point order, at most `limit`
        and about MAX_PAGE_BYTES, and whether there are more."""
        ...

    def watch(self, tenant: str, scope: str, prefix: str = "") -> AsyncGenerator[ValueBatch, None]:
        """Yields the values of a scope and then each change. A value that changes several times before the reader has
        taken it comes once. Raises ResourceExhausted if there are too many watches."""
        ...

    def end_watches(self, error: ArchonError) -> None:
        """Ends all watches with an error, for a shutdown."""
        ...
