"""Who owns runs: incarnations of orchestrator processes, and the commands that wait for the owner of a run.

An incarnation is a row with a beat counter. Nobody's clock says when it expires: an observer that reads the same beat
over a whole lease of its own buries it, and only then are its runs claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from archon_services.orchestrator.journal.rows import RunRow


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """An incarnation that lives as far as the store knows. `revision` is the newest form of events that it can fold;
    `address` (host:port) is where its callers reach it."""

    owner: str
    address: str
    revision: int
    beat: int


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command that waits for the owner of its run. `data` as `encode_inputs` gives it."""

    row_id: int
    run_id: str
    data: bytes


class Owners(Protocol):
    """The part of a journal that says whose each run is."""

    shared: bool
    """False: the store is this process's alone as long as it is open, so that every other incarnation is dead."""

    async def now(self) -> float:
        """Wall seconds by the store's own clock: the one clock that all replicas of a run have in common."""
        ...

    def listen(self, heard: Callable[[str], None]) -> None:
        """From now on `heard` is called with the owner whose run a command was posted for, as soon as it is durable. It
        may be missed: who must know has to look, too."""
        ...

    async def enter(self, one: OwnerRow) -> None:
        """A new incarnation. Where the store isn't shared, all others are buried by it."""
        ...

    async def beat(self, owner: str, address: str) -> bool:
        """One more beat, from that address. False: it was buried, and never comes back."""
        ...

    async def living(self) -> list[OwnerRow]:
        """Those that are neither buried nor gone by themselves."""
        ...

    async def expire(self, owner: str, beat: int) -> bool:
        """Locks the row and looks again: True where it is buried now, False where it has beaten since."""
        ...

    async def leave(self, owner: str) -> None:
        """It goes by itself: its runs may be claimed at once."""
        ...

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        """One more epoch for a run that is `owner`'s, or nobody's who lives; durable against a power cut whatever the
        journal's setting. None where the run has ended, isn't there, or somebody else's who lives."""
        ...

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        """As `claim`, for up to `limit` runs that are nobody's who lives and whose revision is no higher, oldest first;
        those that another replica is just claiming are left to it."""
        ...

    async def open_runs(self, owner: str = "") -> list[str]:
        """Ids of runs that haven't ended: all, or those of one owner. Oldest first."""
        ...

    async def post(self, run_id: str, data: bytes) -> None:
        """Leaves a command for whoever owns the run: durable when this returns."""
        ...

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        """The commands for runs of this owner, oldest first. They stay until an append takes them."""
        ...

    async def drop(self, row_ids: Sequence[int]) -> None:
        """Removes commands that mean nothing any more."""
        ...
