"""What goes wrong in an agent, in the one tree of errors."""

from __future__ import annotations

from collections.abc import Iterable

from archon.errors import Internal, InvalidArgument, NotFound, ResourceExhausted


class HookError(Internal):
    """A hook raised, or decided what it may not; the message names it. The run fails, the process goes on."""


class IterationLimit(ResourceExhausted):
    """No answer within the iterations that there were. `found` is what the agent said and learned so far."""

    def __init__(self, message: str, found: str) -> None:
        super().__init__(message)
        self.found = found


class ToolPolicyViolation(ResourceExhausted):
    """A tool was called that the policy of the agent doesn't allow, or more often than it does."""


class SubAgentNotFoundError(NotFound):
    """No sub-agent has this key; the message lists those that there are."""

    def __init__(self, key: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no sub-agent {key!r}; known are: {', '.join(known) or 'none'}")
        self.key = key


class NotAnAgent(InvalidArgument, TypeError):
    """Something else where an agent is wanted."""
