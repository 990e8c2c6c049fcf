"""Plans: subtasks and their order, faults and their repair, progress, replans. Pure: nothing is executed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.lazy_names import lazy_names
from archon_mesh.engine.plan.errors import (
    ArgumentsTooLarge,
    DanglingDependency,
    DuplicateSubTask,
    EmptyPlan,
    InvalidPlan,
    MissingKey,
    PlanCycle,
    UnknownSubTask,
)
from archon_mesh.engine.plan.expand import MAX_EXPANSIONS, due_expansions, expanded, expansion_faults
from archon_mesh.engine.plan.faults import MAX_PLAN_SUBTASKS, MAX_SUBTASKS, FaultKind, PlanFault, find_faults
from archon_mesh.engine.plan.order import Plan
from archon_mesh.engine.plan.progress import has_ended, ready_subtasks, skip_dependants
from archon_mesh.engine.plan.repair import repair
from archon_mesh.engine.plan.replan import (
    DEFAULT_POLICY,
    MAX_ALIGNMENT_CHECKS,
    MAX_REPLANS,
    ReplanCounters,
    ReplanPolicy,
    carry_over,
    replan_reason,
)
from archon_mesh.engine.plan.subtask import SubTask, SubTaskStatus
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import fill_arguments, template_values

if TYPE_CHECKING:
    from archon_mesh.engine.plan.drawing import to_dot, to_mermaid, to_svg

__all__ = [
    "DEFAULT_POLICY",
    "MAX_ALIGNMENT_CHECKS",
    "MAX_EXPANSIONS",
    "MAX_PLAN_SUBTASKS",
    "MAX_REPLANS",
    "MAX_SUBTASKS",
    "ArgumentsTooLarge",
    "DanglingDependency",
    "DuplicateSubTask",
    "EmptyPlan",
    "FaultKind",
    "InvalidPlan",
    "MissingKey",
    "Plan",
    "PlanCycle",
    "PlanFault",
    "ReplanCounters",
    "ReplanPolicy",
    "SubTask",
    "SubTaskStatus",
    "Task",
    "UnknownSubTask",
    "carry_over",
    "due_expansions",
    "expanded",
    "expansion_faults",
    "fill_arguments",
    "find_faults",
    "has_ended",
    "ready_subtasks",
    "repair",
    "replan_reason",
    "skip_dependants",
    "template_values",
    "to_dot",
    "to_mermaid",
    "to_svg",
]

# The drawings import networkx.
__getattr__ = lazy_names(__name__, dict.fromkeys(("to_dot", "to_mermaid", "to_svg"), "archon_mesh.engine.plan.drawing"))
