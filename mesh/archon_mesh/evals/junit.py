"""JUnit XML of an eval, which CI systems show: a test case for each case, and one for each regression."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree

from archon_mesh.evals.comparison import Comparison
from archon_mesh.evals.report import CaseResult, EvalReport

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(report: EvalReport, comparison: Comparison | None = None, name: str = "archon eval") -> str:
    """Returns the XML document. A case below its threshold is a failure, one that could not run an error, and one that
    the budget did not allow, or that is not scored yet, is skipped."""
    suite = ElementTree.Element("testsuite", name=_clean(report.name or name))
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for case in report.cases:
        element = ElementTree.SubElement(
            suite, "testcase", classname=suite.get("name", ""), name=_clean(case.case_id), time=_time(case)
        )
        if kind := _kind(case):
            counts[{"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]] += 1
            message, text = _explanation(case)
            ElementTree.SubElement(element, kind, message=_clean(message)).text = _clean(text)
        runs = " ".join(trial.run_id for trial in case.trials if trial.run_id)
        ElementTree.SubElement(element, "system-out").text = _clean(f"runs: {runs}\n" if runs else "")
    regressions = comparison.regressions if comparison is not None else []
    for change in regressions:
        counts["failures"] += 1
        element = ElementTree.SubElement(
            suite, "testcase", classname=suite.get("name", ""), name=f"regression of {_clean(change.metric)}", time="0"
        )
        message = f"{change.metric} was {change.before:.4g}, is {change.after:.4g} (p = {change.p_value:.2g})"
        ElementTree.SubElement(element, "failure", message=_clean(message))
    suite.set("tests", str(len(report.cases) + len(regressions)))
    for key, count in counts.items():
        suite.set(key, str(count))
    suite.set("time", f"{report.seconds:.3f}")
    if report.created:
        suite.set("timestamp", datetime.fromtimestamp(report.created, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _kind(case: CaseResult) -> str:
    if case.passed is None:
        return "skipped"
    if case.passed:
        return ""
    return "error" if all(trial.error for trial in case.trials if not trial.skipped) else "failure"


def _explanation(case: CaseResult) -> tuple[str, str]:
    if case.pass_rate is None:
        said = next((trial.skipped for trial in case.trials if trial.skipped), "no expectation can be told yet")
        return said, ""
    reasons = [reason for trial in case.trials for reason in trial.reasons]
    message = f"{case.pass_rate:.0%} of the trials passed, at least {case.threshold:.0%} had to"
    return (reasons[0] if reasons else message), "\n".join([message, *reasons])


def _time(case: CaseResult) -> str:
    return f"{sum(trial.seconds for trial in case.trials):.3f}"


def _clean(text: str) -> str:
    """Removes the characters that XML has no form for."""
    return _NOT_XML.sub("\ufffd", text)
