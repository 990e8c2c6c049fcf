"""One step of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final


class SubTaskStatus(StrEnum):
    """The state of a subtask."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


ENDED: Final = frozenset({SubTaskStatus.COMPLETED, SubTaskStatus.FAILED, SubTaskStatus.SKIPPED})
"""The states that a subtask does not leave, except by a replan."""

WAITING: Final = frozenset({SubTaskStatus.PENDING})
"""The states from which a subtask may start."""


@dataclass(frozen=True, slots=True)
class SubTask:
    """A step of a plan. `dependencies` are the ids of the subtasks whose results it needs.

    A subtask with a `tool_name` uses that tool only; its `tool_args` may have `{key}` templates, as in
    `fill_arguments`. One with a `role` or a `capability` goes to another agent. One with none of them only thinks.
    The result of a subtask with an `output_schema`, a JSON Schema, is JSON that matches it. An `exact` one, which a
    workflow makes, calls its tool with its arguments as they are, or fails: no model is asked for them, and whatever
    the tool returns is the result, with its type.
    `result` is text or a JSON value; of a failed subtask it is the error's message.

    A subtask with a `quorum` starts as soon as that many of its dependencies have completed; the others are cancelled
    unless another subtask needs them. 0 means all. One with `delay_seconds` starts so long after its dependencies, or
    as soon as a dependency beside it fails, and not at all if it is not needed any more by then. With a
    `delay_quantile` of 0.95 it starts after the time, from the dispatch of the subtask beside it on, within which so
    large a part of the role's attempts ended, and after `delay_seconds` while too few are measured. The result of one
    with a `decision` is chosen from the results of its dependencies, by the rule with this name and the arguments in
    `tool_args`; if the rule leaves it undecided, the `role` decides, and without a role the subtask fails. One with
    `timeout_seconds` fails so long after it may start. One with `assigned_by`, a dependency with a decision, is
    executed by the role that made the chosen result, and if it can be by the same instance; by its own `role` if that
    dependency has not completed. The result of one with `bid_for` is a bid for the subtask with this id, which it does
    not execute.

    A plan is made anew at once if a `critical` subtask fails. One with `partial_input` may start when a dependency has
    failed or was skipped. A rule may have a person approve the result of a `checkpoint`. With `expand`, the planner is
    asked for the subtask's replacement once its dependencies have completed; with `expand_on_failure`, once it has
    failed. `confidence` is the planner's own, from 0 to 1. The estimates are the planner's; cost is in millionths of a
    US dollar.
    """

    id: str
    description: str
    expected_output: str = ""
    tool_name: str = ""
    tool_args: Mapping[str, Any] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    status: SubTaskStatus = SubTaskStatus.PENDING
    result: Any = None
    role: str = field(default="", kw_only=True)
    capability: str = field(default="", kw_only=True)
    critical: bool = field(default=False, kw_only=True)
    partial_input: bool = field(default=False, kw_only=True)
    expand: bool = field(default=False, kw_only=True)
    expand_on_failure: bool = field(default=False, kw_only=True)
    estimated_seconds: float = field(default=0.0, kw_only=True)
    estimated_cost_micro_usd: int = field(default=0, kw_only=True)
    confidence: float = field(default=1.0, kw_only=True)
    checkpoint: bool = field(default=False, kw_only=True)
    output_schema: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    quorum: int = field(default=0, kw_only=True)
    delay_seconds: float = field(default=0.0, kw_only=True)
    delay_quantile: float = field(default=0.0, kw_only=True)
    decision: str = field(default="", kw_only=True)
    timeout_seconds: float = field(default=0.0, kw_only=True)
    assigned_by: str = field(default="", kw_only=True)
    bid_for: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool_args", dict(self.tool_args))
        object.__setattr__(self, "output_schema", dict(self.output_schema))
        object.__setattr__(self, "dependencies", tuple(self.dependencies))
        object.__setattr__(self, "status", SubTaskStatus(self.status))

    @property
    def has_ended(self) -> bool:
        """Whether the subtask completed, failed or was skipped."""
        return self.status in ENDED

    def with_status(self, status: SubTaskStatus) -> SubTask:
        """Returns the subtask with another status."""
        return replace(self, status=status)

    def with_result(self, result: Any) -> SubTask:
        """Returns the subtask with a result, completed."""
        return replace(self, result=result, status=SubTaskStatus.COMPLETED)

    @property
    def needed(self) -> int:
        """How many of the dependencies have to complete."""
        count = len(set(self.dependencies))
        return min(self.quorum, count) if self.quorum > 0 else count

    def is_ready(self, completed_task_ids: Collection[str]) -> bool:
        """Tells whether the subtask waits, and as many of its dependencies as it needs are completed."""
        return self.status in WAITING and self.has_enough(completed_task_ids)

    def has_enough(self, completed_task_ids: Collection[str]) -> bool:
        """Tells whether as many of the dependencies as the subtask needs are completed."""
        return sum(id_ in completed_task_ids for id_ in set(self.dependencies)) >= self.needed
