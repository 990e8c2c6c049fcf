"""Stored counts of the runs, bytes, tokens and costs of tenants and identities on a day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from archon_mesh.core.value import value


@value
class DailyUsageRow:
    """The runs, the bytes of the journal, the tokens and the millionths of a US dollar that an identity of a tenant has
    used on a day, as the incarnation `owner` has counted them; the sum of all incarnations that are gone has no owner.
    `day` is the number of days in UTC since 1970."""

    owner: str
    day: int
    tenant: str
    identity: str
    runs: int
    bytes: int
    tokens: int
    micro_usd: int


class DailyUsageStore(Protocol):
    """The part of a journal that keeps daily counts. Raises the errors of the journal."""

    async def save_daily_usage(self, owner: str, rows: Sequence[DailyUsageRow]) -> bool:
        """Stores counts of a live incarnation in place of its earlier ones. Returns False, and stores nothing, if it
        has expired: its rows may have been added to those without an owner."""
        ...

    async def daily_usage(self, day: int, besides: str) -> list[DailyUsageRow]:
        """Returns the counts of a day by all incarnations but one."""
        ...

    async def fold_daily_usage(self, before: int) -> None:
        """Adds the counts of incarnations that are gone to those without an owner, and deletes all counts of days
        before, in one transaction."""
        ...


def folded(rows: Sequence[DailyUsageRow], before: int) -> list[DailyUsageRow]:
    """Returns one row without an owner for each day, tenant and identity of these rows, without days before."""
    sums: dict[tuple[int, str, str], DailyUsageRow] = {}
    for row in rows:
        if row.day < before:
            continue
        key = (row.day, row.tenant, row.identity)
        other = sums.get(key, DailyUsageRow("", *key, 0, 0, 0, 0))
        sums[key] = DailyUsageRow(
            "",
            *key,
            row.runs + other.runs,
            row.bytes + other.bytes,
            row.tokens + other.tokens,
            row.micro_usd + other.micro_usd,
        )
    return list(sums.values())
