"""The pages about the conformance suite are what its files give, and the files fit together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from archon.api.common.v1 import failure_pb2
from archon.conformance import cases_of, load_scenarios, scenarios_folder
from archon.conformance.report import read_expected
from sdk.conformance import freeze
from tests.unit.docs import conformance_page, session_page

CONTRACT: Final = Path(__file__).parents[3] / "docs" / "contract.md"

SCENARIOS = load_scenarios(scenarios_folder())
CASES = cases_of(SCENARIOS)


def test_the_page_of_the_session_is_its_table() -> None:
    assert session_page.PAGE.read_text() == session_page.page(), "run: python -m tests.unit.docs.session_page"


def test_the_page_of_the_suite_is_its_files() -> None:
    assert conformance_page.PAGE.read_text() == conformance_page.page(), (
        "run: python -m tests.unit.docs.conformance_page"
    )


def test_each_row_of_the_session_has_a_scenario() -> None:
    names = {scenario.name for scenario in SCENARIOS}
    rows = session_page.rows()
    assert {row.id for row in rows if not row.scenarios or not set(row.scenarios) <= names} == set()
    assert len({row.id for row in rows}) == len(rows)


def test_there_are_three_hundred_cases() -> None:
    written = {scenario.template for scenario in SCENARIOS}
    assert len(CASES) >= 300
    assert len(written) >= 120


def test_each_reason_is_tried_both_ways() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in failure_pb2.ErrorReason.keys()[1:]}
    tried: dict[str, set[str]] = {prefix: set() for prefix in ("reasons/fail-with-", "client-reasons/rpc-fails-with-")}
    for scenario in SCENARIOS:
        for prefix, names in tried.items():
            if scenario.name.startswith(prefix):
                names.add(scenario.name.removeprefix(prefix))
    assert [names for names in tried.values() if names != reasons] == []


def test_rules_are_those_of_the_contract() -> None:
    rules = set(re.findall(r"^\*\*(C\d+)\. ", CONTRACT.read_text(), re.M)) | {"Leaving", "Errors"}
    named = {rule for scenario in SCENARIOS for rule in scenario.rules}
    assert named <= rules
    assert rules - named == set()


def test_frozen_scenarios_are_as_they_were() -> None:
    assert freeze.changed() == [], "a scenario is frozen: write another one, under another name"
    assert freeze.missing() == [], "run: python sdk/conformance/freeze.py"


def test_expected_failures_are_scenarios() -> None:
    names = {case.name for case in CASES} | {scenario.name for scenario in SCENARIOS}
    for path in conformance_page.EXPECTED.glob("*.yaml"):
        read_expected(path, names)
