"""Planning: a planner that makes plans with a model, and their execution in this process."""

from archon_mesh.planning.alignment import Alignment, AlignmentCheck, align_by_model
from archon_mesh.planning.attempts import Measured
from archon_mesh.planning.check import CheckedResult, check_by_model, check_by_rules
from archon_mesh.planning.decide import Decision, TaskMode, decide
from archon_mesh.planning.errors import MalformedPlan, PlanFailed, PlanNotApproved
from archon_mesh.planning.events import PlanEvent, PlanEventKind
from archon_mesh.planning.executor import PlanExecutor
from archon_mesh.planning.parse import parse_changes, parse_context, parse_plan
from archon_mesh.planning.planner import Planner, create_plan
from archon_mesh.planning.task_outcome import TaskOutcome
from archon_mesh.planning.worker import Spending, Worker

__all__ = [
    "Alignment",
    "AlignmentCheck",
    "CheckedResult",
    "Decision",
    "MalformedPlan",
    "Measured",
    "PlanEvent",
    "PlanEventKind",
    "PlanExecutor",
    "PlanFailed",
    "PlanNotApproved",
    "Planner",
    "Spending",
    "TaskMode",
    "TaskOutcome",
    "Worker",
    "align_by_model",
    "check_by_model",
    "check_by_rules",
    "create_plan",
    "decide",
    "parse_changes",
    "parse_context",
    "parse_plan",
]
