"""Chooses the role of each step of a plan: the one that it names, or one that offers its capability and tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from archon_mesh.core.text_index import Field, TextIndex
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import PlanTarget


def assigned(plan: Plan, targets: Sequence[PlanTarget]) -> Plan:
    """Returns the plan in which every step that has not ended names its role, and has the estimates of its role if it
    has none of its own."""
    index = TextIndex({target.role: _fields(target) for target in targets})
    by_role = {target.role: target for target in targets}

    def with_role(step: SubTask) -> SubTask:
        if step.has_ended or step.expand or (step.decision and not step.role):
            return step
        return _estimated(replace(step, role=_role(step, targets, index)), by_role)

    return replace(plan, subtasks=tuple(map(with_role, plan.subtasks)))


def _estimated(step: SubTask, targets: Mapping[str, PlanTarget]) -> SubTask:
    target = targets.get(step.role)
    if target is None or not (target.seconds or target.cost_micro_usd):
        return step
    return replace(
        step,
        estimated_seconds=step.estimated_seconds or target.seconds,
        estimated_cost_micro_usd=step.estimated_cost_micro_usd or target.cost_micro_usd,
    )


def binding_faults(plan: Plan, targets: Sequence[PlanTarget]) -> Iterable[tuple[str, str]]:
    """Yields the steps that no role can execute, each with the fault: no role offers all that such a step names, though
    each of the names exists."""
    by_id = {step.id: step for step in plan.subtasks}
    for step in plan.subtasks:
        if not step.has_ended and (wanted := by_id.get(step.bid_for)) is not None:
            step = replace(step, tool_name=wanted.tool_name, capability=step.capability or wanted.capability)
        if not step.has_ended and (step.tool_name or step.capability) and not _able(step, targets):
            names = [f"the tool {step.tool_name!r}"] if step.tool_name else []
            names += [f"the capability {step.capability!r}"] if step.capability else []
            role = f"the role {step.role!r}" if step.role else "no role"
            verb = "does not have" if step.role else "has"
            yield step.id, f"subtask {step.id!r}: {role} {verb} {' and '.join(names)}"


def _role(step: SubTask, targets: Sequence[PlanTarget], index: TextIndex) -> str:
    """The first role that can execute the step: with its name if it has one, else with the tool and the capability; of
    a step that needs neither, the role that its description fits best."""
    if able := _able(step, targets):
        if step.role or step.tool_name or step.capability:
            return able[0].role
    elif holders := [target for target in targets if step.tool_name and step.tool_name in target.tools]:
        return holders[0].role  # the tool decides: without it the step cannot be executed at all
    elif offering := [target for target in targets if step.capability in target.capabilities]:
        return offering[0].role
    if matches := index.search(step.description):
        return matches[0].name
    return targets[0].role if targets else step.role


def _able(step: SubTask, targets: Sequence[PlanTarget]) -> list[PlanTarget]:
    return [
        target
        for target in targets
        if step.role in ("", target.role)
        and (not step.tool_name or step.tool_name in target.tools)
        and (not step.capability or step.capability in target.capabilities)
    ]


def _fields(target: PlanTarget) -> tuple[Field, ...]:
    return (
        Field(target.role, 2.0),
        Field(target.description, 2.0),
        Field(" ".join((*target.capabilities, *target.tools))),
    )
