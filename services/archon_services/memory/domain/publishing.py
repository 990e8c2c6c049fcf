"""Rules of a publish, the same for every store: request ids, fencing, versions. Pure: reads and writes go through
`Rows`, and the caller passes the time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final, Protocol

from archon.errors import Aborted, RequestIdReused, ResourceExhausted
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.memory_item import MemoryItem
from archon_services.memory.domain.items import NewItem, Publish, Published, PublishOutcome, StoredItem

REQUEST_RETENTION: Final = 86_400.0
"""Seconds that a request id is kept, and an event of a run after a later event of the same role."""

FENCE_RETENTION: Final = 31 * 86_400.0
"""Seconds that the last event of a (scope, run, role) is kept: longer than a journal keeps its runs."""

MAX_METADATA: Final = 64
"""Entries of an item's metadata, including those merged from earlier items."""

MAX_VERSIONS: Final = 100
"""Versions of a role that are kept: an item goes when its role has published so many further ones, the last of them
under the same policy. It bounds the items of a role whose run has many tasks."""


class Rows(Protocol):
    """The stored rows of one tenant and scope. `expires_at` is in seconds since the Unix epoch."""

    def request(self, request_id: str) -> tuple[bytes, list[Published]] | None:
        """Returns (hash of the payload, results) of a request that is still kept."""
        ...

    def version_of(self, new: NewItem) -> int | None:
        """Returns the version that this event of a run was published with."""
        ...

    def last_event(self, run_id: str, role: str) -> tuple[int, int] | None:
        """Returns the highest (epoch, seq) of a run that a role has published."""
        ...

    def items(self, role: str, task_id: str) -> list[tuple[int, StoredItem | None]]:
        """Returns (version, item) of each row of a role; the item only of the rows of this task."""
        ...

    def put_item(self, stored: StoredItem) -> None:
        """Stores an item in place of the items of its role and policy that are of the same task, of another run, or
        older by MAX_VERSIONS."""
        ...

    def put_event(self, new: NewItem, version: int, expires_at: float, earlier_expire_at: float) -> None:
        """Stores an event of a run, and lets earlier events of the same role expire at `earlier_expire_at`."""
        ...

    def put_request(
        self, request_id: str, payload_hash: bytes, results: list[Published], expires_at: float
    ) -> None: ...


def apply_publish(rows: Rows, request: Publish, now: float) -> PublishOutcome:
    """Publishes all items of a request. Raises RequestIdReused, Aborted or ResourceExhausted; the caller then discards
    the rows put so far."""
    if request.request_id:
        previous = rows.request(request.request_id)
        if previous is not None:
            payload_hash, results = previous
            if payload_hash != request.payload_hash:
                raise RequestIdReused(
                    f"the request id {request.request_id!r} was used before with another payload",
                    metadata={"request_id": request.request_id},
                )
            return results, []
    results = []
    new_items: list[StoredItem] = []
    for new in request.items:
        result = _published_before(rows, new)
        if result is None:
            stored = _store(rows, new, now)
            result = Published(new.role, stored.item.version if stored else 0)
            new_items += [stored] if stored else []
        results.append(result)
    if request.request_id:
        rows.put_request(request.request_id, request.payload_hash, results, now + REQUEST_RETENTION)
    return results, new_items


def _published_before(rows: Rows, new: NewItem) -> Published | None:
    """Returns the result that this event of a run got before, or None if it is new. Raises Aborted if it is stale."""
    if not new.run_id:
        return None
    version = rows.version_of(new)
    if version is not None:
        return Published(new.role, version, True)
    last = rows.last_event(new.run_id, new.role)
    if last is not None and (new.epoch, new.seq) < last:
        raise Aborted(
            f"stale event {new.seq} of epoch {new.epoch}: {new.role} has published event {last[1]} "
            f"of epoch {last[0]} of the run",
            reason="STALE_EPOCH",
            metadata={"run_id": new.run_id, "role": new.role, "epoch": str(last[0]), "seq": str(last[1])},
        )
    return None


def _store(rows: Rows, new: NewItem, now: float) -> StoredItem | None:
    """Publishes an item through the pure graph, which determines version and metadata. Returns None if its text is
    blank."""
    stored_rows = rows.items(new.role, new.task_id)
    current = sorted((row[1].item for row in stored_rows if row[1] is not None), key=lambda item: item.version)
    versions = {new.role: max(version for version, _ in stored_rows)} if stored_rows else {}
    graph = SharedMemoryGraph.from_dict(
        {"nodes": [], "edges": [], "items": [asdict(item) for item in current], "versions": versions},
        clock=lambda: now,
    )
    item = graph.publish(new.role, new.content, new.metadata, policy=new.policy, ttl=new.ttl, task_id=new.task_id)
    if item is None:
        return None
    _check_metadata(item)
    stored = StoredItem(item, new.run_id, new.seq)
    rows.put_item(stored)
    if new.run_id:
        rows.put_event(new, item.version, now + FENCE_RETENTION, now + REQUEST_RETENTION)
    return stored


def _check_metadata(item: MemoryItem) -> None:
    if len(item.metadata) > MAX_METADATA:
        raise ResourceExhausted(
            f"too much metadata: merged with its earlier item's, {item.source_id} would have "
            f"{len(item.metadata)} entries, at most {MAX_METADATA}",
            metadata={"role": item.source_id, "limit": str(MAX_METADATA)},
        )
