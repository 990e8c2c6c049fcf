"""Errors of plans, part of the error tree of `archon.errors`."""

from __future__ import annotations

from collections.abc import Sequence

from archon.errors import InvalidArgument, NotFound

MAX_SHOWN = 200
"""Characters of an id or a path in a message."""


class InvalidPlan(InvalidArgument):
    """The subtasks are no plan."""


class EmptyPlan(InvalidPlan):
    """The plan has no subtask."""


class DuplicateSubTask(InvalidPlan):
    """Two subtasks have the same id."""


class DanglingDependency(InvalidPlan):
    """A subtask depends on an id that no subtask has."""


class PlanCycle(InvalidPlan):
    """Subtasks depend on each other in a circle. `cycle` has their ids; each depends on the one before it, and the
    first on the last."""

    default_reason = "CYCLE"
    default_kind = "planning.cycle"

    def __init__(self, cycle: Sequence[str]) -> None:
        self.cycle = tuple(cycle)
        path = shown(" -> ".join([*self.cycle, self.cycle[0]]))
        super().__init__(f"the subtasks depend on each other in a circle: {path}", metadata={"cycle": path})

    def __reduce__(self) -> tuple[type[PlanCycle], tuple[tuple[str, ...]]]:
        return type(self), (self.cycle,)


class UnknownSubTask(NotFound):
    """The task has no subtask with this id."""


class MissingKey(InvalidArgument):
    """A template names a value that does not exist. `key` is the text in the template's braces."""

    default_kind = "planning.context_loss"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"no value for the template {{{shown(key)}}}", metadata={"key": shown(key)})

    def __reduce__(self) -> tuple[type[MissingKey], tuple[str]]:
        return type(self), (self.key,)


class ArgumentsTooLarge(InvalidArgument):
    """The arguments of a subtask are too deep, or too large once their templates are filled."""

    default_reason = "MESSAGE_TOO_LARGE"


def shown(text: str) -> str:
    """Returns a text from a plan as messages show it, shortened."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
