"""The tallies of all roles and instances: the ones that this process has made, and the sums of other replicas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_services.common.tenants import role_key
from archon_services.orchestrator.track_records.observations import Observation, observe
from archon_services.orchestrator.track_records.tally import Tally, bucket_of

MIN_TASKS: Final = 3
"""Completed tasks of a role from which on their average says more than the role's own estimate."""

MAX_TALLIES: Final = 5_000
"""Roles and instances with a tally of this process; the one that has worked least recently is dropped."""

CLOCK_ERROR: Final = 60.0
"""Seconds by which the time of a tally may be in the future before it counts as one of a clock that was set back
since: later additions would count nothing until then."""

_AT_ONCE: Final = 60.0
"""Seconds within which observations count as of the same time: a half-life has hours."""

MAX_PENDING: Final = 1_000
"""Observations that wait to be added; further ones are added at once."""


class Subject(NamedTuple):
    """The role, or one instance of it, that a tally is about. `instance_id` is empty for the role as a whole."""

    tenant: str
    role: str
    instance_id: str = ""


@dataclass(slots=True)
class RoleAverage:
    """The average of a role's completed tasks: seconds of the last attempt, and cost in millionths of a US dollar."""

    tasks: float
    seconds: float
    cost_micro_usd: float


class TrackRecords:
    """`now` returns wall seconds by the journal's clock. No method waits: `upkeep` stores the tallies and reads the
    ones of other replicas."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.weight: Callable[[str, str, str], float] = lambda tenant, role, instance_id: 1.0
        """Returns the learned weight of an instance of a tenant's role, or of the role itself if the id is empty."""

        self._now = now
        self._own: OrderedDict[Subject, Tally] = OrderedDict()
        self._others: dict[Subject, Tally] = {}
        self._unsaved: set[Subject] = set()
        self._changed: set[str] = set()
        self._pending: list[tuple[str, float, Observation]] = []

    def note(self, events: Sequence[ev.Event], run: RunState) -> None:
        """Remembers how attempts went by these committed events; `run` is the state after them."""
        if observations := observe(events, run):
            tenant, now = run.submission.tenant if run.submission is not None else "", self._now()
            self._pending += [(tenant, now, observation) for observation in observations]
            if len(self._pending) >= MAX_PENDING:
                self.settle()

    def rate(
        self, tenant: str, workers: Iterable[tuple[str, str]], stars: int, earlier: tuple[int, float] | None = None
    ) -> None:
        """Adds a person's rating of a run to the tallies of its workers, pairs of role and instance, and of their
        roles. `earlier` has the stars and the time of the rating that it replaces."""
        self.settle()
        pairs = set(workers)
        subjects = {Subject(tenant, *pair) for pair in pairs} | {Subject(tenant, role) for role, _ in pairs}
        for subject in sorted(subjects):
            self._add(subject, Tally(self._now(), ratings=1.0, stars=float(stars)))
            if earlier is not None:
                given_at = min(earlier[1], self._now())
                self._add(subject, Tally(given_at, ratings=1.0, stars=float(earlier[0])), -1)

    def of(self, tenant: str, role: str, instance_id: str = "") -> Tally | None:
        """Returns the tally of a role, or of an instance, of all replicas and as of now; None if there is none."""
        self.settle()
        subject = Subject(tenant, role, instance_id)
        own, others = self._own.get(subject), self._others.get(subject)
        if own is None and others is None:
            return None
        total = Tally()
        for part in (own, others):
            if part is not None:
                total.add(self._bounded(part))
        total.age(self._now())
        return total

    def average(self, tenant: str, role: str) -> RoleAverage | None:
        """Returns the average of a role; None if fewer than MIN_TASKS of its tasks have completed of late."""
        tally = self.of(tenant, role)
        if tally is None or tally.completed < MIN_TASKS - 0.5:  # older ones count a little less
            return None
        return RoleAverage(tally.completed, tally.mean_seconds, tally.mean_cost)

    def subjects(self, tenant: str, role: str = "") -> list[Subject]:
        """Returns the roles and instances with a tally, or one role and its instances, in order: each role before its
        instances."""
        self.settle()
        known = self._own.keys() | self._others.keys()
        return sorted(subject for subject in known if subject.tenant == tenant and role in ("", subject.role))

    # For upkeep -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Adds the observations that wait."""
        pending, self._pending = self._pending, []
        sums: dict[Subject, Tally] = {}
        for tenant, time, observation in pending:
            subject = Subject(tenant, observation.role, observation.instance_id)
            tally = sums.get(subject)
            if tally is None or abs(time - tally.time) > _AT_ONCE:
                if tally is not None:
                    self._add_with_role(subject, tally)
                tally = sums[subject] = Tally(time)
            _include(tally, observation)
        for subject, tally in sums.items():
            self._add_with_role(subject, tally)

    def _add_with_role(self, subject: Subject, tally: Tally) -> None:
        self._add(subject, tally)
        self._add(Subject(subject.tenant, subject.role), tally)

    def take_unsaved(self) -> dict[Subject, Tally]:
        """Returns copies of this process's tallies that have changed since they were last taken."""
        self.settle()
        unsaved, self._unsaved = self._unsaved, set()
        return {subject: _copy(self._own[subject]) for subject in sorted(unsaved) if subject in self._own}

    def take_changed_roles(self) -> list[str]:
        """Returns the keys of the roles with a tally that has changed since they were last taken, sorted."""
        self.settle()
        changed, self._changed = self._changed, set()
        return sorted(changed)

    def not_saved(self, subjects: Collection[Subject]) -> None:
        """Has the next call of `take_unsaved` return these too."""
        self._unsaved.update(subjects)

    def replace_others(self, tallies: Iterable[tuple[Subject, Tally]]) -> None:
        """Replaces the tallies of other replicas and of earlier processes."""
        self._others = {}
        for subject, tally in tallies:
            tally = self._bounded(_copy(tally))
            if (total := self._others.get(subject)) is None:
                self._others[subject] = tally
            else:
                total.add(tally)

    def forget_own(self) -> None:
        """Drops the tallies of this process: the others' have them, since its incarnation has expired."""
        self._own.clear()
        self._unsaved.clear()

    def _add(self, subject: Subject, tally: Tally, sign: int = 1) -> None:
        own = self._own.get(subject)
        if own is None:
            own = self._own[subject] = Tally()
            if len(self._own) > MAX_TALLIES:
                dropped, _ = self._own.popitem(last=False)
                self._unsaved.discard(dropped)
        else:
            self._own.move_to_end(subject)
        self._bounded(own).add(tally, sign)
        self._unsaved.add(subject)
        self._changed.add(role_key(subject.tenant, subject.role))

    def _bounded(self, tally: Tally) -> Tally:
        now = self._now()
        if tally.time > now + CLOCK_ERROR:
            tally.time = now
        return tally


def _include(tally: Tally, observation: Observation) -> None:
    """Adds an observation to the sums of a tally of the same time."""
    if observation.completed:
        tally.completed += 1.0
        tally.seconds += observation.seconds
        tally.cost += observation.cost
        bucket = bucket_of(observation.seconds)
        tally.times[bucket] = tally.times.get(bucket, 0.0) + 1.0
    tally.failed += observation.failed
    if observation.has_bid:
        tally.bids += 1.0
        tally.bids_kept += observation.bid_kept
    if observation.in_conflict:
        tally.conflicts += 1.0
        tally.conflicts_won += observation.conflict_won


def _copy(tally: Tally) -> Tally:
    return replace(tally, times=dict(tally.times))
