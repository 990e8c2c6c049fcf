"""Evals: cases are executed and scored, repeated and in parallel, and compared with a baseline beyond noise.

    report = await evaluate(read_cases("cases.jsonl"), mesh.client, repeat=3, parallel=8)
    assert report.passed, report.failures
    assert not compare(report, read_report("baseline.json")).regressed

docs/evals.md describes data sets, scorers and intervals. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon_mesh.evals.answer_scorers import Contains, Exact, Judge, Regex, Schema
    from archon_mesh.evals.case import Case, parse_cases, to_lines
    from archon_mesh.evals.collect import case_from_run
    from archon_mesh.evals.comparison import Change, Comparison, compare
    from archon_mesh.evals.expectation import Expectation, Score
    from archon_mesh.evals.files import read_cases, read_report, write_report
    from archon_mesh.evals.junit import junit_xml
    from archon_mesh.evals.report import CaseResult, EvalReport, Trial, parse_report
    from archon_mesh.evals.run_eval import evaluate, score_runs
    from archon_mesh.evals.statistics import Interval, bootstrap, clustered_wilson, t_interval, wilson
    from archon_mesh.evals.trajectory import CalledTool, Trajectory
    from archon_mesh.evals.trajectory_scorers import Cost, Python, Rating, Roles, Seconds, Tokens, Tools

_MODULES: Final = {
    name: f"archon_mesh.evals.{module}"
    for module, names in {
        "answer_scorers": ("Contains", "Exact", "Judge", "Regex", "Schema"),
        "case": ("Case", "parse_cases", "to_lines"),
        "collect": ("case_from_run",),
        "comparison": ("Change", "Comparison", "compare"),
        "run_eval": ("evaluate", "score_runs"),
        "expectation": ("Expectation", "Score"),
        "files": ("read_cases", "read_report", "write_report"),
        "junit": ("junit_xml",),
        "report": ("CaseResult", "EvalReport", "Trial", "parse_report"),
        "statistics": ("Interval", "bootstrap", "clustered_wilson", "t_interval", "wilson"),
        "trajectory": ("CalledTool", "Trajectory"),
        "trajectory_scorers": ("Cost", "Python", "Rating", "Roles", "Seconds", "Tokens", "Tools"),
    }.items()
    for name in names
}

__all__ = [
    "CalledTool",
    "Case",
    "CaseResult",
    "Change",
    "Comparison",
    "Contains",
    "Cost",
    "EvalReport",
    "Exact",
    "Expectation",
    "Interval",
    "Judge",
    "Python",
    "Rating",
    "Regex",
    "Roles",
    "Schema",
    "Score",
    "Seconds",
    "Tokens",
    "Tools",
    "Trajectory",
    "Trial",
    "bootstrap",
    "case_from_run",
    "clustered_wilson",
    "compare",
    "evaluate",
    "junit_xml",
    "parse_cases",
    "parse_report",
    "read_cases",
    "read_report",
    "score_runs",
    "t_interval",
    "to_lines",
    "wilson",
    "write_report",
]

__getattr__ = lazy_names(__name__, _MODULES)
