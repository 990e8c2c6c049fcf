"""What a run may spend, as a command line says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.api.common.v1.common_pb2 import Budget

MOST_TOKENS: Final = 10**12
MOST_DEPTH: Final = 32
MOST_USD: Final = 1_000_000


def budget_of(*, tokens: int | None, cost: float | None, depth: int | None) -> Budget | None:
    """None where nothing is bounded. Raises CliError for money that is none."""
    if tokens is None and cost is None and depth is None:
        return None
    from archon.api.common.v1 import common_pb2

    micro = 0
    if cost is not None:
        # Not so for NaN, either. Less than a millionth would be no bound at all.
        if not 1e-6 <= cost <= MOST_USD:
            raise CliError(f"--budget-cost takes 0.000001 to {MOST_USD:,} US dollars, not {cost:g}", code=USAGE)
        micro = round(cost * 1_000_000)
    return common_pb2.Budget(max_tokens=tokens or 0, max_cost_micro_usd=micro, max_depth=depth or 0)
