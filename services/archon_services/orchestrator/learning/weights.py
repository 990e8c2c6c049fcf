"""The arithmetic of learned weights: evidence from outcomes, and the weights that follow from it, within bounds.

All functions are pure; times are in wall seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from archon_mesh.core.value import value

LEAST: Final = 0.5
MOST: Final = 2.0
"""Bounds of every weight; 1 is neutral."""

NEUTRAL: Final = 1.0

STEP: Final = 0.05
"""Weights are multiples of this: a smaller difference changes nothing."""

MAX_MOVE: Final = 0.25
"""Most that one version moves a weight."""

PRIOR: Final = 5.0
"""Outcomes of the average of its group with which each subject begins: a new one is neutral, and a few failures say
little."""

OFFSET: Final = 0.1
"""Added to both scores that a weight compares: where nearly everything fails, one success says little."""

HALF_LIFE: Final = 7 * 86_400.0
"""Seconds after which an outcome counts half."""

FORGOTTEN: Final = 0.01
"""Outcomes below which evidence is dropped."""

MAX_SUBJECTS: Final = 2_000
"""Subjects of a tenant with evidence; those observed longest ago are dropped."""


class Subject(NamedTuple):
    """The role, instance, tool or prompt variant that a weight is about. `name` is empty for the kind `role`."""

    kind: str
    role: str
    name: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """The subjects that are compared with each other: all roles, or the instances, tools or variants of a role."""
        return self.kind, "" if self.kind == "role" else self.role


KINDS: Final = ("role", "instance", "tool", "variant")


@value
class Outcome:
    """A score from 0 (bad) to 1 (good) of a subject, that counts as `count` outcomes."""

    subject: Subject
    score: float
    count: float = 1.0


@value
class Tally:
    """Outcomes of a subject: their number, the sum of their scores, and the time up to which they were aged."""

    count: float
    score: float
    time: float

    def at(self, now: float) -> Tally:
        """Returns the tally as of `now`; a clock that was set back ages nothing."""
        part = 0.5 ** (max(0.0, now - self.time) / HALF_LIFE)
        return Tally(self.count * part, self.score * part, max(self.time, now))


Evidence = Mapping[Subject, Tally]
Weights = Mapping[Subject, float]
"""Weights by subject; a subject without one has NEUTRAL."""


def observed(evidence: Evidence, outcomes: Iterable[Outcome], now: float) -> dict[Subject, Tally]:
    """Returns the evidence as of `now` with these outcomes. Scores are bounded to 0 to 1, counts to 0 and more."""
    aged = {subject: tally.at(now) for subject, tally in evidence.items()}
    for outcome in outcomes:
        count = max(0.0, outcome.count)
        tally = aged.get(outcome.subject, Tally(0.0, 0.0, now))
        score = min(1.0, max(0.0, outcome.score)) * count
        aged[outcome.subject] = Tally(tally.count + count, tally.score + score, tally.time)
    kept = [(subject, tally) for subject, tally in aged.items() if tally.count >= FORGOTTEN]
    if len(kept) > MAX_SUBJECTS:
        kept = sorted(kept, key=lambda pair: (-pair[1].count, pair[0]))[:MAX_SUBJECTS]
    return dict(sorted(kept))


def targets(evidence: Evidence) -> dict[Subject, float]:
    """Returns the weight that the evidence of each subject leads to: its mean score by the mean score of its group,
    both smoothed, within the bounds. A subject without others in its group has NEUTRAL."""
    groups: dict[tuple[str, str], list[Tally]] = {}
    for subject, tally in evidence.items():
        groups.setdefault(subject.group, []).append(tally)
    out: dict[Subject, float] = {}
    for subject, tally in evidence.items():
        group = groups[subject.group]
        mean = sum(each.score for each in group) / sum(each.count for each in group)
        own = (tally.score + PRIOR * mean) / (tally.count + PRIOR)
        out[subject] = bounded((own + OFFSET) / (mean + OFFSET)) if len(group) > 1 else NEUTRAL
    return out


def moved(weights: Weights, evidence: Evidence) -> dict[Subject, float]:
    """Returns the weights after one move towards their targets, of at most MAX_MOVE each. A subject without evidence
    moves back to NEUTRAL. The result has no neutral weights."""
    wanted = targets(evidence)
    out: dict[Subject, float] = {}
    for subject in sorted({*weights, *wanted}):
        present = bounded(weights.get(subject, NEUTRAL))
        move = wanted.get(subject, NEUTRAL) - present
        weight = bounded(present + min(MAX_MOVE, max(-MAX_MOVE, move)))
        if weight != NEUTRAL:
            out[subject] = weight
    return out


def bounded(weight: float) -> float:
    """Returns the nearest multiple of STEP within the bounds; NEUTRAL instead of NaN."""
    if weight != weight:  # not a number
        return NEUTRAL
    return round(round(min(MOST, max(LEAST, weight)) / STEP) * STEP, 2)


def largest_change(before: Weights, after: Weights) -> float:
    """Returns the largest absolute difference between two weights of the same subject."""
    subjects = {*before, *after}
    return max((abs(after.get(each, NEUTRAL) - before.get(each, NEUTRAL)) for each in subjects), default=0.0)
