"""The journal in memory: for a mesh that needs to survive nothing, and for simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from archon.errors import RequestIdReused
from archon_services.orchestrator.journal.memory.owners import MemoryOwners
from archon_services.orchestrator.journal.rows import Append, NewRun, OutboxRow, Outcome, RunRow
from archon_services.orchestrator.journal.session_history import (
    HISTORY_BYTES,
    HISTORY_TURNS,
    Conversation,
    Turn,
    conversation_of,
)


class MemoryJournal(MemoryOwners):
    """Keeps every promise of the port but to outlive the process."""

    durability = "none"

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._events: dict[str, list[bytes]] = {}
        self._inputs: dict[str, list[tuple[int, bytes]]] = {}
        self._records: dict[str, list[tuple[str, bytes]]] = {}
        self._requests: dict[tuple[str, str], tuple[bytes, str, float]] = {}
        self._outbox: dict[int, OutboxRow] = {}
        self._next_row = 1
        self._batches: dict[str, str] = {}
        self._turns: dict[tuple[str, str, str], list[tuple[int, bytes, float]]] = {}

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def create(self, new: NewRun, first: Append) -> tuple[str, bool]:
        """See the port."""
        if new.request_id:
            known = self._requests.get((new.tenant, new.request_id))
            if known is not None:
                return same_request(known[0], new, known[1])
            self._requests[new.tenant, new.request_id] = (new.payload_hash, new.run_id, 0.0)
        self._rows[new.run_id] = RunRow(
            new.run_id,
            new.tenant,
            new.session_id,
            new.owner,
            first.epoch,
            0,
            0,
            first.time,
            0.0,
            revision=new.revision,
        )
        self._events[new.run_id], self._inputs[new.run_id], self._records[new.run_id] = [], [], []
        self._store(first)
        return new.run_id, True

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        """See the port."""
        known = self._requests.get((tenant, request_id))
        return known[:2] if known is not None else None

    async def append(self, append: Append) -> Outcome:
        """See the port."""
        row = self._rows.get(append.run_id)
        if row is None or row.epoch != append.epoch:
            return Outcome.DEPOSED
        if row.last_seq != append.last_seq:
            return Outcome.DONE if self._batches.get(append.run_id) == append.batch_id else Outcome.STALE
        if any(self._version(one) >= one.version for one in append.turns):
            return Outcome.CONFLICT
        self._store(append)
        return Outcome.DONE

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        """See the port."""
        size, newest = 0, []
        for version, data, _ in reversed(self._turns.get((tenant, session_id, role), [])[-HISTORY_TURNS:]):
            size += len(data)
            if size > HISTORY_BYTES:
                break
            newest.append((version, data))
        return conversation_of(newest[::-1])

    def _version(self, turn: Turn) -> int:
        stored = self._turns.get((turn.tenant, turn.session_id, turn.role))
        return stored[-1][0] if stored else 0

    def _store(self, append: Append) -> None:
        row = self._rows[append.run_id]
        self._rows[append.run_id] = RunRow(
            row.run_id,
            row.tenant,
            row.session_id,
            row.owner,
            row.epoch,
            append.last_seq + len(append.events),
            append.state,
            row.created_at,
            append.time if append.ended else 0.0,
            row.compacted,
            row.summary,
            row.revision,
            row.stalled,
        )
        for row_id in append.taken:
            self._commands.pop(row_id, None)
        self._batches[append.run_id] = append.batch_id
        for one in append.turns:
            stored = self._turns.setdefault((one.tenant, one.session_id, one.role), [])
            stored.append((one.version, one.data, append.time))
        self._events[append.run_id] += append.events
        self._inputs[append.run_id].append((append.last_seq, append.inputs))
        self._records[append.run_id] += [(record.role, record.data) for record in append.records]
        for publication in append.publications:
            self._outbox[self._next_row] = OutboxRow(self._next_row, append.run_id, append.epoch, publication)
            self._next_row += 1

    async def events(self, run_id: str, after_seq: int, limit: int = 500) -> list[bytes]:
        """See the port."""
        return self._events.get(run_id, [])[after_seq : after_seq + limit]

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        """See the port."""
        return list(self._inputs.get(run_id, []))

    async def run(self, run_id: str) -> RunRow | None:
        """See the port."""
        return self._rows.get(run_id)

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[RunRow]:
        """See the port."""
        rows = [
            row
            for row in self._rows.values()
            if row.tenant == tenant
            and (not session_id or row.session_id == session_id)
            and (not states or row.state in states)
            and (before is None or (row.created_at, row.run_id) < before)
        ]
        return sorted(rows, key=lambda row: (row.created_at, row.run_id), reverse=True)[:limit]

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100
    ) -> list[tuple[int, bytes]]:
        """See the port."""
        numbered = enumerate(self._records.get(run_id, []), 1)
        return [(n, data) for n, (whose, data) in numbered if n > after and (not role or whose == role)][:limit]

    async def outbox(self, owner: str, limit: int = 100) -> list[OutboxRow]:
        """See the port."""
        others = self._living.keys() - {owner}
        return [row for row in self._outbox.values() if self._owner_of(row.run_id) not in others][:limit]

    async def unpublished(self, scope: str) -> bool:
        """See the port."""
        return any(row.publication.scope == scope for row in self._outbox.values())

    async def published(self, row_ids: Sequence[int]) -> None:
        """See the port."""
        for row_id in row_ids:
            self._outbox.pop(row_id, None)

    async def compactable(self, ended_before: float, limit: int = 100) -> list[str]:
        """See the port."""
        return [row.run_id for row in self._rows.values() if 0 < row.ended_at < ended_before and not row.compacted][
            :limit
        ]

    async def compact(self, run_id: str, summary: bytes) -> None:
        """See the port."""
        self._rows[run_id] = replace(self._rows[run_id], compacted=True, summary=summary)
        self._events[run_id], self._inputs[run_id], self._records[run_id] = [], [], []

    async def delete(self, ended_before: float, now: float, request_ttl: float) -> int:
        """See the port."""
        gone = [row.run_id for row in self._rows.values() if 0 < row.ended_at < ended_before]
        for run_id in gone:
            for store in (self._rows, self._events, self._inputs, self._records, self._batches, self._claimed_at):
                store.pop(run_id, None)
        for whose, stored in list(self._turns.items()):
            self._turns[whose] = [turn for turn in stored if turn[2] >= ended_before]
            if not self._turns[whose]:
                del self._turns[whose]
        for key, (payload_hash, run_id, expires) in list(self._requests.items()):
            if run_id in gone:
                self._requests[key] = (payload_hash, run_id, now + request_ttl)
            elif 0 < expires < now:
                del self._requests[key]
        return len(gone)


def same_request(payload_hash: bytes, new: NewRun, run_id: str) -> tuple[str, bool]:
    """The run that the same request made before. Raises RequestIdReused where the payload is another."""
    if payload_hash != new.payload_hash:
        raise RequestIdReused(
            f"request id {new.request_id!r} came before with another payload",
            metadata={"request_id": new.request_id, "run_id": run_id},
        )
    return run_id, False
