"""The part of a file that makes a role an arbiter."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from archon_mesh.core.people.terms import DEFAULT_TIMEOUT
from archon_mesh.declared.part import Part
from archon_mesh.node.arbiter.options import ARBITER_WAYS


class ArbiterPart(Part):
    """The way in which the role settles conflicts among the answers of steps."""

    ways: list[Literal["method", "verify", "model", "reviewer", "person"]] = Field(
        default_factory=lambda: list(ARBITER_WAYS),  # type: ignore[arg-type]
        min_length=1,
        description="the ways, in the order in which they are tried until one decides: method (asks each role how it "
        "got its answer, and shows it the others), verify (has a role check each answer), model (its own), reviewer "
        "(a role), person",
    )
    verifier: str = Field(default="validator", description="the role that checks answers; empty: none does")
    reviewer: str = Field(default="", description="the role that reviews the answers; empty: none does")
    approvers: list[str] = Field(default_factory=list, description="the people who are asked; by default anyone")
    person_seconds: float = Field(default=DEFAULT_TIMEOUT, gt=0, description="seconds that a person has to answer")
    default: str = Field(
        default="", description="the step or answer that counts if no person answers; empty: the next way is tried"
    )
    seconds: float = Field(default=60.0, gt=0, description="seconds that a role has to answer")
    by: str = Field(
        default="", description="the field of JSON answers that is compared; by default answer, if all have it"
    )
    redo: bool = Field(default=False, description="asks the roles whose answers have lost to do their work again")
