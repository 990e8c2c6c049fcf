"""Plans: as an event, as callers and planners see them, and the roles that their steps may go to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import capability_pb2, common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.registry import Registration
from archon.registry.convert import registration_to_proto
from archon_mesh.engine import RunState, Task
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import PlanTarget
from archon_services.orchestrator.convert.failures import failure_to_proto
from archon_services.orchestrator.convert.task import state_to_proto

MAX_TARGETS_BYTES: Final = 512 * 1024
"""Size of the descriptions of roles in a request to a planner, above which schemas and then descriptions of tools are
left out."""

MAX_RESULT_BYTES: Final = 1024 * 1024
"""Size of the results in a request for a replan; further ones are left out."""


def read_planned(event: run_pb2.RunEvent) -> ev.Planned:
    source = event.planned.plan
    steps = tuple(_step_from_proto(step) for step in source.steps)
    plan = Plan("", "", source.goal, steps, _object(source.context_json))
    by = event.planned.identity, event.planned.edit_id
    return ev.Planned(
        event.task.task_id,
        source.revision,
        plan,
        tuple(source.changes),
        *by,
        expansion=event.planned.expansion,
        reason=event.planned.reason,
    )


def write_planned(out: run_pb2.RunEvent, event: ev.Planned) -> None:
    target = out.planned.plan
    target.goal, target.revision, target.context_json = event.plan.goal, event.revision, _json(event.plan.context)
    target.changes.extend(event.changes)
    for step in event.plan.subtasks:
        _write_step(step, target.steps.add())
    out.planned.identity, out.planned.edit_id = event.identity, event.edit_id
    out.planned.expansion, out.planned.reason = event.expansion, event.reason


def _step_from_proto(source: plan_pb2.PlanStep) -> SubTask:
    return SubTask(
        source.step_id,
        source.description,
        source.expected_output,
        source.tool_name,
        _object(source.tool_args_json),
        tuple(source.dependencies),
        role=source.role,
        capability=source.capability,
        critical=source.critical,
        partial_input=source.partial_input,
        expand=source.expand,
        expand_on_failure=source.expand_on_failure,
        confidence=source.confidence,
        estimated_seconds=source.estimated_seconds,
        estimated_cost_micro_usd=source.estimated_cost_micro_usd,
        checkpoint=source.checkpoint,
        output_schema=_object(source.output_schema_json),
        exact=source.exact,
        quorum=source.quorum,
        delay_seconds=source.delay_seconds,
        delay_quantile=source.delay_quantile,
        decision=source.decision,
        timeout_seconds=source.timeout_seconds,
        assigned_by=source.assigned_by,
        bid_for=source.bid_for,
    )


def _write_step(step: SubTask, target: plan_pb2.PlanStep) -> None:
    target.step_id, target.description, target.expected_output = step.id, step.description, step.expected_output
    target.tool_name, target.tool_args_json = step.tool_name, _json(step.tool_args)
    target.dependencies.extend(step.dependencies)
    target.role, target.capability = step.role, step.capability
    target.critical, target.partial_input, target.confidence = step.critical, step.partial_input, step.confidence
    target.expand, target.expand_on_failure = step.expand, step.expand_on_failure
    target.exact = step.exact
    target.quorum, target.delay_seconds, target.decision = step.quorum, step.delay_seconds, step.decision
    target.delay_quantile = step.delay_quantile
    target.timeout_seconds, target.assigned_by, target.bid_for = step.timeout_seconds, step.assigned_by, step.bid_for
    target.estimated_seconds = step.estimated_seconds
    target.estimated_cost_micro_usd = step.estimated_cost_micro_usd
    target.checkpoint = step.checkpoint
    target.output_schema_json = _json(step.output_schema)


def write_plan(run: RunState, target: plan_pb2.Plan, *, results: bool = False) -> None:
    """Writes the plan in force with the states of its steps; with `results` also their results, as far as
    MAX_RESULT_BYTES allow."""
    plan = run.plan
    assert plan is not None
    target.goal, target.revision, target.change_seq = plan.goal, plan.revision, plan.seq
    target.context_json = _json(plan.context)
    target.changes.extend(plan.changes)
    size = 0
    for id_, step in plan.steps.items():
        out = target.steps.add()
        _write_step(step, out)
        task = run.tasks[plan.tasks[id_]]
        out.task_id, out.state = task.task_id, state_to_proto(task.state)
        if task.failure is not None:
            out.failure.CopyFrom(failure_to_proto(task.failure))
        if results and (parts := output_of(task)):
            size += sum(part.ByteSize() for part in parts)
            if size <= MAX_RESULT_BYTES:
                out.result.extend(parts)


def output_of(task: Task) -> Iterable[common_pb2.Part]:
    """Returns the answer of a completed task."""
    return task.payload.output if isinstance(task.payload, agent_pb2.TaskResult) else ()


class Average(Protocol):
    """The average time and cost of a role's tasks."""

    seconds: float
    cost_micro_usd: float


def plan_target(instance: Registration, average: Average | None = None) -> plan_pb2.PlanTarget:
    """Returns a role as its planner sees it: as one of its instances has registered it, with the measured `average` of
    its tasks, if there is one, in place of its own estimate."""
    registered = registration_to_proto(instance)
    target = plan_pb2.PlanTarget(role=instance.role, description=instance.description)
    target.capabilities.extend(registered.capabilities)
    target.tools.extend(registered.tools)
    for tool in target.tools:
        tool.ClearField("share")  # changes all the time, and is of no use to a planner
    if registered.HasField("profile"):
        target.profile.CopyFrom(registered.profile)
    if average is not None:
        target.profile.expected_latency_ms = round(average.seconds * 1000)
        target.profile.expected_cost_micro_usd = round(average.cost_micro_usd)
    return target


def within_size(targets: list[plan_pb2.PlanTarget]) -> list[plan_pb2.PlanTarget]:
    """Returns the targets; if they are too large together, with less about their tools and capabilities."""
    cuts: tuple[Callable[[plan_pb2.PlanTarget], None], ...] = (_without_schemas, _without_descriptions)
    for cut in cuts:
        if sum(target.ByteSize() for target in targets) <= MAX_TARGETS_BYTES:
            break
        for target in targets:
            cut(target)
    return targets


def _without_schemas(target: plan_pb2.PlanTarget) -> None:
    for tool in target.tools:
        tool.ClearField("input_schema_json")
        tool.ClearField("output_schema_json")


def _without_descriptions(target: plan_pb2.PlanTarget) -> None:
    names = [capability_pb2.Tool(name=tool.name) for tool in target.tools]
    ids = [capability_pb2.Capability(id=capability.id) for capability in target.capabilities]
    del target.tools[:], target.capabilities[:]
    target.tools.extend(names)
    target.capabilities.extend(ids)
    if target.HasField("profile"):
        for field in ("instructions", "prompt_template", "message_types"):
            target.profile.ClearField(field)


def target_from_proto(source: plan_pb2.PlanTarget) -> PlanTarget:
    """Converts the part of a target that the engine needs; the rest stays in the submission."""
    capabilities = tuple(capability.id for capability in source.capabilities)
    return PlanTarget(
        source.role,
        source.description,
        False,
        capabilities,
        tuple(tool.name for tool in source.tools),
        source.profile.expected_latency_ms / 1000,
        source.profile.expected_cost_micro_usd,
    )


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else ""


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text) if text else {}
    return value
