"""A scenario catches each of the faults that an SDK could have."""

from __future__ import annotations

import ast
import asyncio
import os
from typing import Final

import pytest
import yaml

from archon.conformance import Report
from tests.conformance.subjects import FOLDER, faulty, run

CAUGHT_BY: Final[dict[str, str]] = yaml.safe_load((FOLDER / "mutants.yaml").read_text())
AT_ONCE: Final = 4


def test_each_fault_has_a_scenario() -> None:
    tree = ast.parse((FOLDER / "subjects" / "faulty.py").read_text())
    [faults] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "FAULTS"
    ]
    assert isinstance(faults, ast.Dict)
    names = {key.value for key in faults.keys if isinstance(key, ast.Constant)}
    assert names == set(CAUGHT_BY)
    assert len(names) >= 20


EACH: Final = 1 if os.environ.get("ARCHON_SDKS") else 4
"""`make test-search` tries one fault in four, `make mutants-sdks` all of them."""


@pytest.mark.search
async def test_each_fault_is_caught() -> None:
    chosen = dict(list(CAUGHT_BY.items())[::EACH])
    limit = asyncio.Semaphore(AT_ONCE)

    async def caught(fault: str, scenario: str) -> Report:
        async with limit:
            return await run(scenario, subject=faulty(fault), transport="dialled", security="plain")

    reports = await asyncio.gather(*(caught(fault, scenario) for fault, scenario in chosen.items()))
    faults = {
        fault: report.failed[0].fault if report.failed else "" for fault, report in zip(chosen, reports, strict=True)
    }
    assert [fault for fault, why in faults.items() if not why] == []
    assert [fault for fault, why in faults.items() if "the first line" in why] == [], "a subject did not start"


async def test_the_scenarios_pass_without_a_fault() -> None:
    report = await run("heartbeats/is-echoed", "results/text", transport="dialled", security="plain")
    assert report.passed, report.text()


async def test_a_result_that_is_sent_twice_is_named() -> None:
    report = await run("results/text", subject=faulty("result-sent-twice"), transport="dialled", security="plain")
    [outcome] = report.failed
    assert "two results of attempt 1" in outcome.fault
