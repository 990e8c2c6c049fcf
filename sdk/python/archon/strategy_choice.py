"""How the mesh would answer a query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """The strategy that fits a query, `agent` or `plan`, the roles to submit it with, and why."""

    strategy: str
    roles: tuple[str, ...]
    reason: str
