"""A plan as JSON: the form that planners reply and `archon plan edit` reads, with further fields; and its estimates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from archon.api.common.v1 import common_pb2, plan_pb2
from archon.types import PlanStep
from archon_services.reports.state_names import state_name


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimates of a plan's steps added up: seconds of all steps together and from start to end, and millionths of
    a US dollar. `unknown` is the number of steps without an estimate of time."""

    seconds: float
    span: float
    cost_micro_usd: int
    unknown: int


def estimate_of(plan: plan_pb2.Plan) -> Estimate:
    """Adds up the estimates of a plan. Steps that do not depend on each other run at the same time."""
    ends: dict[str, float] = {}
    for step in in_order(plan.steps):
        upstream = sorted(ends.get(id_, 0.0) for id_ in step.dependencies)
        starts = upstream[min(step.quorum or len(upstream), len(upstream)) - 1] if upstream else 0.0
        ends[step.step_id] = starts + step.delay_seconds + step.estimated_seconds
    return Estimate(
        sum(step.estimated_seconds for step in plan.steps),
        max(ends.values(), default=0.0),
        sum(step.estimated_cost_micro_usd for step in plan.steps),
        sum(not step.estimated_seconds for step in plan.steps),
    )


def in_order(steps: Iterable[plan_pb2.PlanStep]) -> list[plan_pb2.PlanStep]:
    """Returns the steps, each after those that it depends on, else in their order."""
    waiting, done, ordered = list(steps), set[str](), list[plan_pb2.PlanStep]()
    ids = {step.step_id for step in waiting}
    while waiting:
        ready = [step for step in waiting if done.issuperset(ids.intersection(step.dependencies))]
        ordered += ready or waiting
        done.update(step.step_id for step in ready)
        waiting = [step for step in waiting if step.step_id not in done] if ready else []
    return ordered


def plan_document(plan: plan_pb2.Plan) -> dict[str, Any]:
    """Returns the plan as a JSON object."""
    estimate = estimate_of(plan)
    document: dict[str, Any] = {"goal": plan.goal, "revision": plan.revision}
    if plan.change_seq:
        document["change_seq"] = plan.change_seq
    document["subtasks"] = [_step(step) for step in plan.steps]
    if plan.changes:
        document["changes"] = list(plan.changes)
    return document | {
        "estimated_seconds": estimate.seconds,
        "estimated_span_seconds": estimate.span,
        "estimated_cost_micro_usd": estimate.cost_micro_usd,
    }


def _step(step: plan_pb2.PlanStep) -> dict[str, Any]:
    known = PlanStep.from_proto(step).document()
    if step.state != common_pb2.TASK_STATE_UNSPECIFIED:
        known["state"] = state_name(step.state)
    return known
