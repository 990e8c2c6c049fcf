"""Builds the waterfall of a run from its timeline and its recorded calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from archon_services.cli.render.output import counted
from archon_services.cli.render.run_view import INPUT_REQUIRED
from archon_services.cli.render.waterfall.calls import Call
from archon_services.cli.render.waterfall.critical_path import critical_path
from archon_services.cli.render.waterfall.idle import IdleTimes
from archon_services.cli.render.waterfall.spans import Span, SpanKind, Spent, Waterfall
from archon_services.cli.render.waterfall.timeline import FINAL, AttemptTimes, DelegationTimes, TaskTimes, Timeline

IN_PROGRESS: Final = "the run is in progress: the calls of an attempt appear when it has ended, delegated or asked"

_SKEW: Final = 0.005
"""Seconds by which the times of two clocks may differ without a note."""


def waterfall(timeline: Timeline, calls: Iterable[Call], now: float, notes: Sequence[str] = ()) -> Waterfall:
    """Returns the waterfall. What is in progress ends at `now`, in seconds since the epoch; `notes` come first."""
    builder = _Builder(timeline, calls, now)
    root = builder.root()
    for number, (_, span) in enumerate(root.walk(), start=1):
        span.number = number
    path = critical_path(root, builder.roots, builder.phases, builder.predecessors())
    notes = [*notes, *builder.notes()]
    return Waterfall(timeline.run_id, timeline.strategy, root, path, list(timeline.marks), notes)


class _Builder:
    def __init__(self, timeline: Timeline, calls: Iterable[Call], now: float) -> None:
        self._timeline = timeline
        self._calls: dict[tuple[str, int], list[Call]] = defaultdict(list)
        for call in calls:
            self._calls[call.task_id, call.attempt].append(call)
        self._end = timeline.ended or max(now, timeline.started)
        self._delegations: list[tuple[DelegationTimes, Span]] = []
        self._shifted: dict[str, float] = {}
        """Seconds by which the calls of an instance were moved."""
        self.phases: dict[str, list[Span]] = {}
        """The attempts of each task and the times between them, in order, by task id."""
        self.roots: list[str] = []
        """Ids of the tasks that no task delegated, as far as the events tell."""

    def root(self) -> Span:
        """Returns the span of the run. The attempts of a delegated task are below the delegation that created it."""
        timeline = self._timeline
        root = Span(SpanKind.RUN, timeline.run_id, timeline.started, self._end, _state(timeline), timeline.detail)
        for task in timeline.tasks.values():
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
        timeline = self._timeline
        return {task_id: found for task_id in timeline.tasks if (found := timeline.predecessors(task_id))}

    def notes(self) -> Iterator[str]:
        """Yields what is missing and what was corrected."""
        missing: dict[str, int] = defaultdict(int)
        for task in self._timeline.tasks.values():
            for attempt in task.attempts:
                recorded = sum(call.kind == "model" for call in self._calls.get((task.task_id, attempt.number), ()))
                missing[task.role] += max(0, attempt.model_calls - recorded)
        for role, count in missing.items():
            if count:
                yield f"not recorded: {counted(count, 'model call')} of {role}; the time counts as the agent's own work"
        for instance, seconds in self._shifted.items():
            yield f"the calls of {instance} are moved by {seconds:+.3f} s: its clock differs from the orchestrator's"
        if not self._timeline.ended:
            yield IN_PROGRESS

    def _phases(self, task: TaskTimes) -> list[Span]:
        if task.reused:
            return [Span(SpanKind.ATTEMPT, task.label, task.created, task.created, "reused", "", task.task_id)]
        idle = IdleTimes(self._timeline, task, self._end)
        phases: list[Span] = []
        since, previous = task.created, None
        for attempt in task.attempts:
            phases += idle.between(since, attempt.start, previous)
            phases.append(self._attempt(task, attempt))
            since, previous = phases[-1].end, attempt
        if previous is None or previous.end:
            phases += idle.between(since, task.ended or self._end, previous)
        return phases

    def _attempt(self, task: TaskTimes, attempt: AttemptTimes) -> Span:
        end = max(attempt.start, attempt.end or task.ended or self._end)
        span = Span(SpanKind.ATTEMPT, task.label, attempt.start, end, attempt.status, attempt.detail, task.task_id)
        span.attempt, span.instance = attempt.number, attempt.instance
        calls = self._moved(self._calls.get((task.task_id, attempt.number), []), span)
        span.spent = attempt.spent if attempt.spent is not None else sum((call.spent for call in calls), Spent())
        children = [call.span() for call in calls]
        for delegation in attempt.delegations:
            children.append(self._delegation(delegation, span))
            self._delegations.append((delegation, children[-1]))
        for question in attempt.questions:
            status = "answered" if question.end else "open"
            end = question.end or span.end
            children.append(Span(SpanKind.QUESTION, "question", question.start, end, status, "", task.task_id))
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

    def _delegation(self, delegation: DelegationTimes, parent: Span) -> Span:
        child = self._timeline.tasks.get(delegation.child_task_id)
        span = Span(SpanKind.DELEGATION, delegation.role, delegation.start, parent.end, "working")
        span.task_id = delegation.child_task_id
        if delegation.refusal:
            span.end, span.status, span.detail = delegation.start, "refused", delegation.refusal
            return span
        if delegation.end:
            span.end, span.status = delegation.end, "cancelled"
        elif child is not None and child.ended:
            span.end, span.status = max(delegation.start, child.ended), child.state
        if delegation.repeated:
            span.detail = "reuses the task of an earlier delegation"
        return span


def _state(timeline: Timeline) -> str:
    """The state of the run; if it has not ended, from its tasks."""
    if timeline.ended:
        return timeline.state
    if timeline.pauses and not timeline.pauses[-1][1]:
        return "paused"
    tasks = timeline.tasks.values()
    if any(task.state == INPUT_REQUIRED for task in tasks if task.state not in FINAL):
        return INPUT_REQUIRED
    return "working" if any(task.attempts for task in tasks) else "submitted"
