"""Daily counts of the journal in memory."""

from __future__ import annotations

from collections.abc import Sequence

from archon_services.orchestrator.journal.daily_usage import DailyUsageRow, folded
from archon_services.orchestrator.journal.memory.owners import MemoryOwners


class MemoryDailyUsage(MemoryOwners):
    """The DailyUsageStore part of MemoryJournal."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._daily_usage: dict[tuple[str, int, str, str], DailyUsageRow] = {}

    async def save_daily_usage(self, owner: str, rows: Sequence[DailyUsageRow]) -> bool:
        if owner not in self._living:
            return False
        self._daily_usage |= {(owner, row.day, row.tenant, row.identity): row for row in rows}
        return True

    async def daily_usage(self, day: int, besides: str) -> list[DailyUsageRow]:
        return [row for row in self._daily_usage.values() if row.day == day and row.owner != besides]

    async def fold_daily_usage(self, before: int) -> None:
        rows = list(self._daily_usage.values())
        kept = [row for row in rows if row.owner in self._living and row.day >= before]
        kept += folded([row for row in rows if row.owner not in self._living], before)
        self._daily_usage = {(row.owner, row.day, row.tenant, row.identity): row for row in kept}
