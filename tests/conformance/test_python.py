"""The SDK for Python passes the scenarios, but for those in its list of expected failures."""

from __future__ import annotations

from typing import Final

import pytest

from tests.conformance.subjects import PACE_OF_FOUR, SECURITY, alone, run

QUICK: Final = (
    *(
        "opening/ready-says-who-and-how-much",
        "opening/a-newer-stream-replaces",
        "opening/features-of-an-older-orchestrator",
    ),
    *(
        "heartbeats/*",
        "results/text",
        "results/unicode",
        "results/a-panic",
        "results/the-assignment*",
        "budget/granted",
    ),
    *("cancel/while-it-works", "cancel/twice", "sequences/a-gap", "sequences/rise-by-one", "attempts/a-stale-epoch"),
    *(
        "deadlines/of-an-adoption",
        "adoption/of-a-parked-result",
        "adoption/of-a-task-that-is-not-held",
        "delegation/to-a-role",
        "people/ask",
    ),
    *("messages/receive", "unknown/an-arm", "reasons/fail-with-CYCLE", "records/of-a-model-call"),
    *("client-calls/submit", "client-calls/run", "client-calls/converse", "client-calls/view", "client-watch/resumes"),
    *("client-errors/all-details", "client-reasons/rpc-fails-with-UNKNOWN_ROLE"),
)


async def test_quick_scenarios_pass() -> None:
    report = await run(*QUICK, security="plain")
    assert report.passed, report.text()


@pytest.mark.slow
@alone
async def test_all_scenarios_pass() -> None:
    report = await run(security=SECURITY, pace=PACE_OF_FOUR)
    assert report.passed, report.text()
