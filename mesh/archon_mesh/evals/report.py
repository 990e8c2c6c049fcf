"""Results of an eval: its trials by case, intervals of its metrics, and its JSON form, which is also a baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.evals.expectation import Score
from archon_mesh.evals.statistics import Interval, bootstrap, clustered_wilson, t_interval

FORMAT: Final = "archon-eval/1"
"""The `format` of the JSON form."""

MAX_ANSWER: Final = 4_000
"""Characters of an answer that results keep."""

PASSED: Final = "passed"
COST: Final = "run.cost_usd"
TOKENS: Final = "run.tokens"
SECONDS: Final = "run.seconds"
"""The metrics of every eval; the others are the labels of its expectations, which never begin with `run.`."""

MANY: Final = 20
"""Cases from which on the intervals of means are bootstrapped: times and costs are rarely distributed normally."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a case. `error` says why there was none; `skipped`, that the budget was used up before or within it.
    `passed` is None if it was skipped, or no expectation can be told yet."""

    passed: bool | None
    scores: tuple[Score, ...] = ()
    run_id: str = ""
    state: str = ""
    failure: str = ""
    answer: str = ""
    roles: tuple[str, ...] = ()
    cost_usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    error: str = ""
    skipped: str = ""

    @property
    def ran(self) -> bool:
        """Whether there is a run to compare."""
        return not self.error and not self.skipped

    @property
    def reasons(self) -> list[str]:
        """Why it did not pass."""
        if self.error:
            return [self.error]
        if self.state not in ("", "completed"):
            return [f"the run ended {self.state}" + (f": {self.failure}" if self.failure else "")]
        return [f"{score.name}: {score.reason}" for score in self.scores if score.passed is False]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The trials of a case; it passes if the part `threshold` of them does."""

    case_id: str
    trials: tuple[Trial, ...]
    threshold: float = 1.0
    tags: tuple[str, ...] = ()

    @property
    def pass_rate(self) -> float | None:
        """The part of the scored trials that passed; None if no trial was scored."""
        scored = [trial.passed for trial in self.trials if trial.passed is not None]
        return fmean(scored) if scored else None

    @property
    def passed(self) -> bool | None:
        """Whether the case passes; None if no trial was scored."""
        rate = self.pass_rate
        return None if rate is None else rate >= self.threshold - 1e-9

    @property
    def skipped(self) -> bool:
        """Whether trials are missing, because the budget was used up."""
        return any(trial.skipped for trial in self.trials)

    def mean(self, metric: str) -> float | None:
        """Returns the mean of a metric over the trials that have it; None if none has."""
        values = [value for trial in self.trials for value in _values(trial, metric)]
        return fmean(values) if values else None


@dataclass(frozen=True)
class EvalReport:
    """The results of an eval, by case in the order of the data set. `spent_usd` is the cost of the runs and of scoring
    them; `seconds` the time of the eval."""

    cases: tuple[CaseResult, ...]
    name: str = ""
    repeat: int = 1
    spent_usd: float = 0.0
    seconds: float = 0.0
    budget_usd: float | None = None
    created: float = 0.0
    """When it began, in seconds since the epoch."""

    @cached_property
    def failures(self) -> list[CaseResult]:
        """The cases below their threshold."""
        return [case for case in self.cases if case.passed is False]

    @property
    def skipped(self) -> int:
        """The number of trials that the budget did not allow."""
        return sum(bool(trial.skipped) for case in self.cases for trial in case.trials)

    @property
    def unscored(self) -> int:
        """The number of cases without a scored trial, apart from those that the budget did not allow."""
        return sum(case.passed is None and not case.skipped for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether no case is below its threshold, all trials ran, and at least one case was scored."""
        return not self.failures and not self.skipped and any(case.passed for case in self.cases)

    @cached_property
    def metrics(self) -> dict[str, Interval]:
        """The mean of each metric with its interval at 95 %: `passed` (part of the trials), then the value of each
        expectation, then `run.cost_usd`, `run.tokens` and `run.seconds`. Cases count alike, however often they ran."""
        found: dict[str, Interval] = {}
        groups = [[trial.passed for trial in case.trials if trial.passed is not None] for case in self.cases]
        if any(groups):
            found[PASSED] = clustered_wilson(groups)
        for metric in (*self.labels, COST, TOKENS, SECONDS):
            values = [[*_values(trial, metric)] for case in self.cases for trial in case.trials]
            if metric in self.labels and all(value in (0.0, 1.0) for each in values for value in each):
                groups = [
                    [value == 1 for trial in case.trials for value in _values(trial, metric)] for case in self.cases
                ]
                if any(groups):
                    found[metric] = clustered_wilson(groups)
                continue
            means = [mean for case in self.cases if (mean := case.mean(metric)) is not None]
            if means:
                interval = bootstrap(means) if len(means) >= MANY else t_interval(means)
                found[metric] = (
                    replace(interval, low=max(0.0, interval.low)) if math.isfinite(interval.low) else interval
                )
        return found

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the expectations, in the order of their first score; none if there is only one, whose value
        tells no more than `passed` does."""
        scores = [score for case in self.cases for trial in case.trials for score in trial.scores]
        labels = dict.fromkeys(score.name for score in scores)
        graded = any(score.value not in (None, 0.0, 1.0) for score in scores)
        return tuple(labels) if len(labels) > 1 or graded else ()

    def document(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "format": FORMAT,
            "name": self.name,
            "created": self.created,
            "passed": self.passed,
            "repeat": self.repeat,
            "budget_usd": self.budget_usd,
            "spent_usd": round(self.spent_usd, 6),
            "seconds": round(self.seconds, 3),
            "failures": [case.case_id for case in self.failures],
            "skipped_trials": self.skipped,
            "metrics": {name: interval_document(interval) for name, interval in self.metrics.items()},
            "cases": [_case_document(case) for case in self.cases],
        }


def interval_document(interval: Interval) -> dict[str, Any]:
    """Returns the JSON form of an interval: without bounds where they are infinite."""
    return {
        "mean": interval.mean,
        "low": interval.low if math.isfinite(interval.low) else None,
        "high": interval.high if math.isfinite(interval.high) else None,
        "count": interval.count,
    }


def parse_report(text: str, where: str = "the results") -> EvalReport:
    """Returns the report of a JSON form. Raises InvalidArgument, which names `where`, if the text has no results, or
    those are of a later format."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{where} is not JSON: {error}") from None
    form = document.get("format") if isinstance(document, dict) else None
    if form != FORMAT:
        named = f"the format {form!r}" if form else "no format"
        raise InvalidArgument(f"{where} has {named}: expected results of `archon eval --json` ({FORMAT})")
    try:
        return EvalReport(
            tuple(map(_case, document["cases"])),
            str(document["name"]),
            int(document["repeat"]),
            float(document["spent_usd"]),
            float(document["seconds"]),
            document["budget_usd"],
            float(document["created"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"{where} is damaged: {type(error).__name__}: {error}") from None


def _values(trial: Trial, metric: str) -> Iterator[float]:
    if metric == PASSED:
        if trial.passed is not None:
            yield float(trial.passed)
    elif (measure := _MEASURES.get(metric)) is not None:
        if trial.ran:
            yield measure(trial)
    else:
        yield from (score.value for score in trial.scores if score.name == metric and score.value is not None)


_MEASURES: Final[Mapping[str, Callable[[Trial], float]]] = {
    COST: lambda trial: trial.cost_usd,
    TOKENS: lambda trial: trial.tokens,
    SECONDS: lambda trial: trial.seconds,
}


def _case_document(case: CaseResult) -> dict[str, Any]:
    return {
        "id": case.case_id,
        "passed": case.passed,
        "pass_rate": case.pass_rate,
        "threshold": case.threshold,
        "tags": list(case.tags),
        "trials": [_trial_document(trial) for trial in case.trials],
    }


def _trial_document(trial: Trial) -> dict[str, Any]:
    return asdict(trial) | {"scores": [asdict(score) for score in trial.scores], "roles": list(trial.roles)}


def _case(document: Mapping[str, Any]) -> CaseResult:
    trials: Sequence[Mapping[str, Any]] = document["trials"]
    return CaseResult(
        str(document["id"]), tuple(map(_trial, trials)), float(document["threshold"]), tuple(document["tags"])
    )


def _trial(document: Mapping[str, Any]) -> Trial:
    known = {name: document[name] for name in Trial.__slots__}
    scores = tuple(Score(**{name: each[name] for name in Score.__slots__}) for each in document["scores"])
    return Trial(**known | {"scores": scores, "roles": tuple(document["roles"])})
