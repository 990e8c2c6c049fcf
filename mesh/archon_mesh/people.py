"""People: the rules by which they are asked, and the tools that ask them."""

from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger
from archon_mesh.declared.rules import load_rules
from archon_mesh.tools.people import (
    HumanApprovalTool,
    HumanGuidanceTool,
    HumanInputTool,
    PersonAnswer,
    PersonQuestion,
    answered_by,
    ask_person,
)

__all__ = [
    "Condition",
    "HumanApprovalTool",
    "HumanGuidanceTool",
    "HumanInputTool",
    "InterceptionRule",
    "PersonAnswer",
    "PersonQuestion",
    "TimeoutPolicy",
    "Trigger",
    "answered_by",
    "ask_person",
    "load_rules",
]
