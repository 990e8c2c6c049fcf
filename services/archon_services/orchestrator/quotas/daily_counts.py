"""The counts of each tenant and identity on a day: by this process, and by other replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from archon_services.common.quotas import DAY
from archon_services.orchestrator.journal import DailyUsageRow

_K = TypeVar("_K")

KEPT_DAYS: Final = 8
"""Days whose counts are kept: after a clock was set back, the counts of the earlier day go on."""

MAX_IDENTITIES: Final = 10_000
"""Identities of all tenants that are counted each by itself on a day; further ones count for their tenants alone."""

MAX_COUNT: Final = 10**15
"""The largest count. Larger ones would not fit into the columns of a database, whatever an agent reports."""

OTHERS: Final = ""
"""The identity of those that are not counted each by itself."""


class Subject(NamedTuple):
    """An identity of a tenant."""

    tenant: str
    identity: str


@dataclass(slots=True)
class Counts:
    """Runs, bytes of the journal, tokens, and millionths of a US dollar."""

    runs: int = 0
    bytes: int = 0
    tokens: int = 0
    micro_usd: int = 0

    def add(self, other: Counts, sign: int = 1) -> None:
        """Adds other counts, or subtracts them with `sign` -1. None is below 0 or above MAX_COUNT after that."""
        self.runs = _bounded(self.runs + sign * other.runs)
        self.bytes = _bounded(self.bytes + sign * other.bytes)
        self.tokens = _bounded(self.tokens + sign * other.tokens)
        self.micro_usd = _bounded(self.micro_usd + sign * other.micro_usd)


_NONE: Final = Counts()


class DailyCounts:
    """`now` returns wall seconds by the journal's clock. No method waits: the upkeep stores the counts, and reads the
    counts of other replicas."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._own: dict[int, dict[Subject, Counts]] = {}
        self._others: dict[int, dict[Subject, Counts]] = {}
        self._totals: dict[int, dict[str, Counts]] = {}
        """The counts of tenants by day, of this process and of others."""

        self._saved: dict[tuple[int, Subject], Counts] = {}
        """Own counts as they are stored, of this incarnation."""

        self._unsaved: set[tuple[int, Subject]] = set()

    @property
    def today(self) -> int:
        """The number of days in UTC since 1970."""
        return int(self._now() // DAY)

    @property
    def remaining(self) -> float:
        """Seconds until the next day."""
        return DAY - self._now() % DAY

    def add(self, tenant: str, identity: str, counts: Counts) -> None:
        """Adds to the counts of an identity for today (UTC); beyond MAX_IDENTITIES they are counted together."""
        day = self.today
        own = self._of_day(self._own, day)
        subject = Subject(tenant, identity)
        if subject not in own and len(own) >= MAX_IDENTITIES:
            subject = Subject(tenant, OTHERS)
        held = own.get(subject)
        if held is None:
            held = own[subject] = Counts()
        held.add(counts)
        _total(self._of_day(self._totals, day), tenant).add(counts)
        self._unsaved.add((day, subject))

    def of_tenant(self, tenant: str) -> Counts:
        """Returns the counts of a tenant today, which must not be changed."""
        return self._totals.get(self.today, {}).get(tenant, _NONE)

    def of_identity(self, tenant: str, identity: str) -> Counts:
        """Returns the counts of an identity today."""
        day, subject = self.today, Subject(tenant, identity)
        own, others = self._own.get(day, {}).get(subject), self._others.get(day, {}).get(subject)
        if own is None or others is None:
            return own or others or _NONE
        both = replace(own)
        both.add(others)
        return both

    def tenants(self) -> list[str]:
        """Returns the tenants with counts today. Any thread may call it."""
        return list(self._totals.get(self.today, {}))

    def identities(self, tenant: str) -> list[str]:
        """Returns the identities of a tenant with counts of their own today."""
        day = self.today
        known = self._own.get(day, {}).keys() | self._others.get(day, {}).keys()
        return [subject.identity for subject in known if subject.tenant == tenant and subject.identity != OTHERS]

    # For the upkeep ---------------------------------------------------------------------------------------------

    def take_unsaved(self, owner: str) -> list[DailyUsageRow]:
        """Returns the own counts that have changed since they were last taken, as rows of an incarnation."""
        unsaved, self._unsaved = self._unsaved, set()
        rows = []
        for day, subject in sorted(unsaved):
            held = self._own.get(day, {}).get(subject)
            if held is not None:
                rows.append(DailyUsageRow(owner, day, *subject, held.runs, held.bytes, held.tokens, held.micro_usd))
        return rows

    def not_saved(self, rows: Iterable[DailyUsageRow]) -> None:
        """Has the next call of `take_unsaved` return these too."""
        self._unsaved.update((row.day, Subject(row.tenant, row.identity)) for row in rows)

    def saved(self, rows: Iterable[DailyUsageRow]) -> None:
        """Notes the rows that are durable now."""
        self._saved |= {(row.day, Subject(row.tenant, row.identity)): _counts(row) for row in rows}

    def begin_incarnation(self) -> None:
        """Leaves the counts that are stored to others, who add them up, since the incarnation has expired; goes on with
        those that are not stored."""
        for (day, subject), stored in self._saved.items():
            held = self._own.get(day, {}).get(subject)
            if held is not None:
                held.add(stored, -1)
                _total(self._of_day(self._totals, day), subject.tenant).add(stored, -1)
        self._saved.clear()
        self._unsaved = {(day, subject) for day, own in self._own.items() for subject in own}

    def replace_others(self, day: int, rows: Iterable[DailyUsageRow]) -> None:
        """Replaces the counts of other replicas, and of earlier processes, on a day."""
        others: dict[Subject, Counts] = {}
        totals: dict[str, Counts] = {}
        for row in rows:
            subject, counts = Subject(row.tenant, row.identity), _counts(row)
            others.setdefault(subject, Counts()).add(counts)
            _total(totals, row.tenant).add(counts)
        for subject, counts in self._own.get(day, {}).items():
            _total(totals, subject.tenant).add(counts)
        self._of_day(self._others, day)
        self._of_day(self._totals, day)
        self._others[day], self._totals[day] = others, totals

    def _of_day(self, days: dict[int, dict[_K, Counts]], day: int) -> dict[_K, Counts]:
        """Returns the counts of a day, and forgets the day that was the first of too many."""
        found = days.get(day)
        if found is None:
            if len(days) >= KEPT_DAYS:
                forgotten = next(iter(days))
                del days[forgotten]
                if days is self._own:
                    self._saved = {key: counts for key, counts in self._saved.items() if key[0] != forgotten}
            found = days[day] = {}
        return found


def _total(totals: dict[str, Counts], tenant: str) -> Counts:
    held = totals.get(tenant)
    if held is None:
        held = totals[tenant] = Counts()
    return held


def _counts(row: DailyUsageRow) -> Counts:
    return Counts(row.runs, row.bytes, row.tokens, row.micro_usd)


def _bounded(count: int) -> int:
    return min(MAX_COUNT, max(0, count))
