"""Plans as JSON: in the inputs of a step, and in commands that are forwarded."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan

_STEP = tuple(field.name for field in fields(SubTask))


def plan_to_json(plan: Plan) -> str:
    """Encodes a plan. Arguments and context must be JSON values."""
    steps = [{name: getattr(step, name) for name in _STEP} for step in plan.subtasks]
    whole = {
        "id": plan.id,
        "original_query": plan.original_query,
        "goal": plan.goal,
        "subtasks": steps,
        "context": plan.context,
    }
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)


def plan_from_json(text: str) -> Plan:
    """Decodes the text of `plan_to_json`; fields that it does not know are left out. Raises ValueError, KeyError or
    TypeError if it is something else."""
    whole: dict[str, Any] = json.loads(text)
    steps = tuple(SubTask(**{name: step[name] for name in _STEP if name in step}) for step in whole["subtasks"])
    return Plan(whole["id"], whole["original_query"], whole["goal"], steps, whole["context"])
