"""Reads the plan of a run, as its contract has it, as a value."""

from __future__ import annotations

import json
from typing import Any

from archon.api.common.v1 import common_pb2, plan_pb2
from archon_mesh.core.plan import SubTask, SubTaskStatus, Task

_COMPLETED = common_pb2.TASK_STATE_COMPLETED


def task_of_plan(plan: plan_pb2.Plan, query: str) -> Task:
    """Returns the plan of an ended run. Its steps have no results: they completed, or were skipped."""
    subtasks = tuple(
        SubTask(
            step.step_id,
            step.description,
            step.expected_output,
            step.tool_name,
            _object(step.tool_args_json),
            tuple(step.dependencies),
            SubTaskStatus.COMPLETED if step.state == _COMPLETED else SubTaskStatus.SKIPPED,
            role=step.role,
            capability=step.capability,
            expand=step.expand,
        )
        for step in plan.steps
    )
    return Task("", query, plan.goal, subtasks, _object(plan.context_json))


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text) if text else {}
    return value
