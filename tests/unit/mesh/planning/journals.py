"""Journals of plans in memory, as a crash at any moment leaves them."""

from __future__ import annotations

from collections.abc import Sequence

from archon.errors import ResourceExhausted
from archon_mesh.planning import JournalInUse


class MemoryJournal:
    """Keeps records in memory. `appends` has those of each append; from the append number `full_at` on it has no room."""

    def __init__(self, appends: Sequence[Sequence[bytes]] = (), *, full_at: int | None = None) -> None:
        self.appends = [list(each) for each in appends]
        self.full_at = full_at
        self.is_open = False

    def open(self) -> Sequence[bytes]:
        if self.is_open:
            raise JournalInUse("the journal is in use")
        self.is_open = True
        return [record for each in self.appends for record in each]

    def append(self, records: Sequence[bytes]) -> None:
        assert self.is_open
        if self.full_at is not None and len(self.appends) >= self.full_at:
            raise ResourceExhausted("the journal is full")
        self.appends.append(list(records))

    def close(self) -> None:
        self.is_open = False

    def after(self, count: int) -> MemoryJournal:
        """Returns the journal that a crash after so many appends leaves."""
        return MemoryJournal(self.appends[:count])
