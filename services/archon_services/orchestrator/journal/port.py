"""What a driver needs of a journal. Every store keeps the same promises; one suite holds them to it.

An append is one transaction under the condition `epoch = mine and last_seq = what I folded`. It carries the events,
the inputs that caused them, the records that came along, and what is to be published because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Publication:
    """An answer on its way to the shared memory: an outbox row, idempotent by (scope, run, role, epoch, seq)."""

    scope: str
    role: str
    task_id: str
    seq: int
    content: str


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One recorded call, as a RunRecord's bytes."""

    role: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """One step of one run. `events` are RunEvents' bytes, of the seqs after `last_seq`; `state` the run's state
    after them (a TaskState's number); `time` wall seconds."""

    run_id: str
    epoch: int
    last_seq: int
    batch_id: str
    time: float
    events: tuple[bytes, ...]
    inputs: bytes
    state: int
    ended: bool
    records: tuple[RecordRow, ...] = ()
    publications: tuple[Publication, ...] = ()


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is asked for. `request_id` is unique per tenant; empty: not remembered."""

    run_id: str
    tenant: str
    request_id: str
    payload_hash: bytes
    session_id: str
    owner: str


class Outcome(Enum):
    """What became of an append."""

    DONE = "done"
    STALE = "stale"  # my epoch, another last_seq: fold again
    DEPOSED = "deposed"  # another epoch: the run is somebody else's


@dataclass(frozen=True, slots=True)
class RunRow:
    """The row of a run. Times in wall seconds; `ended_at` 0 before the end. `compacted`: its events are gone."""

    run_id: str
    tenant: str
    session_id: str
    owner: str
    epoch: int
    last_seq: int
    state: int
    created_at: float
    ended_at: float
    compacted: bool = False
    summary: bytes = b""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A publication that hasn't been confirmed."""

    row_id: int
    run_id: str
    epoch: int
    publication: Publication


class Journal(Protocol):
    """Raises ResourceExhausted when the disk is full (nothing was stored, try later) and Unavailable when the store
    can't be reached."""

    durability: str
    """`full`, `normal` or `none`: what an acknowledged append survives."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def create(self, new: NewRun, first: Append) -> tuple[str, bool]:
        """Stores a run with its first events. (run_id, True), or (the run of the same request id, False).
        Raises RequestIdReused where the request id came with another payload."""
        ...

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        """(hash of its payload, run_id) of a request that is remembered."""
        ...

    async def append(self, append: Append) -> Outcome: ...

    async def events(self, run_id: str, after_seq: int, limit: int = 500) -> list[bytes]: ...

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        """(last_seq before them, inputs) of every append, in order."""
        ...

    async def run(self, run_id: str) -> RunRow | None: ...

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[RunRow]:
        """Newest first; `before` is the (created_at, run_id) of the last one seen."""
        ...

    async def open_runs(self) -> list[str]:
        """Ids of runs that haven't ended."""
        ...

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        """One more epoch, owned by `owner`, durable against a power cut whatever the journal's setting; None where the
        run has ended or isn't there."""
        ...

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100
    ) -> list[tuple[int, bytes]]:
        """(ordinal from 1, RunRecord bytes), in order."""
        ...

    async def outbox(self, limit: int = 100) -> list[OutboxRow]: ...

    async def published(self, row_ids: Sequence[int]) -> None:
        """Removes outbox rows whose publication has been confirmed."""
        ...

    async def compactable(self, ended_before: float, limit: int = 100) -> list[str]: ...

    async def compact(self, run_id: str, summary: bytes) -> None:
        """Replaces an ended run's events, inputs and records by its summary."""
        ...

    async def delete(self, ended_before: float, now: float, request_ttl: float) -> int:
        """Deletes runs that ended before; their request ids stay remembered for `request_ttl` seconds from `now`."""
        ...
