"""Compares an eval with a baseline: which metrics have changed beyond noise, and which cases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.evals.report import COST, PASSED, SECONDS, TOKENS, CaseResult, EvalReport, interval_document
from archon_mesh.evals.statistics import Interval, holm, permutation_p, sign_flip_p, t_interval, welch

ALPHA: Final = 0.05
"""The probability with which a comparison may call noise a change, over all its metrics."""

TOLERANCE: Final = 0.1
"""The part by which cost, tokens or time may rise without being worse, even if it is no noise."""

ENOUGH: Final = 6
"""Paired cases that a comparison needs to tell any change from noise: with five that all change alike, p is 0.06."""

_Measured = tuple[float, float, Interval, float, bool]

_LESS_IS_BETTER: Final = (COST, TOKENS, SECONDS)


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a metric: the means of the baseline and now, the interval of their difference at 95 %, and the
    p-value, adjusted for the number of metrics. `verdict` is `better`, `worse` or `same`; `paired` tells that each case
    was compared with itself."""

    metric: str
    before: float
    after: float
    difference: Interval
    p_value: float
    verdict: str
    paired: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with a baseline. `broken` are the cases that passed and no longer do, `fixed` the reverse; `missing`
    are cases of the baseline that the eval does not have. `gates` are the metrics that are regressions if they are
    worse."""

    changes: tuple[Change, ...]
    broken: tuple[str, ...]
    fixed: tuple[str, ...]
    missing: tuple[str, ...]
    compared: int
    gates: frozenset[str] = frozenset()

    @property
    def regressions(self) -> list[Change]:
        """The changes for the worse beyond noise, of metrics that are gates."""
        return [change for change in self.changes if change.verdict == "worse" and change.metric in self.gates]

    @property
    def regressed(self) -> bool:
        """Whether there is a regression."""
        return bool(self.regressions)

    def document(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "regressed": self.regressed,
            "compared_cases": self.compared,
            "broken": list(self.broken),
            "fixed": list(self.fixed),
            "missing": list(self.missing),
            "changes": [
                {
                    "metric": change.metric,
                    "before": change.before,
                    "after": change.after,
                    "difference": interval_document(change.difference),
                    "p_value": change.p_value,
                    "verdict": change.verdict,
                    "paired": change.paired,
                    "gate": change.metric in self.gates,
                }
                for change in self.changes
            ],
        }


def compare(
    report: EvalReport, baseline: EvalReport, *, alpha: float = ALPHA, also: Collection[str] = ()
) -> Comparison:
    """Returns the comparison of an eval with a baseline.

    Cases with one id are compared with each other (a test that flips the signs of their differences, which for passes
    and failures is McNemar's); without common cases the means are compared (a permutation test). A metric has changed
    if the p-value, adjusted by Holm, is at most `alpha`, and cost, tokens and time by more than TOLERANCE. Passes and
    values of expectations are gates, and the metrics in `also`, such as `cost_usd`.
    """
    before = {case.case_id: case for case in baseline.cases}
    after = {case.case_id: case for case in report.cases}
    common = [case_id for case_id in after if case_id in before]
    labels = [label for label in report.labels if label in baseline.labels]
    measured = [
        (metric, found)
        for metric in (PASSED, *labels, COST, TOKENS, SECONDS)
        if (found := _measure(metric, before, after, common)) is not None
    ]
    gates = frozenset((PASSED, *labels, *also))
    adjusted: dict[str, float] = {}
    for family in (True, False):
        members = [(metric, found[3]) for metric, found in measured if (metric in gates) is family]
        adjusted |= zip([metric for metric, _ in members], holm([p_value for _, p_value in members]), strict=True)
    changes = [
        Change(metric, *found[:3], adjusted[metric], _verdict(metric, found, adjusted[metric], alpha), found[4])
        for metric, found in measured
    ]
    pairs = [(case_id, before[case_id].passed, after[case_id].passed) for case_id in common]
    return Comparison(
        tuple(changes),
        broken=tuple(case_id for case_id, first, second in pairs if first and second is False),
        fixed=tuple(case_id for case_id, first, second in pairs if first is False and second),
        missing=tuple(case_id for case_id in before if case_id not in after),
        compared=len(common),
        gates=gates,
    )


def _measure(
    metric: str, before: dict[str, CaseResult], after: dict[str, CaseResult], common: list[str]
) -> _Measured | None:
    """Returns both means, the interval of the difference, its p-value, and whether it is paired; None if one of them
    has no value."""
    if common:
        found = [(before[case_id].mean(metric), after[case_id].mean(metric)) for case_id in common]
        pairs = [(first, second) for first, second in found if first is not None and second is not None]
        if not pairs:
            return None
        differences = [second - first for first, second in pairs]
        first, second = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        return first, second, t_interval(differences), sign_flip_p(differences), True
    old = [mean for case in before.values() if (mean := case.mean(metric)) is not None]
    new = [mean for case in after.values() if (mean := case.mean(metric)) is not None]
    if not old or not new:
        return None
    return sum(old) / len(old), sum(new) / len(new), welch(old, new), permutation_p(old, new), False


def _verdict(metric: str, found: _Measured, p_value: float, alpha: float) -> str:
    before, change = found[0], found[2].mean
    if p_value > alpha or change == 0:
        return "same"
    if metric in _LESS_IS_BETTER:
        if abs(change) <= TOLERANCE * abs(before):
            return "same"
        return "worse" if change > 0 else "better"
    return "better" if change > 0 else "worse"
