"""Budgets, amounts, and the event of a reservation."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Amount, Budget
from archon_services.orchestrator.convert.failures import failure_to_proto, optional_failure


def budget_from_proto(budget: common_pb2.Budget) -> Budget:
    """Converts a budget, without its time, which is the run's timeout."""
    return Budget(budget.max_tokens, budget.max_cost_micro_usd, budget.max_depth, budget.max_model_calls)


def amount_from_usage(usage: common_pb2.Usage) -> Amount:
    """Converts a usage to an amount of budget. A negative count is a member's mistake and counts as 0."""
    tokens = max(0, usage.input_tokens) + max(0, usage.output_tokens)
    return Amount(tokens, max(0, usage.cost_micro_usd), max(0, usage.model_calls))


def amount_from_budget(budget: common_pb2.Budget) -> Amount:
    """Converts an amount of budget. A negative number is a member's mistake and counts as 0."""
    return Amount(max(0, budget.max_tokens), max(0, budget.max_cost_micro_usd), max(0, budget.max_model_calls))


def amount_to_proto(amount: Amount, target: common_pb2.Budget) -> None:
    """Writes an amount. It is present even if it is zero: a budget of zero is not the same as no budget."""
    target.SetInParent()
    target.max_tokens, target.max_cost_micro_usd = amount.tokens, amount.cost
    target.max_model_calls = amount.calls


def read_reserved(event: run_pb2.Dispatched | run_pb2.BudgetReserved) -> Amount | None:
    """Reads a reservation, None if the run has no budget."""
    if not event.HasField("budget"):
        return None
    return amount_from_budget(event.budget)


def read_budget_reserved(event: run_pb2.RunEvent) -> ev.Event:
    source = event.budget_reserved
    reserved = read_reserved(source)
    return ev.BudgetReserved(
        event.task.task_id,
        event.task.attempt,
        source.request_id,
        source.sequence,
        reserved,
        optional_failure(source),
    )


def write_budget_reserved(out: run_pb2.RunEvent, event: ev.BudgetReserved) -> None:
    out.budget_reserved.request_id, out.budget_reserved.sequence = event.request_id, event.sequence
    if event.reserved is not None:
        amount_to_proto(event.reserved, out.budget_reserved.budget)
    if event.failure is not None:
        out.budget_reserved.failure.CopyFrom(failure_to_proto(event.failure))
