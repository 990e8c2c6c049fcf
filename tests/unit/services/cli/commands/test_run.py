"""Options of `archon run`."""

from __future__ import annotations

import math

import pytest

from archon.types import Budget
from archon_services.cli.commands import run as command
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.run_options import StrategyName, budget_of


def test_no_budget_options_give_no_budget() -> None:
    assert budget_of(tokens=None, cost=None, depth=None) is None


def test_budget_has_the_given_bounds() -> None:
    budget = budget_of(tokens=5000, cost=0.25, depth=3)
    assert budget == Budget(max_tokens=5000, max_cost_micro_usd=250_000, max_depth=3)
    assert budget_of(tokens=None, cost=None, depth=2) == Budget(max_depth=2)


@pytest.mark.parametrize("cost", [0.0, -1.0, 1e-9, math.nan, math.inf, 1e12])
def test_cost_out_of_range_is_rejected(cost: float) -> None:
    with pytest.raises(CliError, match="--budget-cost") as caught:
        budget_of(tokens=None, cost=cost, depth=None)
    assert caught.value.code == USAGE


def test_strategy_agent_with_two_roles_is_rejected() -> None:
    with pytest.raises(CliError, match="one --role, not 2") as caught:
        command.run("x", role=["cook", "waiter"], strategy=StrategyName.AGENT)
    assert caught.value.code == USAGE
