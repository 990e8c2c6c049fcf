"""A question of a plan to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archon_mesh.engine.plan import Task


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """An open question. An approval wants a decision, any other question an answer.

    `step_id` is the step that asks, or whose result waits; it is empty if the planner asks, or its plan waits. `rule`
    names the rule that asks, `approvers` the identities that may answer (empty: anyone). `seconds_left` is the time to
    answer, None if there is no limit. `schema` is the JSON Schema of the answer, `subject` the action of an approval.
    The `plan`, the `result` of the step or, after a `failure`, the next attempt waits for an approval.
    """

    id: str
    text: str
    is_approval: bool = False
    step_id: str = ""
    rule: str = ""
    approvers: tuple[str, ...] = ()
    seconds_left: float | None = None
    schema: Mapping[str, Any] | None = None
    subject: Mapping[str, Any] | None = None
    plan: Task | None = None
    result: Any = None
    failure: str = ""
