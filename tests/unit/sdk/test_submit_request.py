"""What a client sends when it submits."""

from __future__ import annotations

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.submission import submit_request
from archon.types import Budget


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("", run_pb2.STRATEGY_UNSPECIFIED),
        ("pipeline", run_pb2.STRATEGY_PIPELINE),
        ("agent", run_pb2.STRATEGY_AGENT),
        ("plan", run_pb2.STRATEGY_PLAN),
    ],
)
def test_a_strategy_goes_by_its_name(name: str, strategy: run_pb2.Strategy.ValueType) -> None:
    assert submit_request("x", strategy=name).strategy == strategy


@pytest.mark.parametrize("name", ["fly", "AGENT", "unspecified"])
def test_an_unknown_strategy_is_refused_with_the_valid_ones(name: str) -> None:
    with pytest.raises(InvalidArgument, match="agent, pipeline, plan"):
        submit_request("x", strategy=name)


def test_a_submit_has_a_budget_if_one_is_given() -> None:
    budget = Budget(max_tokens=7)
    assert submit_request("x", budget=budget).budget == budget.proto
    assert not submit_request("x").HasField("budget")
