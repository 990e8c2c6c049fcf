"""The plan of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan: what is to be done, by which role, and the steps whose results it needs."""

    step_id: str
    description: str
    role: str
    tool_name: str
    dependencies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `reason`: why the planner replaced the one before, if it was asked whether that leads to the goal."""

    revision: int
    goal: str
    steps: tuple[PlanStep, ...]
    reason: str
