"""The use of quotas: counts the runs, streams and daily amounts of tenants and identities, and refuses runs and streams
above a limit. Exists only if there is a file of quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.context import ANONYMOUS
from archon.errors import QuotaExceeded
from archon.principal import DEFAULT_TENANT
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Submission
from archon_services.common.quotas import EVERY_OTHER, Quota, Quotas
from archon_services.orchestrator.journal import Step
from archon_services.orchestrator.quotas.daily_counts import Counts, DailyCounts
from archon_services.orchestrator.quotas.spending import spent_by

RETRY_DELAY: Final = 1.0
"""Seconds after which a caller may try again that was refused by the number of runs or streams."""

PAUSED_AGE: Final = 0.2
"""Seconds until the paused runs are counted again."""


_WORDS: Final = {
    "runs": ("", "runs under way"),
    "streams": ("", "streams open"),
    "runs_per_day": ("begun ", "runs of the day"),
    "bytes_per_day": ("used ", "bytes of the journal of the day"),
    "tokens_per_day": ("used ", "tokens of the day"),
    "usd_per_day": ("used ", "US dollars of the day"),
}
"""The words before and after the numbers of a quota."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A tenant, or an identity in it; `identity` is empty for the tenant as a whole."""

    tenant: str
    identity: str = ""

    @property
    def text(self) -> str:
        """The holder, for messages."""
        return f"the identity {self.identity}" if self.identity else f"the tenant {self.tenant}"


@dataclass(slots=True)
class _Run:
    holders: tuple[Holder, Holder]
    is_new: bool
    """Whether its first step is not durable yet."""


@dataclass(slots=True)
class _Held:
    """The present numbers of one holder."""

    runs: int = 0
    new: int = 0
    streams: int = 0


@dataclass(frozen=True, slots=True)
class QuotaNumber:
    """The use of one quota; `limit` is None if there is none. Costs are in US dollars."""

    quota: str
    used: float
    limit: float | None


@dataclass(slots=True)
class _Paused:
    at: float
    runs: Counter[Holder] = field(default_factory=Counter)


class QuotaUsage:
    """`now` returns wall seconds by the journal's clock, `monotonic` seconds that never go back, `paused` the runs of
    this process whose clock is stopped: they do not count as under way."""

    def __init__(
        self,
        quotas: Quotas,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        paused: Callable[[], Iterable[str]] = lambda: (),
    ) -> None:
        self.quotas = quotas
        self.daily = DailyCounts(now)
        self.paused = paused
        self._monotonic = monotonic
        self._runs: dict[str, _Run] = {}
        self._held: dict[Holder, _Held] = {}
        self._paused = _Paused(-PAUSED_AGE)

    def weight(self, tenant: str) -> float:
        """Returns the weight of a tenant in the scheduler."""
        return self.quotas.of_tenant(tenant).weight

    # Runs -------------------------------------------------------------------------------------------------------

    def begin_run(self, submission: Submission) -> None:
        """Counts a new run as under way until `end_run`. Raises QuotaExceeded, and counts nothing, if its tenant or its
        identity may have no further run."""
        holders = _holders(submission)
        for holder in holders:
            self._check_run(holder, self._quota(holder))
        self._add_run(submission.run_id, _Run(holders, is_new=True))

    def take_run(self, submission: Submission) -> None:
        """Counts a run that was taken over as under way, whatever the quotas are."""
        self.end_run(submission.run_id)
        self._add_run(submission.run_id, _Run(_holders(submission), is_new=False))

    def end_run(self, run_id: str) -> None:
        """The run is not driven here any more. Idempotent."""
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        for holder in run.holders:
            held = self._held[holder]
            held.runs -= 1
            held.new -= run.is_new
            self._tidy(holder, held)

    def stored(self, step: Step, events: Sequence[ev.Event], run: RunState) -> None:
        """Adds a durable step of a run to the counts of the day; `run` is the state after its events."""
        if run.submission is None:
            return
        spent = spent_by(events)
        created, (_, holder) = step.new is not None, _holders(run.submission)
        self.daily.add(holder.tenant, holder.identity, Counts(int(created), step.size, spent.tokens, spent.cost))
        held = self._runs.get(step.run_id) if created else None
        if held is not None and held.is_new:
            held.is_new = False
            for holder in held.holders:
                self._held[holder].new -= 1

    def _add_run(self, run_id: str, run: _Run) -> None:
        self._runs[run_id] = run
        for holder in run.holders:
            held = self._held.setdefault(holder, _Held())
            held.runs += 1
            held.new += run.is_new

    def _check_run(self, holder: Holder, quota: Quota) -> None:
        held = self._held.get(holder)
        if quota.runs is not None and held is not None and held.runs >= quota.runs:
            under_way = held.runs - self._paused_of(holder)
            if under_way >= quota.runs:
                raise _exceeded(holder, "runs", under_way, quota.runs, RETRY_DELAY)
        elif quota.runs == 0:
            raise _exceeded(holder, "runs", 0, 0, RETRY_DELAY)
        for number in self._daily(holder, quota):
            if number.limit is not None and number.used >= number.limit:
                raise _exceeded(holder, number.quota, number.used, number.limit, max(1.0, self.daily.remaining))

    def _paused_of(self, holder: Holder) -> int:
        """The paused runs of a holder, as of a moment ago: they are counted for all at once."""
        now = self._monotonic()
        if now - self._paused.at >= PAUSED_AGE:
            self._paused = _Paused(now)
            for run_id in self.paused():
                if (run := self._runs.get(run_id)) is not None:
                    self._paused.runs.update(run.holders)
        return self._paused.runs[holder]

    # Streams ----------------------------------------------------------------------------------------------------

    @contextmanager
    def stream(self, tenant: str, identity: str) -> Iterator[None]:
        """Counts a stream as open for the duration of the block. Raises QuotaExceeded if the tenant or the identity may
        have no further one."""
        holders = Holder(tenant), Holder(tenant, identity)
        for holder in holders:
            held, limit = self._held.get(holder), self._quota(holder).streams
            streams = held.streams if held is not None else 0
            if limit is not None and streams >= limit:
                raise _exceeded(holder, "streams", streams, limit, RETRY_DELAY)
        for holder in holders:
            self._held.setdefault(holder, _Held()).streams += 1
        try:
            yield
        finally:
            for holder in holders:
                held = self._held[holder]
                held.streams -= 1
                self._tidy(holder, held)

    def _tidy(self, holder: Holder, held: _Held) -> None:
        if not (held.runs or held.streams):
            del self._held[holder]

    # Reports ----------------------------------------------------------------------------------------------------

    def numbers(self, holder: Holder) -> list[QuotaNumber]:
        """Returns the use of each quota but `instances`."""
        self._paused_of(holder)
        return self._numbers(holder)

    def _numbers(self, holder: Holder) -> list[QuotaNumber]:
        quota, held, paused = self._quota(holder), self._held.get(holder, _Held()), self._paused.runs[holder]
        return [
            QuotaNumber("runs", max(0, held.runs - paused), quota.runs),
            QuotaNumber("streams", held.streams, quota.streams),
            *self._daily(holder, quota),
        ]

    def identities(self, tenant: str) -> set[str]:
        """Returns the identities of a tenant with runs or streams now, or counts of their own today."""
        present = {holder.identity for holder in self._held if holder.tenant == tenant and holder.identity}
        return present.union(self.daily.identities(tenant))

    def shares(self) -> list[tuple[str, str, float]]:
        """Returns (tenant, quota, part of the limit that is used) for each limit of a tenant. Any thread may call
        it."""
        present = [holder.tenant for holder in list(self._held)]
        tenants = dict.fromkeys([*self.quotas.tenants, *self.daily.tenants(), *present])
        tenants.pop(EVERY_OTHER, None)
        return [
            (tenant, number.quota, number.used / number.limit if number.limit else 1.0)
            for tenant in tenants
            for number in self._numbers(Holder(tenant))
            if number.limit is not None
        ]

    def _quota(self, holder: Holder) -> Quota:
        return self.quotas.of_identity(holder.identity) if holder.identity else self.quotas.of_tenant(holder.tenant)

    def _daily(self, holder: Holder, quota: Quota) -> list[QuotaNumber]:
        tenant, identity = holder.tenant, holder.identity
        counts = self.daily.of_identity(tenant, identity) if identity else self.daily.of_tenant(tenant)
        held = self._held.get(holder)
        usd = None if quota.micro_usd_per_day is None else quota.micro_usd_per_day / 1e6
        return [
            QuotaNumber("runs_per_day", counts.runs + (held.new if held is not None else 0), quota.runs_per_day),
            QuotaNumber("bytes_per_day", counts.bytes, quota.bytes_per_day),
            QuotaNumber("tokens_per_day", counts.tokens, quota.tokens_per_day),
            QuotaNumber("usd_per_day", counts.micro_usd / 1e6, usd),
        ]


def identity_of(submission: Submission) -> str:
    """Returns the identity on whose behalf a run was submitted."""
    goal = submission.goal
    return (goal.identity if isinstance(goal, run_pb2.Submitted) else "") or ANONYMOUS


def _holders(submission: Submission) -> tuple[Holder, Holder]:
    tenant = submission.tenant or DEFAULT_TENANT
    return Holder(tenant), Holder(tenant, identity_of(submission))


def _exceeded(holder: Holder, quota: str, used: float, limit: float, retry_delay: float) -> QuotaExceeded:
    before, after = _WORDS[quota]
    metadata = {"quota": quota, "limit": f"{limit:.15g}", "used": f"{used:.15g}", "tenant": holder.tenant}
    if holder.identity:
        metadata["identity"] = holder.identity
    return QuotaExceeded(
        f"{holder.text} has {before}{used:,.15g} of {limit:,.15g} {after} (quota {quota})",
        metadata=metadata,
        retry_delay=retry_delay,
    )
