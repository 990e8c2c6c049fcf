"""Rules of retention: how long the details of an ended run are kept, and how long its summary. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

FOREVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class DetailsRule:
    """The seconds after its end for which the details of a run are kept, if all conditions hold; an empty condition
    always holds. `states` are numbers of task states, `tenants` patterns, `labels` keys of metadata, which a run must
    have, with patterns of values. `sample` is the part of runs that the rule holds for, by a hash of the run's id."""

    keep: float
    states: frozenset[int] = frozenset()
    tenants: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    marked: bool | None = None
    sample: float = 1.0

    def holds(self, run: RunFacts) -> bool:
        """Whether all conditions hold for a run."""
        return (
            (not self.states or run.state in self.states)
            and (not self.tenants or any(fnmatchcase(run.tenant, pattern) for pattern in self.tenants))
            and (self.marked is None or run.marked is self.marked)
            and all(key in run.labels and fnmatchcase(run.labels[key], each) for key, each in self.labels.items())
            and is_sampled(run.run_id, self.sample)
        )


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts about an ended run that rules compare. `labels` are its metadata, empty if no rule needs them."""

    run_id: str
    tenant: str
    state: int
    marked: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The first of `details` that holds for a run decides how long its details are kept; if none holds, `otherwise`
    does. Its summary is kept for `summaries`. All in seconds after the end; FOREVER is no end."""

    otherwise: float
    summaries: float
    details: Sequence[DetailsRule] = ()

    @property
    def shortest(self) -> float:
        """The least seconds after which details of any run are removed."""
        return min([self.otherwise, *(rule.keep for rule in self.details)])

    @property
    def need_labels(self) -> bool:
        """Whether a rule compares the metadata of runs."""
        return any(rule.labels for rule in self.details)

    def keep_details(self, run: RunFacts) -> float:
        """Returns the seconds after its end for which the details of a run are kept."""
        return next((rule.keep for rule in self.details if rule.holds(run)), self.otherwise)


def default_rules(compact_after: float, delete_after: float) -> RetentionRules:
    """Returns the rules without a file: the same times for all runs."""
    return RetentionRules(otherwise=compact_after, summaries=delete_after)


def is_sampled(run_id: str, part: float) -> bool:
    """Whether a run is in this part of all runs: the same answer on each replica, and for a larger part a run stays
    in."""
    if part >= 1.0:
        return True
    point = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big") / 2**64
    return point < part
