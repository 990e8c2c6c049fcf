"""A plan as lines: its steps with roles and tools, who uses whose results, and estimates beside the measured values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from archon.api.common.v1 import plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.plain_text import counted, duration
from archon.wire import to_seconds
from archon_services.cli.render.plan_document import estimate_of, in_order
from archon_services.reports.state_names import state_name
from archon_services.reports.texts import cost_text, one_line

WIDTH: Final = 80
"""Characters of a line that only describes."""

MAX_SHOWN: Final = 20
"""Repairs that are listed."""

Line = tuple[str, str]
"""A text, and the state whose colour it has; empty for none."""


def plan_lines(plan: plan_pb2.Plan, run: run_pb2.Run | None = None, now: float = 0.0) -> Iterator[Line]:
    """Yields the lines of a plan. With its `run` they say how the steps went; `now` is in seconds since the epoch."""
    yield one_line(f"plan {plan.revision}: {plan.goal}", WIDTH), ""
    tasks = {task.task_id: task for task in run.tasks} if run is not None else {}
    users = _users(plan.steps)
    width = max((len(step.step_id) for step in plan.steps), default=0)
    for step in in_order(plan.steps):
        state = state_name(step.state) if step.state else ""
        pieces = [f"{step.step_id:<{width}}", step_target(step)]
        task = tasks.get(step.task_id)
        pieces += [state, *took_pieces(step, task, now)] if state else estimate_pieces(step)
        pieces += [f"attempt {task.attempt}"] if task is not None and task.attempt > 1 else []
        pieces += _doubts(step)
        yield "  " + "  ".join(filter(None, pieces)), state
        indent = " " * (width + 4)
        yield indent + one_line(step.description or f"call {step.tool_name}", WIDTH - len(indent)), ""
        if flow := _flow(step, users.get(step.step_id, ())):
            yield indent + flow, ""
        if step.failure.message:
            yield indent + one_line(step.failure.message, 4 * WIDTH), "failed"
    yield from _sums(plan)
    for change in plan.changes[:MAX_SHOWN]:
        yield f"repaired: {one_line(change, 4 * WIDTH)}", ""
    if len(plan.changes) > MAX_SHOWN:
        yield f"repaired: {len(plan.changes) - MAX_SHOWN:,} more", ""


def step_target(step: plan_pb2.PlanStep) -> str:
    """Returns who executes a step, and by which tool: `coder [calculator]`."""
    tool = f"[{step.tool_name}]" if step.tool_name else ""
    return " ".join(filter(None, (step.role or "any role", tool)))


def about(seconds: float) -> str:
    """Formats an estimated time: ~15 s, ~2 m 05 s."""
    return f"~{duration(seconds)}" if seconds >= 60 else f"~{round(seconds, 1):g} s"


def estimate_pieces(step: plan_pb2.PlanStep) -> list[str]:
    """Returns the estimates of a step, as far as there are any."""
    seconds = about(step.estimated_seconds) if step.estimated_seconds else ""
    cost = f"~{cost_text(step.estimated_cost_micro_usd)}" if step.estimated_cost_micro_usd else ""
    return list(filter(None, (seconds, cost)))


def took_pieces(step: plan_pb2.PlanStep, task: run_pb2.Task | None, now: float) -> list[str]:
    """Returns the time and cost of a step so far, each beside its estimate."""
    if task is None or not task.HasField("start_time"):
        return estimate_pieces(step)
    end = to_seconds(task.end_time) if task.HasField("end_time") else now
    took = [duration(max(0.0, end - to_seconds(task.start_time)))]
    if step.estimated_seconds:
        took.append(f"of {about(step.estimated_seconds)}")
    spent = [cost_text(task.usage.cost_micro_usd)]
    if step.estimated_cost_micro_usd:
        spent = [spent[0] or "$0", f"of ~{cost_text(step.estimated_cost_micro_usd)}"]
    return [text for text in (" ".join(took), " ".join(spent)) if text]


def _doubts(step: plan_pb2.PlanStep) -> Iterator[str]:
    if step.critical:
        yield "critical"
    if step.confidence < 1:
        yield f"confidence {step.confidence:.0%}"


def _users(steps: Sequence[plan_pb2.PlanStep]) -> Mapping[str, list[str]]:
    """Returns by step the steps that use its result."""
    users: dict[str, list[str]] = {}
    for step in steps:
        for id_ in step.dependencies:
            users.setdefault(id_, []).append(step.step_id)
    return users


def _flow(step: plan_pb2.PlanStep, users: Sequence[str]) -> str:
    needs = f"needs {', '.join(step.dependencies)}" if step.dependencies else ""
    used = f"used by {', '.join(users)}" if users else ""
    return one_line("; ".join(filter(None, (needs, used))), 2 * WIDTH)


def _sums(plan: plan_pb2.Plan) -> Iterator[Line]:
    estimate = estimate_of(plan)
    if not estimate.seconds and not estimate.cost_micro_usd:
        yield f"{counted(len(plan.steps), 'step')}, without estimates", ""
        return
    pieces = [counted(len(plan.steps), "step")]
    if estimate.seconds:
        pieces.append(f"{about(estimate.span)} from start to end, {about(estimate.seconds)} of work")
    if cost := cost_text(estimate.cost_micro_usd):
        pieces.append(f"~{cost}")
    if estimate.unknown:
        pieces.append(f"{estimate.unknown} without an estimate of time")
    yield ", ".join(pieces), ""
