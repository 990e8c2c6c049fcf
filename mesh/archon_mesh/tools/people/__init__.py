"""Tools that ask a person, and the function by which any tool can."""

from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion, answered_by, ask_person
from archon_mesh.tools.people.tools import HumanApprovalTool, HumanGuidanceTool, HumanInputTool

__all__ = [
    "HumanApprovalTool",
    "HumanGuidanceTool",
    "HumanInputTool",
    "PersonAnswer",
    "PersonQuestion",
    "answered_by",
    "ask_person",
]
