"""The journal's port. Every store keeps the same promises; one conformance suite tests them all.

A step is one transaction under the condition that the run has the caller's epoch and that its last step ends at `base`.
It holds the events, the inputs that caused them, the recorded calls, and the publications that follow from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from archon_services.orchestrator.journal.chains import ChainStore
from archon_services.orchestrator.journal.daily_usage import DailyUsageStore
from archon_services.orchestrator.journal.learning import LearningStore
from archon_services.orchestrator.journal.owners import Owners
from archon_services.orchestrator.journal.page import PAGE_BYTES
from archon_services.orchestrator.journal.retained import RetentionStore
from archon_services.orchestrator.journal.rows import EndedRun, OutboxRow, RunRow, Step, StepResult, StoredStep
from archon_services.orchestrator.journal.session_history import Conversation
from archon_services.orchestrator.journal.track_records import TrackRecordStore
from archon_services.orchestrator.journal.triggers import TriggerStore


class Journal(
    Owners, TrackRecordStore, DailyUsageStore, LearningStore, TriggerStore, RetentionStore, ChainStore, Protocol
):
    """Methods raise ResourceExhausted if the disk is full (nothing was stored) and Unavailable if the store cannot be
    reached. Those that read one run raise DataLoss, with its `run_id` in the metadata, if its stored data is damaged;
    those that read many runs read the others all the same."""

    durability: str
    """The failure that an acknowledged step survives: `full` a power cut, `normal` the death of the process, `none`
    nothing."""

    inline: bool
    """Whether `commit` usually stores at once."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def commit(self, steps: Sequence[Step]) -> list[StepResult] | asyncio.Future[list[StepResult]]:
        """Stores a group of steps, at most one for each run, in one transaction, and returns the result of each, in
        order: at once, or as a future if the caller must wait. Never raises: if the group fails, each step is tried by
        itself, and its error is its result. Creating a run gives RequestIdReused if its request id came before with
        another payload, AlreadyExists if its run id is taken."""
        ...

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        """Returns (payload hash, run_id) of a remembered request."""
        ...

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        """Returns the newest turns of a stateful role's conversation. Raises DataLoss if one of them is damaged."""
        ...

    async def steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[StoredStep]:
        """Returns the steps that end after event `after_seq`, in order, up to the one that reaches `max_bytes`. The
        first may begin before it. Raises DataLoss if one of them was damaged or is missing."""
        ...

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        """Returns (base, inputs) of every step, in order. Raises DataLoss as `steps` does."""
        ...

    async def size(self, run_id: str) -> int:
        """Returns the bytes of a run's steps and records, 0 if there is no such run."""
        ...

    async def run(self, run_id: str) -> RunRow | None: ...

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        since: float = 0.0,
        limit: int = 100,
    ) -> list[RunRow]:
        """Returns runs, newest first: in the order of their creation, even if the clock was set back in between.
        `before` is the (created_at, run_id) of the last run of the previous page; `since` the least created_at."""
        ...

    async def openings(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        """Returns the data of the first step of each run that has one, cut after OPENING_BYTES. It is not checked for
        damage; a run whose step cannot be read is left out."""
        ...

    async def last_run_id(self) -> str:
        """Returns the greatest run id, empty if there is no run."""
        ...

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100, max_bytes: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        """Returns (ordinal from 1, RunRecord bytes), in order, up to the one that reaches `max_bytes`."""
        ...

    async def outbox(
        self, owner: str, limit: int = 100, *, scope: str = "", without: Collection[str] = ()
    ) -> list[OutboxRow]:
        """Returns publications of runs that `owner` or no live incarnation owns, oldest first; those whose result is
        damaged are marked. `scope` selects one scope, `without` leaves out some scopes."""
        ...

    async def unpublished(self, scope: str) -> bool:
        """Returns whether the outbox holds a publication for this scope, whichever replica owns its run."""
        ...

    async def published(self, row_ids: Sequence[int]) -> None:
        """Deletes outbox rows whose publication is confirmed."""
        ...

    async def last_ended(self, limit: int) -> list[EndedRun]:
        """Returns the runs that ended last, the newest first."""
        ...

    async def compactable(self, ended_before: float, limit: int = 100, *, revision: int = 1) -> list[str]:
        """Returns runs that ended before (wall seconds), are not compacted and have nothing in the outbox. Leaves out
        those whose revision is above `revision`."""
        ...

    async def compact(self, run_id: str, summary: bytes) -> None:
        """Replaces the steps and records of an ended run by its summary."""
        ...

    async def bound_times(self, latest: float) -> None:
        """Sets the times at which runs ended and turns were stored to `latest` (wall seconds) if they are later: the
        clock was set back since, and they are kept no longer than others."""
        ...

    async def delete(
        self, ended_before: float, now: float, request_ttl: float, *, turns_before: float | None = None
    ) -> int:
        """Deletes runs that ended before; their request ids are remembered for `request_ttl` seconds from `now`.
        Deletes turns of conversations that were stored before `turns_before`, None for `ended_before`."""
        ...
