"""Values of options of `archon run` that other commands have as well: the strategy and the budget."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.types import Budget

MAX_USD: Final = 1_000_000
"""US dollars of a budget."""


class StrategyName(StrEnum):
    """The strategies of a run."""

    PIPELINE = "pipeline"
    AGENT = "agent"
    PLAN = "plan"


def budget_of(*, tokens: int | None, cost: float | None, depth: int | None, calls: int | None = None) -> Budget | None:
    """Converts the budget options; None if there are none. Raises CliError if the cost is out of range."""
    if tokens is None and cost is None and depth is None and calls is None:
        return None
    from archon.types import Budget

    micro_usd = 0
    if cost is not None:
        # False for NaN as well. Less than a millionth would be rounded to 0, which means no bound.
        if not 1e-6 <= cost <= MAX_USD:
            raise CliError(f"--budget-cost must be 0.000001 to {MAX_USD:,} US dollars, not {cost:g}", code=USAGE)
        micro_usd = round(cost * 1_000_000)
    return Budget(
        max_tokens=tokens or 0, max_cost_micro_usd=micro_usd, max_depth=depth or 0, max_model_calls=calls or 0
    )
