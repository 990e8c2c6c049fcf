"""Errors of an agent's run, part of the error tree of `archon.errors`."""

from __future__ import annotations

from collections.abc import Iterable

from archon.errors import FailedPrecondition, Internal, InvalidArgument, IterationLimit, NotFound, ResourceExhausted
from archon.failure_kinds import MODEL_FORMAT, REFUSAL, TOOL_PERMISSION

__all__ = [
    "HookError",
    "IterationLimit",
    "ModelRefused",
    "NotAnAgent",
    "ReplyCut",
    "SubAgentNotFoundError",
    "ToolPolicyViolation",
]


class HookError(Internal):
    """A hook raised, or returned a decision that its point does not allow. The message names the hook.

    The run fails; the process continues.
    """


class ModelRefused(FailedPrecondition):
    """The model declined the task or replied nothing, and did so again when it was asked to do the part that it can.

    `metadata["partial_answer"]` is the refusal, or else the agent's findings.
    """

    default_kind = REFUSAL


class ReplyCut(FailedPrecondition):
    """The model's replies ended at their length limit again and again, before the answer was complete.

    `metadata["partial_answer"]` is their joined text.
    """

    default_kind = MODEL_FORMAT


class ToolPolicyViolation(ResourceExhausted):
    """The model called a tool that the agent's policy forbids, or more often than the policy allows."""

    default_kind = TOOL_PERMISSION


class SubAgentNotFoundError(NotFound):
    """No sub-agent is registered under this key; the message lists the registered keys."""

    def __init__(self, key: str, registered: Iterable[str]) -> None:
        super().__init__(f"no sub-agent {key!r}; registered: {', '.join(registered) or 'none'}")
        self.key = key


class NotAnAgent(InvalidArgument, TypeError):
    """The object cannot be registered as a sub-agent."""
