"""What a publish means, whatever store it goes to: request ids, fences, versions. Nothing here waits or asks for the
time; what stands so far is looked up in `Rows`, what changes is put there."""

from __future__ import annotations

from typing import Final, Protocol

from archon.errors import Aborted, RequestIdReused, ResourceExhausted
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.memory_item import MemoryItem
from archon_services.memory.store.port import NewItem, Publish, Published, StoredItem

REQUESTS_KEPT: Final = 86_400.0
"""Seconds that a request id is remembered, and an event of a run that a later one of the same role has followed."""

FENCES_KEPT: Final = 31 * 86_400.0
"""Seconds that the last event of a (scope, run, role) is remembered: longer than a journal keeps its runs."""

MAX_METADATA: Final = 64
"""Entries of one item's metadata, those of the items before it included."""


class Rows(Protocol):
    """The rows of one publish's tenant and scope. `expires_at` in seconds since the Unix epoch."""

    def request(self, request_id: str) -> tuple[bytes, list[Published]] | None:
        """(hash of its payload, its answers) of a request that is remembered."""
        ...

    def version_of(self, new: NewItem) -> int | None:
        """The version that this very event of a run got."""
        ...

    def last_event(self, run_id: str, role: str) -> tuple[int, int] | None:
        """The highest (epoch, seq) that a role has published of a run."""
        ...

    def item(self, role: str) -> tuple[int, StoredItem | None] | None:
        """(its last version, what stands of it) of a role that has ever published."""
        ...

    def put_item(self, stored: StoredItem) -> None: ...

    def put_event(self, new: NewItem, version: int, expires_at: float, earlier_expire_at: float) -> None:
        """Remembers an event of a run; earlier ones of the same role need not be remembered as long any more."""
        ...

    def put_request(
        self, request_id: str, payload_hash: bytes, answers: list[Published], expires_at: float
    ) -> None: ...


def publish(rows: Rows, given: Publish, now: float) -> tuple[list[Published], list[StoredItem]]:
    """The answers, and the items that are new. Raises RequestIdReused, Aborted, ResourceExhausted; then what was put so
    far doesn't count."""
    if given.request_id:
        known = rows.request(given.request_id)
        if known is not None:
            if known[0] != given.payload_hash:
                raise RequestIdReused(
                    f"the request id {given.request_id!r} came before with another payload",
                    metadata={"request_id": given.request_id},
                )
            return known[1], []
    answers: list[Published] = []
    fresh: list[StoredItem] = []
    for new in given.items:
        answer = _published_before(rows, new)
        if answer is None:
            stored = _store(rows, new, now)
            answer = Published(new.role, stored.item.version if stored else 0)
            fresh += [stored] if stored else []
        answers.append(answer)
    if given.request_id:
        rows.put_request(given.request_id, given.payload_hash, answers, now + REQUESTS_KEPT)
    return answers, fresh


def _published_before(rows: Rows, new: NewItem) -> Published | None:
    """The answer that this event of a run got already; None where it is new. Raises Aborted where it is too late."""
    if not new.run_id:
        return None
    version = rows.version_of(new)
    if version is not None:
        return Published(new.role, version, True)
    last = rows.last_event(new.run_id, new.role)
    if last is not None and (new.epoch, new.seq) < last:
        raise Aborted(
            f"event {new.seq} of epoch {new.epoch} comes too late: {new.role} has published event {last[1]} "
            f"of epoch {last[0]} of the run",
            reason="STALE_EPOCH",
            metadata={"run_id": new.run_id, "role": new.role, "epoch": str(last[0]), "seq": str(last[1])},
        )
    return None


def _store(rows: Rows, new: NewItem, now: float) -> StoredItem | None:
    """The item as it stands now; None where its text is blank. What a publish means is the pure graph's to say."""
    before = rows.item(new.role)
    versions = {new.role: before[0]} if before else {}
    graph = SharedMemoryGraph.from_dict(
        {"nodes": [], "edges": [], "items": [], "versions": versions}, clock=lambda: now
    )
    if before and before[1] is not None:
        graph.restore(before[1].item)
    item = graph.publish(new.role, new.content, new.metadata, policy=new.policy, ttl=new.ttl)
    if item is None:
        return None
    _check_metadata(item)
    stored = StoredItem(item, new.run_id, new.seq)
    rows.put_item(stored)
    if new.run_id:
        rows.put_event(new, item.version, now + FENCES_KEPT, now + REQUESTS_KEPT)
    return stored


def _check_metadata(item: MemoryItem) -> None:
    if len(item.metadata) > MAX_METADATA:
        raise ResourceExhausted(
            f"with what it carried before, the metadata of {item.source_id} would have {len(item.metadata)} entries; "
            f"at most {MAX_METADATA}",
            metadata={"role": item.source_id, "limit": str(MAX_METADATA)},
        )
