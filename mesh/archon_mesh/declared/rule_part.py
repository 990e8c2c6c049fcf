"""The parts of files that declare rules by which a person is asked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from archon_mesh.core.people.terms import DEFAULT_TIMEOUT, MAX_APPROVERS, MAX_DEFAULT, MAX_TIMEOUT
from archon_mesh.declared.part import Part


class TermsPart(Part):
    """The fields of all rules."""

    name: str = Field(
        default="", max_length=100, description="its name in questions and events; by default the trigger"
    )
    priority: int = Field(
        default=0, ge=-1_000, le=1_000, description="of several rules that match, the one with the highest asks"
    )
    approvers: list[str] = Field(
        default_factory=list, max_length=MAX_APPROVERS, description="identities that may answer; by default anyone"
    )
    timeout: float = Field(
        default=DEFAULT_TIMEOUT, gt=0, le=MAX_TIMEOUT, description="seconds to answer, for each approver if escalated"
    )
    on_timeout: Literal["abort", "default", "escalate"] = Field(
        default="abort",
        description="the action: the run fails, the default answer counts, the next approver is asked",
    )
    default: str = Field(
        default="",
        max_length=MAX_DEFAULT,
        description="the default answer: `approve`, `reject`, or for a tool its arguments as one JSON object",
    )
    message: str = Field(default="", max_length=4_000, description="text of the question; by default its subject")


class ToolRulePart(TermsPart):
    """Before which calls of tools a person is asked."""

    tool: str = Field(
        default="", description="pattern of the tool's name, such as `mail.*`; by default dangerous tools"
    )


class RulePart(TermsPart):
    """A rule of the mesh, by which a person is asked."""

    trigger: Literal["plan", "replan", "checkpoint", "confidence", "error"] = Field(
        description="the point at which the rule applies"
    )
    role: str = Field(default="", description="pattern of the role, such as `build*`")
    tenant: str = Field(default="", description="pattern of the tenant")
    step: str = Field(default="", description="pattern of the step's id")
    confidence_below: float | None = Field(
        default=None, gt=0, le=1, description="only plans with a step of less confidence of the planner"
    )
    severity_at_least: Literal["low", "medium", "high", "critical"] | None = Field(
        default=None, description="only failures of this severity or above"
    )
    cost_above: float | None = Field(
        default=None, ge=0, description="only above this cost in US dollars: of a plan as estimated, else as spent"
    )
