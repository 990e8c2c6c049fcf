"""Builds the waterfall of a run from its view and its recorded calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from archon.plain_text import counted
from archon.run_view import Attempt, Delegation, Failure, Resolution, RunView, TaskView, Usage
from archon_services.reports.state_names import task_label
from archon_services.reports.texts import INSUFFICIENT_BUDGET
from archon_services.reports.waterfall.calls import Call
from archon_services.reports.waterfall.critical_path import critical_path
from archon_services.reports.waterfall.idle import IdleTimes
from archon_services.reports.waterfall.spans import Mark, Span, SpanKind, Waterfall

IN_PROGRESS: Final = "the run is in progress: the calls of an attempt appear when it has ended, delegated or asked"

_SKEW: Final = 0.005
"""Seconds by which the times of two clocks may differ without a note."""


def waterfall(view: RunView, calls: Iterable[Call], now: float, notes: Sequence[str] = ()) -> Waterfall:
    """Returns the waterfall. Spans in progress end at `now`, in seconds since the epoch; `notes` come first."""
    builder = _Builder(view, calls, now)
    root = builder.root()
    for number, (_, span) in enumerate(root.walk(), start=1):
        span.number = number
    path = critical_path(root, builder.roots, builder.phases, builder.predecessors())
    notes = [*notes, *builder.notes()]
    return Waterfall(view.run_id, view.strategy or "-", root, path, _marks(view), notes)


class _Builder:
    def __init__(self, view: RunView, calls: Iterable[Call], now: float) -> None:
        self._view = view
        self._calls: dict[tuple[str, int], list[Call]] = defaultdict(list)
        for call in calls:
            self._calls[call.task_id, call.attempt].append(call)
        self._end = view.ended or max(now, view.started)
        self._delegations: list[tuple[Delegation, Span]] = []
        self._shifted: dict[str, float] = {}
        """Seconds by which the calls of an instance were moved."""
        self.phases: dict[str, list[Span]] = {}
        """The attempts of each task and the times between them, in order, by task id."""
        self.roots: list[str] = []
        """Ids of the tasks that no task delegated, as far as the events tell."""

    def root(self) -> Span:
        """Returns the span of the run. The attempts of a delegated task are below the delegation that created it."""
        view = self._view
        state, detail = "paused" if view.paused else view.state, (view.failure or Failure()).message
        root = Span(SpanKind.RUN, view.run_id, view.started, self._end, state, detail)
        for task in view.tasks.values():
            phases = self.phases[task.task_id] = self._phases(task)
            root.spent = sum((phase.spent for phase in phases), root.spent)
        nested = set()
        for delegation, span in self._delegations:
            if delegation.child_task_id in self.phases and not delegation.repeated:
                nested.add(delegation.child_task_id)
                span.children = self.phases[delegation.child_task_id]
        self.roots = [task_id for task_id in self.phases if task_id not in nested]
        root.children = [span for task_id in self.roots for span in self.phases[task_id]]
        return root

    def predecessors(self) -> dict[str, list[str]]:
        """Returns the ids of the tasks that a task waits for, by task id."""
        view = self._view
        return {id_: [task.task_id for task in view.predecessors(task)] for id_, task in view.tasks.items()}

    def notes(self) -> Iterator[str]:
        """Yields notes about missing data and corrections."""
        missing: dict[str, int] = defaultdict(int)
        for task in self._view.tasks.values():
            for attempt in task.attempts:
                recorded = sum(call.kind == "model" for call in self._calls.get((task.task_id, attempt.number), ()))
                missing[task.role] += max(0, (attempt.usage or Usage()).model_calls - recorded)
        for role, count in missing.items():
            if count:
                yield f"not recorded: {counted(count, 'model call')} of {role}; the time counts as the agent's own work"
        for instance, seconds in self._shifted.items():
            yield f"the calls of {instance} are moved by {seconds:+.3f} s: its clock differs from the orchestrator's"
        if not self._view.ended:
            yield IN_PROGRESS

    def _phases(self, task: TaskView) -> list[Span]:
        if task.reused:
            return [Span(SpanKind.ATTEMPT, task_label(task), task.created, task.created, "reused", "", task.task_id)]
        idle = IdleTimes(self._view, task, self._end)
        phases: list[Span] = []
        since, previous = task.created, None
        for attempt in task.attempts:
            phases += idle.between(since, attempt.started, previous)
            phases.append(self._attempt(task, attempt))
            since, previous = phases[-1].end, attempt
        if previous is None or previous.ended:
            phases += idle.between(since, task.ended or self._end, previous)
        if task.resolution is not None and task.ended and not task.attempts:
            phases.append(_decision(task, task.resolution))
        return phases

    def _attempt(self, task: TaskView, attempt: Attempt) -> Span:
        end = max(attempt.started, attempt.ended or task.ended or self._end)
        label, detail = task_label(task), _detail(attempt)
        span = Span(SpanKind.ATTEMPT, label, attempt.started, end, attempt.outcome, detail, task.task_id)
        span.attempt, span.instance = attempt.number, attempt.instance_id
        calls = self._moved(self._calls.get((task.task_id, attempt.number), []), span)
        span.spent = attempt.usage if attempt.usage is not None else sum((call.spent for call in calls), Usage())
        children = [call.span() for call in calls]
        for delegation in attempt.delegations:
            children.append(self._delegation(delegation, span))
            self._delegations.append((delegation, children[-1]))
        for question in (each for each in task.questions if each.continues and each.attempt == attempt.number):
            status = "answered" if question.ended else "open"
            end = question.ended or span.end
            children.append(Span(SpanKind.QUESTION, "question", question.asked, end, status, "", task.task_id))
        for child in children:
            child.start = min(max(child.start, span.start), span.end)
            child.end = min(max(child.end, child.start), span.end)
        span.children = sorted(children, key=lambda child: (child.start, child.end))
        return span

    def _moved(self, calls: list[Call], attempt: Span) -> list[Call]:
        """Moves the calls together into their attempt if the clock of its instance puts them outside."""
        if not calls:
            return []
        early = attempt.start - min(call.start for call in calls)
        late = max(call.end for call in calls) - attempt.end
        shift = early if early > _SKEW else -late if late > _SKEW else 0.0
        if not shift:
            return calls
        self._shifted[attempt.instance] = shift
        return [replace(call, start=call.start + shift, end=call.end + shift) for call in calls]

    def _delegation(self, delegation: Delegation, parent: Span) -> Span:
        child = self._view.tasks.get(delegation.child_task_id)
        span = Span(SpanKind.DELEGATION, delegation.role, delegation.started, parent.end, "working")
        span.task_id = delegation.child_task_id
        if delegation.refusal is not None:
            span.end, span.status, span.detail = delegation.started, "refused", delegation.refusal.message or "refused"
            return span
        if delegation.cancelled:
            span.end, span.status = delegation.cancelled, "cancelled"
        elif child is not None and child.ended:
            span.end, span.status = max(delegation.started, child.ended), child.state
        if delegation.repeated:
            span.detail = "reuses the task of an earlier delegation"
        return span


def _decision(task: TaskView, resolution: Resolution) -> Span:
    """The choice by rule of a step that no instance has executed."""
    winner, reason = resolution.winner_step_id, resolution.reason
    pieces = ["" if winner in reason else f"{winner} is chosen", reason]
    pieces.append(resolution.conflict and f"in conflict: {resolution.conflict}")
    detail = "; ".join(filter(None, pieces))
    return Span(SpanKind.DECISION, task.step_id, task.ended, task.ended, task.state, detail, task.task_id)


def _detail(attempt: Attempt) -> str:
    """Why the attempt ended as it did, or its state so far."""
    if attempt.failure is not None and attempt.failure.message:
        return attempt.failure.message
    if attempt.stopping is not None:
        return f"stopping: {attempt.stopping.message or 'no longer needed'}"
    if attempt.budget_refused:
        return INSUFFICIENT_BUDGET
    return "its result came too late and was discarded" if attempt.discarded else ""


def _marks(view: RunView) -> list[Mark]:
    marks = []
    for claim in view.claims:
        text = "claimed again by" if claim.owner == claim.previous else "taken over by"
        marks.append(Mark(claim.time, f"{text} {claim.owner} (epoch {claim.epoch})"))
    if view.cancel_requested:
        reason = f": {view.cancel_reason}" if view.cancel_reason else ""
        marks.append(Mark(view.cancel_requested, f"cancellation requested{reason}"))
    for pause in view.pauses:
        marks.append(Mark(pause.started, "paused"))
        if pause.ended:
            marks.append(Mark(pause.ended, "resumed"))
    return sorted(marks, key=lambda mark: mark.time)
