"""Owners of runs: incarnations of orchestrator processes, and the commands that wait for the owner of a run.

An incarnation is a row with a heartbeat counter. No clock decides when it expires: an observer that reads the same
counter over a whole lease expires the row, and only then are its runs claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from archon_services.common.audit_entry import AuditRow
from archon_services.orchestrator.journal.rows import RunRow


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """A live incarnation. `revision` is the newest form of events that it can fold, `address` (host:port) where other
    replicas reach it, `beat` its heartbeat counter."""

    owner: str
    address: str
    revision: int
    beat: int


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command that waits for the owner of its run. `data` as encoded by `convert.command`."""

    row_id: int
    run_id: str
    data: bytes


class Owners(Protocol):
    """The part of a journal that knows which incarnation owns a run."""

    shared: bool
    """False if this process alone uses the store while it is open, so that every other incarnation is dead."""

    async def now(self) -> float:
        """Wall seconds by the store's clock, the one clock that all replicas share."""
        ...

    def listen(self, on_command: Callable[[str], None]) -> None:
        """Calls `on_command` with the owner of the run when a command for it becomes durable. A notification may be
        lost: owners poll as well."""
        ...

    async def enter(self, owner: OwnerRow) -> None:
        """Adds an incarnation. If the store is not shared, this expires all others."""
        ...

    async def beat(self, owner: str, address: str) -> bool:
        """Increments the heartbeat counter. Returns False if the incarnation has expired, which is final."""
        ...

    async def live_owners(self) -> list[OwnerRow]:
        """Returns the incarnations that have neither expired nor left."""
        ...

    async def expire(self, owner: str, beat: int) -> bool:
        """Expires an incarnation whose counter is still `beat`. Returns False if it has beaten since."""
        ...

    async def leave(self, owner: str) -> None:
        """Removes an incarnation that stops on purpose: its runs have no owner from then on, and may be claimed at
        once."""
        ...

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        """Gives a run to `owner` under the next epoch, if `owner` or no live incarnation owns it. The claim survives a
        power cut whatever the durability setting. The row tells whether the owner before had left. Returns None if the
        run has ended, is unknown or has another live owner."""
        ...

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        """Claims up to `limit` runs that no live incarnation owns and whose revision is at most `revision`, which is
        theirs from then on, oldest first. Skips runs that another replica is claiming at the moment."""
        ...

    async def newer_runs(self, revision: int, limit: int) -> list[str]:
        """Returns up to `limit` runs that have not ended, that no live incarnation owns, and whose revision is above
        `revision`."""
        ...

    async def open_runs(self, owner: str = "") -> list[str]:
        """Returns the ids of runs that have not ended, oldest first: all, or one owner's."""
        ...

    async def post(self, run_id: str, data: bytes, audit: AuditRow | None = None) -> int:
        """Stores a command for the owner of the run, and the entry about it; durable on return. Returns its number."""
        ...

    async def is_posted(self, row_id: int) -> bool:
        """Returns whether a command still waits: no step has executed it, and it was not dropped."""
        ...

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        """Returns the commands for runs of this owner, oldest first. A command stays until a step executes it."""
        ...

    async def drop(self, row_ids: Sequence[int]) -> None:
        """Deletes commands that have become pointless."""
        ...
