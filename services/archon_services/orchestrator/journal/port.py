"""What a driver needs of a journal. Every store keeps the same promises; one suite holds them to it.

An append is one transaction under the condition `epoch = mine and last_seq = what I folded`. It carries the events,
the inputs that caused them, the records that came along, and what is to be published because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from archon_services.orchestrator.journal.owners import Owners
from archon_services.orchestrator.journal.rows import Append, NewRun, OutboxRow, Outcome, RunRow
from archon_services.orchestrator.journal.session_history import Conversation


class Journal(Owners, Protocol):
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

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        """What the role remembers of the session."""
        ...

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

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100
    ) -> list[tuple[int, bytes]]:
        """(ordinal from 1, RunRecord bytes), in order."""
        ...

    async def outbox(self, owner: str, limit: int = 100) -> list[OutboxRow]:
        """What is to be published of the runs of `owner`, and of those of nobody who lives. Oldest first."""
        ...

    async def unpublished(self, scope: str) -> bool:
        """Whether something for this scope of the shared memory still waits in the outbox, whoever owns its run."""
        ...

    async def published(self, row_ids: Sequence[int]) -> None:
        """Removes outbox rows whose publication has been confirmed."""
        ...

    async def compactable(self, ended_before: float, limit: int = 100) -> list[str]: ...

    async def compact(self, run_id: str, summary: bytes) -> None:
        """Replaces an ended run's events, inputs and records by its summary."""
        ...

    async def delete(self, ended_before: float, now: float, request_ttl: float) -> int:
        """Deletes runs that ended before; their request ids stay remembered for `request_ttl` seconds from `now`.
        And turns of conversations that were stored before."""
        ...
