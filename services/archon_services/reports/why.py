"""Explains the dispatches of a run from its events: why each attempt went to its instance, and why it was made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from archon.api.common.v1 import failure_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.learning import LearnedChoices, read_choices
from archon.plain_text import counted, duration
from archon_services.reports.state_names import state_name
from archon_services.reports.texts import cost_text, number, one_line, percent

WIDTH: Final = 80
"""Characters of a line."""

_TABLE: Final = ("instance", "load", "success", "time", "cost", "tasks", "factor")


@dataclass(slots=True)
class AttemptReport:
    """One dispatch of a task, and the reason for the attempt; empty for the first one."""

    number: int
    dispatched: run_pb2.Dispatched
    cause: str = ""
    is_elsewhere: bool = False
    """Whether the failure before advises another instance."""


@dataclass(slots=True)
class TaskReport:
    """A task and its dispatches. `rules` are the rules of the plan that took part, in sentences."""

    task_id: str
    role: str
    step_id: str = ""
    state: str = "submitted"
    attempts: list[AttemptReport] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    _cause: str = ""
    _is_elsewhere: bool = False

    @property
    def label(self) -> str:
        """The name of the task: its role, and its step if it has one."""
        return f"{self.role} ({self.step_id})" if self.step_id and self.role else self.role or self.step_id


class DispatchReport:
    """The tasks of a run with their dispatches, in the order of their creation. `apply` takes the events in order."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskReport] = {}
        self._steps: dict[str, plan_pb2.PlanStep] = {}
        self._choices = LearnedChoices()

    def apply(self, event: run_pb2.RunEvent) -> None:
        """Adds a durable event."""
        kind = event.WhichOneof("event")
        if kind == "submitted":
            self._choices = read_choices(event.submitted.metadata)
            return
        if kind == "planned":
            self._steps |= {step.step_id: step for step in event.planned.plan.steps}
            return
        if kind == "task_state" and event.task.task_id not in self._tasks:
            created = event.task_state
            self._tasks[event.task.task_id] = TaskReport(event.task.task_id, created.role, created.step_id)
            return
        task = self._tasks.get(event.task.task_id)
        if task is None:
            return
        match kind:
            case "task_state":
                task.state = state_name(event.task_state.state)
            case "dispatched":
                task.state, task.role = "working", event.dispatched.role
                attempt = AttemptReport(event.task.attempt, event.dispatched, task._cause, task._is_elsewhere)
                task.attempts.append(attempt)
            case "retry":
                task._cause = f"attempt {event.task.attempt} failed: {_message(event.retry.failure)}"
                task._is_elsewhere = event.retry.failure.retry == failure_pb2.RETRY_ELSEWHERE
            case "rejected":
                task._cause = f"{event.rejected.instance_id} gave it back: {_message(event.rejected.failure)}"
                task._is_elsewhere = False
            case "lost":
                task._cause = f"{event.lost.instance_id} was lost: {_message(event.lost.failure)}"
                task._is_elsewhere = False
            case "result":
                task.state = state_name(event.result.state)
                if not event.task.attempt and event.result.HasField("resolution"):
                    resolution = event.result.resolution
                    task.rules.append(f"decided by the rule {resolution.rule}: {resolution.reason}")

    def tasks(self, name: str = "") -> list[TaskReport]:
        """Returns the tasks with an attempt or a rule; if there is a name, the tasks of this step, role or id."""
        found = [task for task in self._tasks.values() if not name or name in (task.step_id, task.task_id, task.role)]
        for task in found:
            task.rules[:0] = [rule for rule in self._rules(task) if rule not in task.rules]
        return [task for task in found if name or task.attempts or task.rules]

    def names(self) -> list[str]:
        """Returns the names that `tasks` takes: steps, and roles of tasks without a step."""
        return list(dict.fromkeys(task.step_id or task.role for task in self._tasks.values()))

    def _learned(self, task: TaskReport) -> Iterator[str]:
        """The choices that the learned weights made for the role."""
        choice = self._choices.of(task.role)
        of_version = f"of version {self._choices.version} of the learned weights"
        if choice.variant:
            weights = ", ".join(f"{name} {weight:g}" for name, weight in choice.weights.items())
            yield f"the prompt variant {choice.variant}: drawn by the weights {weights}, {of_version}"
        if choice.tools_last:
            yield f"tools offered last: {', '.join(choice.tools_last)}, by their weights {of_version}"
        if choice.weight != 1:
            yield f"the role has the weight {choice.weight:g} {of_version}"
        if choice.instances:
            weights = ", ".join(f"{name} {weight:g}" for name, weight in choice.instances.items())
            yield f"instances have the weights {weights}, {of_version}; their factors below count them"

    def _rules(self, task: TaskReport) -> Iterator[str]:
        yield from self._learned(task)
        step = self._steps.get(task.step_id)
        if step is None:
            return
        if step.assigned_by:
            yield f"the step {step.assigned_by} says who executes it"
        if step.bid_for:
            yield f"it is a bid for the step {step.bid_for}"
        beside = [other for other in self._steps.values() if step.step_id in other.dependencies]
        for other in beside:
            others = [id_ for id_ in other.dependencies if id_ != step.step_id]
            if others and (step.delay_seconds or step.delay_quantile):
                yield f"a hedge: it begins {self._delay(step, others)} if {', '.join(others)} has no result by then"
            elif others and (other.quorum or other.decision):
                rule = f"the rule {other.decision}" if other.decision else f"a quorum of {other.quorum}"
                yield f"{rule} of {other.step_id} compares it with {_listed(others)}: other instances if there are any"

    def _delay(self, step: plan_pb2.PlanStep, others: list[str]) -> str:
        measured = [
            attempt.dispatched.expected_seconds
            for task in self._tasks.values()
            if task.step_id in others
            for attempt in task.attempts[:1]
            if attempt.dispatched.expected_seconds
        ]
        if step.delay_quantile and measured:
            return f"{duration(min(measured))} after the other, the measured time of the role,"
        return f"after {duration(step.delay_seconds)}"


def why_lines(task: TaskReport) -> Iterator[str]:
    """Yields the lines about a task, each at most WIDTH characters, except for long names."""
    yield f"{task.label}  {task.state}"
    for rule in task.rules:
        yield from _wrapped(rule, "  ", "  ")
    if not task.attempts and not task.rules:
        yield "  It was not dispatched."
    for attempt in task.attempts:
        head = f"  attempt {attempt.number}  "
        yield from _wrapped(f"on {attempt.dispatched.instance_id}: {reason_text(attempt)}", head, " " * len(head))
        if attempt.cause:
            yield from _wrapped(f"because {attempt.cause}", " " * len(head), " " * len(head))
        yield from _candidate_lines(attempt.dispatched, "    ")


def reason_text(attempt: AttemptReport) -> str:
    """Returns why the instance was chosen, in a clause."""
    if not attempt.dispatched.HasField("placement"):
        return "no other instance with a free slot could take it"
    placement = attempt.dispatched.placement
    compared = counted(placement.compared, "instance")
    match placement.reason:
        case "least_loaded":
            return f"the least loaded of {compared} with a free slot"
        case "record":
            return f"by load and record the best of {compared} with a free slot, and not the least loaded"
        case "share":
            return f"of {compared} it has waited longest for a task; each gets a part, whatever its record"
        case "preferred":
            return "the decision that assigns the step chose it"
        case "apart":
            passed = "has just failed at it" if attempt.is_elsewhere else "executes a step that it is compared with"
            return f"of {compared} with a free slot, the least loaded; another one was passed over, which {passed}"
    return f"{placement.reason}, of {compared}"


def why_document(task: TaskReport) -> dict[str, Any]:
    """Returns the JSON form of the report about a task."""
    from google.protobuf import json_format

    return {
        "task_id": task.task_id,
        "role": task.role,
        "step_id": task.step_id,
        "state": task.state,
        "rules": task.rules,
        "attempts": [
            {
                "attempt": attempt.number,
                "instance_id": attempt.dispatched.instance_id,
                "why": reason_text(attempt),
                "because": attempt.cause,
                "placement": json_format.MessageToDict(attempt.dispatched.placement, preserving_proto_field_name=True),
            }
            for attempt in task.attempts
        ],
    }


def _candidate_lines(dispatched: run_pb2.Dispatched, indent: str) -> Iterator[str]:
    if not dispatched.placement.candidates:
        return
    rows = [_TABLE, *(_row(candidate) for candidate in dispatched.placement.candidates)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TABLE))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield indent + "  ".join(cells)
    if hidden := dispatched.placement.compared - len(dispatched.placement.candidates):
        yield f"{indent}and {hidden} more"


def _row(candidate: run_pb2.PlacementCandidate) -> tuple[str, ...]:
    record = candidate.metrics
    known = candidate.HasField("metrics")
    return (
        one_line(candidate.instance_id, 32),
        percent(candidate.load),
        percent(record.success_rate) if known else "-",
        duration(record.mean_seconds) if record.mean_seconds else "-",
        cost_text(round(record.mean_cost_micro_usd)) or "-",
        number(record.tasks) if known else "-",
        f"{candidate.factor:.2f}",
    )


def _message(failure: failure_pb2.Failure) -> str:
    return one_line(failure.message or "no reason was given", 200)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    import textwrap

    line = one_line(text, 1_000)
    return textwrap.wrap(
        line, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
