"""What `archon run` may be told of strategy and budget, and what `archon demo` says in the end."""

from __future__ import annotations

import math

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.commands import run as command
from archon_services.cli.commands.demo import difference
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options.budget import budget_of


def test_without_any_bound_there_is_no_budget() -> None:
    assert budget_of(tokens=None, cost=None, depth=None) is None


def test_a_budget_has_what_was_bounded() -> None:
    budget = budget_of(tokens=5000, cost=0.25, depth=3)
    assert budget == common_pb2.Budget(max_tokens=5000, max_cost_micro_usd=250_000, max_depth=3)
    assert budget_of(tokens=None, cost=None, depth=2) == common_pb2.Budget(max_depth=2)


@pytest.mark.parametrize("cost", [0.0, -1.0, 1e-9, math.nan, math.inf, 1e12])
def test_money_that_is_none_is_refused(cost: float) -> None:
    with pytest.raises(CliError, match="--budget-cost") as caught:
        budget_of(tokens=None, cost=cost, depth=None)
    assert caught.value.code == USAGE


def test_strategy_agent_with_several_roles_is_refused() -> None:
    with pytest.raises(CliError, match="one --role, not 2") as caught:
        command.run("x", role=["cook", "waiter"], strategy=command.StrategyName.AGENT)
    assert caught.value.code == USAGE


def test_the_demo_tells_how_its_two_runs_differ() -> None:
    pipeline, agent = run_pb2.Run(), run_pb2.Run()
    for role in ("cook", "waiter"):
        pipeline.tasks.add(role=role)
    agent.tasks.add(task_id="t1", role="lead")
    agent.tasks.add(task_id="t2", role="cook", parent_task_id="t1")
    pipeline.usage.model_calls, agent.usage.model_calls = 2, 3
    assert difference(pipeline, agent) == (
        "The pipeline ran 2 tasks along the graph, with 2 model calls. In the agent run, lead chose whom to ask (cook): "
        "1 delegation, 3 model calls."
    )
