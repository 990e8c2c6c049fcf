"""Runs the scenarios as the options of a command line say."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from archon.conformance.case import Case, cases_of, load_scenarios, scenarios_folder
from archon.conformance.report import Report, read_expected
from archon.conformance.suite import Outcome, Suite
from archon.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Options:
    """The choice of cases. `names` are names of scenarios, areas or cases, or patterns of them; empty: all."""

    subject: str
    names: Sequence[str] = ()
    mode: str = ""
    transport: str = ""
    security: str = ""
    expected: Path | None = None
    pace: float = 1.0
    verbose: bool = False
    folder: Path | None = None


def chosen(options: Options) -> list[Case]:
    """Returns the cases that the options name. Raises InvalidArgument if there is no such case."""
    cases = [
        case
        for case in cases_of(load_scenarios(options.folder or scenarios_folder()))
        if (not options.mode or case.scenario.mode == options.mode)
        and (not options.transport or case.scenario.mode == "client" or case.transport == options.transport)
        and (not options.security or case.security == options.security)
        and (not options.names or any(_is_named(case, name) for name in options.names))
    ]
    if not cases:
        raise InvalidArgument(f"there are no such cases: {', '.join(options.names) or 'the folder is empty'}")
    return cases


def _is_named(case: Case, name: str) -> bool:
    scenario = case.scenario
    known = (case.name, scenario.name, scenario.area, scenario.template, scenario.name.partition("/")[2])
    return name in known or any(fnmatch.fnmatchcase(each, name) for each in known[:2])


async def run_cases(options: Options) -> Report:
    """Runs the cases that the options name. Raises InvalidArgument if an option names something that there is not."""
    cases = chosen(options)
    expected: frozenset[str] = frozenset()
    if options.expected is not None:
        everything = cases_of(load_scenarios(options.folder or scenarios_folder()))
        names = {case.name for case in everything} | {case.scenario.name for case in everything}
        expected = read_expected(options.expected, names)

    def show(outcome: Outcome) -> None:
        if options.verbose:
            state = "passed" if not outcome.fault else f"failed: {outcome.fault}"
            line = f"+{time.monotonic() - began:5.1f} {outcome.seconds:6.2f} s  {outcome.case.name}: {state}\n"
            sys.stderr.write(line)

    began = time.monotonic()
    command = shlex.split(options.subject)
    outcomes = await Suite(command, pace=options.pace).run(cases, on_outcome=show)
    return Report(outcomes, expected, time.monotonic() - began)


def run_and_print(options: Options, *, as_json: bool = False, junit: Path | None = None) -> int:
    """Runs, prints the report, and returns the exit code: 0 if everything was as expected. Raises InvalidArgument."""
    report = asyncio.run(run_cases(options))
    if junit is not None:
        report.write_junit(junit)
    text = json.dumps(report.as_json(), indent=2) if as_json else report.text()
    sys.stdout.write(text + "\n")
    return 0 if report.passed else 1
