"""The report of `archon eval`: metrics with their intervals, cases below their threshold, and the comparison with a
baseline."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import Final

from archon.plain_text import counted, duration
from archon_mesh.evals import CaseResult, Change, Comparison, EvalReport
from archon_mesh.evals.comparison import ENOUGH
from archon_mesh.evals.report import COST, PASSED, SECONDS, TOKENS
from archon_services.reports.texts import cost_text, one_line

WIDTH: Final = 80
MAX_FAILURES: Final = 20
"""Cases below their threshold that are listed; `--json` has all."""

MAX_NAMES: Final = 12
_NAMES: Final = {PASSED: "passed", COST: "cost", TOKENS: "tokens", SECONDS: "time"}
_VERDICTS: Final = {"same": "within noise", "worse": "WORSE", "better": "better"}


def report_lines(report: EvalReport, comparison: Comparison | None, baseline: str) -> Iterator[str]:
    """Yields the lines of a report; `baseline` is the name of the results compared with."""
    trials = f", {report.repeat} trials each" if report.repeat > 1 else ""
    spent = cost_text(round(report.spent_usd * 1e6)) or "no cost"
    yield f"{counted(len(report.cases), 'case')}{trials}, {duration(report.seconds)}, {spent}"
    yield from _metric_lines(report)
    yield from _failure_lines(report)
    if comparison is not None:
        yield ""
        yield from comparison_lines(comparison, baseline)
    yield ""
    yield from textwrap.wrap(conclusion(report, comparison), WIDTH)


def conclusion(report: EvalReport, comparison: Comparison | None) -> str:
    """Returns the last sentence: passed, or why not."""
    wrong = []
    if report.failures:
        wrong.append(f"{counted(len(report.failures), 'case')} below the threshold")
    if comparison is not None and comparison.regressed:
        worse = ", ".join(_name(change.metric) for change in comparison.regressions)
        wrong.append(f"a regression of {worse} beyond noise")
    if report.skipped:
        wrong.append(f"{counted(report.skipped, 'trial')} not run, because the budget is used up")
    if not wrong and not report.passed:
        wrong.append("no case is scored yet")
    unscored = f" {counted(report.unscored, 'case')} not scored yet." if report.unscored else ""
    return (f"FAILED: {'; '.join(wrong)}." if wrong else "Passed.") + unscored


def comparison_lines(comparison: Comparison, baseline: str) -> Iterator[str]:
    """Yields the changes of each figure against the baseline, and a warning below ENOUGH paired cases."""
    how = f"{counted(comparison.compared, 'case')} in both" if comparison.compared else "no case in both: not paired"
    yield f"Against {one_line(baseline, 50)} ({how}):"
    rows = [_change_row(change) for change in comparison.changes]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        cells = (row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].ljust(widths[2]), row[3])
        yield ("  " + "  ".join(cells)).rstrip()
    if 0 < comparison.compared < ENOUGH:
        yield f"  {ENOUGH} cases or more can tell a change from noise."
    for title, names in (("broken", comparison.broken), ("fixed", comparison.fixed), ("missing", comparison.missing)):
        if names:
            yield from textwrap.wrap(f"{title}: {_listed(names)}", WIDTH, initial_indent="  ", subsequent_indent="    ")


def _metric_lines(report: EvalReport) -> Iterator[str]:
    width = max((len(_name(metric)) for metric in report.metrics), default=0)
    for metric, interval in report.metrics.items():
        mean, low, high = (_number(metric, value) for value in (interval.mean, interval.low, interval.high))
        bounds = f"  ({low} to {high})" if math.isfinite(interval.low) and (low, high) != (mean, mean) else ""
        yield f"  {_name(metric):<{width}}  {mean:>8}{bounds}"


def _failure_lines(report: EvalReport) -> Iterator[str]:
    if not report.failures:
        return
    yield ""
    yield f"{counted(len(report.failures), 'case')} below the threshold:"
    width = min(32, max(len(case.case_id) for case in report.failures[:MAX_FAILURES]))
    for case in report.failures[:MAX_FAILURES]:
        passed, scored = _trials(case)
        head = f"  {one_line(case.case_id, width):<{width}}  {passed} of {scored}  "
        reason = next((reason for trial in case.trials for reason in trial.reasons), "")
        yield from textwrap.wrap(
            one_line(reason, 300), WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
        ) or [head.rstrip()]
    if len(report.failures) > MAX_FAILURES:
        yield f"  and {len(report.failures) - MAX_FAILURES:,} more (--json has all)"


def _trials(case: CaseResult) -> tuple[int, int]:
    scored = [trial for trial in case.trials if trial.passed is not None]
    return sum(trial.passed is True for trial in scored), len(scored)


def _change_row(change: Change) -> tuple[str, str, str, str]:
    before, after = _number(change.metric, change.before), _number(change.metric, change.after)
    if change.difference.mean == 0:
        return _name(change.metric), f"{before} -> {after}", "", "unchanged"
    known = math.isfinite(change.difference.low)
    bounds = f" ({_difference(change, 'low')} to {_difference(change, 'high')})" if known else ""
    verdict = f"{_VERDICTS[change.verdict]}, p = {_p(change.p_value)}"
    return _name(change.metric), f"{before} -> {after}", _difference(change, "mean") + bounds, verdict


def _difference(change: Change, bound: str) -> str:
    value: float = getattr(change.difference, bound)
    return ("+" if value > 0 else "-" if value < 0 else "") + _number(change.metric, abs(value))


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "<0.001"


def _number(metric: str, value: float) -> str:
    if not math.isfinite(value):
        return "?"
    if metric == SECONDS:
        return duration(value)
    if metric == TOKENS:
        return f"{value:,.0f}"
    if metric == COST:
        return ("-" if value < 0 else "") + (cost_text(round(abs(value) * 1e6)) or "$0")
    return f"{100 * value:.0f} %"


def _name(metric: str) -> str:
    return _NAMES.get(metric, one_line(metric, 24))


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return ", ".join(one_line(name, 40) for name in names[:MAX_NAMES]) + more
