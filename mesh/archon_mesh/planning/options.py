"""The options of a task that may be planned."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from archon_mesh.core.people import InterceptionRule
from archon_mesh.engine.plan import ReplanPolicy
from archon_mesh.planning.alignment import AlignmentCheck
from archon_mesh.planning.check import ResultCheck
from archon_mesh.planning.decide import TaskMode
from archon_mesh.planning.events import PlanEventHandler
from archon_mesh.planning.journal import PlanJournal
from archon_mesh.planning.plan_source import PlanSource
from archon_mesh.planning.plan_template import PlanTemplate
from archon_mesh.planning.planner import Approve, Clarify


class TaskOptions(TypedDict, total=False):
    """The options of `Agent.run_task`. Those without a comment are of Planner and PlanExecutor."""

    mode: TaskMode | None
    """How the query is answered; None decides by the query."""
    initial_context: Mapping[str, Any]
    """Values that the plan may use."""
    templates: Sequence[PlanTemplate]
    planner: PlanSource
    """Makes the plan in place of the agent's model, such as a workflow. The query is not decided about."""
    approve: Approve
    clarify: Clarify
    policy: ReplanPolicy
    check: ResultCheck
    alignment: AlignmentCheck
    max_parallel: int
    max_attempts: int
    timeout: float
    rules: Sequence[InterceptionRule]
    """When people are asked about the plan, as by the rules of a mesh: before a plan begins, about the result of a
    step, after a failure."""
    max_tokens: int
    max_model_calls: int
    max_cost: float
    max_seconds: float
    """The budget of the whole plan, as in PlanBudget."""
    pause_timeout: float
    """Seconds that the plan may be paused, or wait for a person, at a stretch; 0: no limit."""
    on_event: PlanEventHandler
    journal: PlanJournal | str | os.PathLike[str]
    """Where the task is kept, so that another process can go on with it: the path of a file, or a PlanJournal."""
