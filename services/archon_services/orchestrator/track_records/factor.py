"""The factor by which a record makes the load of an instance count less or more in a placement, and the choice among
roles that offer the same capability."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from archon_services.orchestrator.track_records.records import TrackRecords
from archon_services.orchestrator.track_records.tally import Tally

LEAST_FACTOR: Final = 0.5
MOST_FACTOR: Final = 2.0
"""Bounds of the factor: the best record halves the load as it is compared, the worst one doubles it."""

PRIOR_TASKS: Final = 5.0
"""Attempts of the average of its role with which each instance begins: a new one is neutral, and a few failures say
little."""

LITTLE: Final = 0.05
"""Successes and failures that the role has besides its own: its rate is above 0, and that of its only instance is the same."""

STEPS_PER_OCTAVE: Final = 4
"""Steps of the factor between one value and its double: a difference of less than about 9 % does not count."""


def factor_of(instance: Tally | None, role: Tally | None) -> float:
    """Returns the time that an attempt of the instance is expected to take until it succeeds, divided by the same
    time of its role, within the bounds and in steps. 1 without a record."""
    if instance is None or role is None or instance.tasks <= 0 or role.tasks <= 0:
        return 1.0
    expected = (role.completed + LITTLE) / (role.tasks + 2 * LITTLE)
    rate = (instance.completed + PRIOR_TASKS * expected) / (instance.tasks + PRIOR_TASKS)
    factor = expected / rate if rate > 0 else MOST_FACTOR
    if role.mean_seconds > 0 and instance.completed > 0:
        seconds = (instance.seconds + PRIOR_TASKS * role.mean_seconds) / (instance.completed + PRIOR_TASKS)
        factor *= seconds / role.mean_seconds
    if factor <= 0:
        return LEAST_FACTOR
    step: float = 2.0 ** (round(STEPS_PER_OCTAVE * math.log2(factor)) / STEPS_PER_OCTAVE)
    return min(MOST_FACTOR, max(LEAST_FACTOR, step))


def vote_weight(instance: Tally | None) -> float:
    """Returns the weight of an instance's vote: the part of its attempts that completed, times twice the part of the
    conflicts that its answer won, each smoothed with PRIOR_TASKS of a neutral record. 1 without a record."""
    if instance is None:
        return 1.0
    completed = (max(0.0, instance.completed) + PRIOR_TASKS) / (instance.tasks + PRIOR_TASKS)
    conflicts = max(0.0, instance.conflicts)
    won = (min(conflicts, max(0.0, instance.conflicts_won)) + PRIOR_TASKS / 2) / (conflicts + PRIOR_TASKS)
    return round(2.0 * completed * won, 3)


def best_role(records: TrackRecords, tenant: str, roles: Collection[str]) -> str:
    """Returns the role whose attempts are expected to succeed soonest, by its record among all of these roles; of equal
    ones the first by name."""
    tallies = {role: records.of(tenant, role) for role in sorted(roles)}
    together = Tally()
    for tally in tallies.values():
        if tally is not None:
            together.add(tally)
    return min(tallies, key=lambda role: (factor_of(tallies[role], together), role))
