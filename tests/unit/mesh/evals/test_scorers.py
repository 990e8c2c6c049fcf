"""Scorers of answers and trajectories."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import Unavailable
from archon_mesh.evals import CalledTool, Score, Trajectory
from archon_mesh.evals.case import case_of
from archon_mesh.evals.expectation import Question
from archon_mesh.llm import ModelRequest, ScriptedModel

CALLS = (CalledTool("search", "reader"), CalledTool("read", "reader"), CalledTool("write", "writer"))
GOOD = Trajectory(
    '{"total": 1234, "note": "The total is $1,234."}',
    roles=("reader", "writer"),
    tool_calls=CALLS,
    cost_usd=0.02,
    tokens=500,
    seconds=2.0,
)


async def score(
    trajectory: Trajectory = GOOD, *, recorded: str | None = None, judge: Any = None, **document: Any
) -> Score:
    case = case_of({"id": "x", "goal": "Say the total.", "expect": [document]})
    return await case.expectations[0].score(Question("Say the total.", trajectory, recorded, judge))


@pytest.mark.parametrize(
    "document",
    [
        {"scorer": "exact", "field": "total", "answer": "1234"},
        {"scorer": "exact", "field": "note", "answer": "the total is $1,234", "loose": True},
        {"scorer": "contains", "texts": ["1,234", "total"], "without": ["error"]},
        {"scorer": "contains", "texts": ["THE TOTAL"], "ignore_case": True},
        {"scorer": "regex", "pattern": r"\$[\d,]+"},
        {"scorer": "regex", "field": "total", "pattern": r"\d+", "whole": True},
        {"scorer": "schema", "json_schema": {"type": "object", "required": ["total"]}},
        {"scorer": "tools", "names": ["search", "write"]},
        {"scorer": "tools", "names": ["search", "read", "write"], "order": "exact"},
        {"scorer": "tools", "names": ["write", "search"], "order": "any_order", "without": ["delete"]},
        {"scorer": "tools", "names": ["search", "read"], "order": "exact", "role": "reader"},
        {"scorer": "roles", "names": ["writer"]},
        {"scorer": "roles", "names": ["writer", "reader"], "only": True},
        {"scorer": "cost", "max_usd": 0.02},
        {"scorer": "tokens", "most": 500},
        {"scorer": "seconds", "most": 2},
        {"scorer": "python", "function": f"{__name__}:is_good"},
        {"scorer": "python", "function": f"{__name__}:how_good", "threshold": 0.75},
    ],
)
async def test_a_good_trajectory_passes(document: dict[str, Any]) -> None:
    found = await score(**document)
    assert found.passed and found.reason == "", found


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"scorer": "exact", "field": "total", "answer": "1235"}, "at character 4: expected '1235', got '1234'"),
        ({"scorer": "exact"}, "no recorded answer"),
        ({"scorer": "contains", "texts": ["euro"], "without": ["$"]}, "does not contain 'euro'; it contains '$'"),
        ({"scorer": "regex", "pattern": "^total"}, "does not match"),
        ({"scorer": "schema", "json_schema": {"type": "object", "required": ["sum"]}}, "'sum' is a required property"),
        ({"scorer": "tools", "names": ["write", "search"]}, "search was not called after write"),
        ({"scorer": "tools", "names": ["search", "search"]}, "it did not call search; called: search, read, write"),
        ({"scorer": "tools", "names": ["search"], "order": "exact"}, "expected exactly search"),
        ({"scorer": "tools", "without": ["write"]}, "it called write"),
        ({"scorer": "roles", "names": ["critic"]}, "critic did not take part"),
        ({"scorer": "roles", "names": ["writer"], "only": True}, "reader took part"),
        ({"scorer": "cost", "max_usd": 0.01}, "it cost $0.02, at most $0.01"),
        ({"scorer": "tokens", "most": 499}, "500 tokens, at most 499"),
        ({"scorer": "seconds", "most": 1}, "2 s, at most 1 s"),
        ({"scorer": "python", "function": f"{__name__}:how_good", "threshold": 0.8}, "0.75 of 1, at least 0.8 passes"),
        ({"scorer": "python", "function": f"{__name__}:is_broken"}, "raised ZeroDivisionError"),
        ({"scorer": "python", "function": f"{__name__}:is_odd"}, "returned 'yes'"),
    ],
)
async def test_a_bad_trajectory_fails_with_the_reason(document: dict[str, Any], reason: str) -> None:
    found = await score(**document)
    assert found.passed is False and reason in found.reason, found


def is_good(trajectory: Trajectory) -> bool:
    return trajectory.completed


async def how_good(trajectory: Trajectory) -> float:
    return 0.75


def is_broken(trajectory: Trajectory) -> bool:
    return bool(1 / 0)


def is_odd(trajectory: Trajectory) -> Any:
    return "yes"


async def test_a_run_that_failed_has_no_answer_to_score() -> None:
    failed = Trajectory("", "failed", "too hard", seconds=0.1)
    assert (await score(failed, scorer="seconds", most=1)).reason == "the run ended failed"
    assert (await score(failed, scorer="cost", max_usd=1)).passed


async def test_calls_that_are_not_recorded_fail_the_expectation() -> None:
    found = await score(Trajectory("x", tool_calls=None), scorer="tools", names=["search"])
    assert found.passed is False and "ARCHON_RECORDS" in found.reason


async def test_a_run_without_a_rating_is_not_scored() -> None:
    assert (await score(scorer="rating")).passed is None
    assert (await score(Trajectory("x", stars=4.5), scorer="rating")).passed
    assert (await score(Trajectory("x", stars=2), scorer="rating")).value == 0.25


async def test_a_model_judges_with_goal_answer_and_reference() -> None:
    asked: list[ModelRequest] = []

    def judge(request: ModelRequest) -> str:
        asked.append(request)
        return 'Here it is: {"reason": "It has the total.", "score": 0.9}'

    found = await score(
        recorded="$1,234", judge=ScriptedModel(judge), scorer="judge", criteria="names it", compare=True
    )
    assert (found.passed, found.value) == (True, 0.9)
    for text in ("names it", "Say the total.", "1234", "$1,234"):
        assert text in asked[0].messages[1].content
    poor = ScriptedModel(['{"score": 0.3, "reason": "It is vague."}'])
    assert (
        "0.3 of 1, at least 0.7 passes: It is vague." in (await score(judge=poor, scorer="judge", criteria="x")).reason
    )


async def test_a_judge_without_a_score_fails_after_a_second_call() -> None:
    silent = ScriptedModel(["Good!", '{"score": 7}'])
    assert "the judge replied no score" in (await score(judge=silent, scorer="judge", criteria="x")).reason
    assert silent.remaining == 0
    broken = ScriptedModel([Unavailable("gone")])
    assert "the judge failed: gone" in (await score(judge=broken, scorer="judge", criteria="x")).reason
    assert "no model judges" in (await score(scorer="judge", criteria="x")).reason
