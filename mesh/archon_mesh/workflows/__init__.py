"""Workflows: templates of plans in YAML, with parameters, conditions, loops, error branches and approvals."""

from archon_mesh.workflows.approval import ApprovalTool
from archon_mesh.workflows.expand import Expansion, Later, StepResult, expand
from archon_mesh.workflows.folder import WorkflowFolder
from archon_mesh.workflows.load import load_workflow
from archon_mesh.workflows.parameters import checked_arguments, json_schema
from archon_mesh.workflows.planner import WorkflowPlanner, WorkflowTemplate
from archon_mesh.workflows.record import Recording, record
from archon_mesh.workflows.workflow import Workflow

__all__ = [
    "ApprovalTool",
    "Expansion",
    "Later",
    "Recording",
    "StepResult",
    "Workflow",
    "WorkflowFolder",
    "WorkflowPlanner",
    "WorkflowTemplate",
    "checked_arguments",
    "expand",
    "json_schema",
    "load_workflow",
    "record",
]
