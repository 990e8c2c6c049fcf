"""Planning: plans, a planner that makes them with a model, and their execution in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.lazy_names import lazy_names
from archon_mesh.engine.plan import (
    InvalidPlan,
    Plan,
    PlanCycle,
    ReplanPolicy,
    SubTask,
    SubTaskStatus,
    Task,
    carry_over,
    fill_arguments,
    find_faults,
    ready_subtasks,
    repair,
    replan_reason,
    skip_dependants,
)
from archon_mesh.planning.alignment import Alignment, AlignmentCheck, align_by_model
from archon_mesh.planning.attempts import Measured
from archon_mesh.planning.check import CheckedResult, check_by_model, check_by_rules
from archon_mesh.planning.decide import Decision, TaskMode, decide
from archon_mesh.planning.errors import MalformedPlan, PlanFailed, PlanNotApproved
from archon_mesh.planning.events import PlanEvent, PlanEventKind
from archon_mesh.planning.executor import PlanExecutor
from archon_mesh.planning.journal import FileJournal, JournalInUse, JournalMismatch, PlanJournal
from archon_mesh.planning.parse import parse_changes, parse_context, parse_plan
from archon_mesh.planning.patterns import auction, committee, debate, hedged, redundant, settled
from archon_mesh.planning.plan_budget import PlanBudget
from archon_mesh.planning.plan_question import PlanQuestion
from archon_mesh.planning.plan_template import PlanTemplate
from archon_mesh.planning.planner import Planner, create_plan
from archon_mesh.planning.swarm import swarm
from archon_mesh.planning.task_outcome import TaskOutcome
from archon_mesh.planning.worker import Spending, Worker

if TYPE_CHECKING:
    from archon_mesh.engine.plan.drawing import to_dot, to_mermaid, to_svg

__all__ = [
    "Alignment",
    "AlignmentCheck",
    "CheckedResult",
    "Decision",
    "FileJournal",
    "InvalidPlan",
    "JournalInUse",
    "JournalMismatch",
    "MalformedPlan",
    "Measured",
    "Plan",
    "PlanBudget",
    "PlanCycle",
    "PlanEvent",
    "PlanEventKind",
    "PlanExecutor",
    "PlanFailed",
    "PlanJournal",
    "PlanNotApproved",
    "PlanQuestion",
    "PlanTemplate",
    "Planner",
    "ReplanPolicy",
    "Spending",
    "SubTask",
    "SubTaskStatus",
    "Task",
    "TaskMode",
    "TaskOutcome",
    "Worker",
    "align_by_model",
    "auction",
    "carry_over",
    "check_by_model",
    "check_by_rules",
    "committee",
    "create_plan",
    "debate",
    "decide",
    "fill_arguments",
    "find_faults",
    "hedged",
    "parse_changes",
    "parse_context",
    "parse_plan",
    "ready_subtasks",
    "redundant",
    "repair",
    "replan_reason",
    "settled",
    "skip_dependants",
    "swarm",
    "to_dot",
    "to_mermaid",
    "to_svg",
]

# The drawings import networkx.
__getattr__ = lazy_names(__name__, dict.fromkeys(("to_dot", "to_mermaid", "to_svg"), "archon_mesh.engine.plan.drawing"))
