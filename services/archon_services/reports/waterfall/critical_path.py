"""The critical path of a run: the chain of spans that determined when it ended.

The path is found backwards from the end of the run, as CRISP does for traces of microservices (Zhang et al., "CRISP:
Critical Path Analysis of Large-Scale Microservice Architectures", USENIX ATC 2022). Within a span, the path is in the
child that finished last; from the start of that child it goes on in the child that had finished last before, and so on.
Where no child had finished last, the time is the span's own. A child that was still in progress when the path passed
determined nothing and is not on it.

A run has more causes than a trace, because its journal has them. The path begins in the task that ended last; a task
that failed or completed is preferred to one that was cancelled at the same time. From an attempt it goes to the task's
phase before it: the time in the queue, the attempt before. From a wait for predecessors it goes to the predecessor that
completed last, whose time explains the wait. From a delegation it goes to the attempts of the delegated task. A wait
that no task explains (for a person, for the end of a pause) is itself on the path.

If a run is in progress, its path ends in a task that is in progress, the one whose present phase began first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from archon_services.reports.waterfall.idle import INSTANCE, PAUSED, PERSON, RETRY
from archon_services.reports.waterfall.spans import TIME_OF, PathStep, Span, SpanKind

_UNEXPLAINED: Final = frozenset({PERSON, PAUSED, INSTANCE, RETRY})
"""Reasons of waits that no predecessor explains."""

Phases = Mapping[str, Sequence[Span]]
"""The attempts of each task and the times between them, in order, by task id."""


def critical_path(
    root: Span, roots: Sequence[str], phases: Phases, predecessors: Mapping[str, Sequence[str]]
) -> list[PathStep]:
    """Returns the steps in order; together they cover the run from start to end.

    `roots` are the ids of the tasks that no task delegated, `predecessors` task ids by task id.
    """
    steps: list[PathStep] = []
    last = _last_task([task_id for task_id in roots if phases.get(task_id)], phases)
    _Walk(phases, predecessors, steps).task(last, root.start, root.end, root)
    return steps[::-1]


def _last_task(task_ids: Sequence[str], phases: Phases) -> str:
    """Returns the task that determined the end of the run; empty without tasks."""

    def rank(task_id: str) -> tuple[float, bool, bool, float]:
        last = phases[task_id][-1]
        explained = last.kind is SpanKind.WAITING and last.detail not in _UNEXPLAINED
        return last.end, not explained, last.status != "canceled", -last.start

    return max(task_ids, key=rank, default="")


class _Walk:
    """Adds the steps of the path, the last one first."""

    def __init__(self, phases: Phases, predecessors: Mapping[str, Sequence[str]], steps: list[PathStep]) -> None:
        self._phases = phases
        self._predecessors = predecessors
        self._steps = steps

    def task(self, task_id: str, start: float, end: float, owner: Span) -> None:
        """Walks a task and the causes of its waits; time that no phase covers counts for `owner`."""
        time = end
        while task_id:
            following = ""
            for phase in reversed(self._phases.get(task_id, ())):
                begin, until = max(phase.start, start), min(phase.end, time)
                if until < begin or (until == begin and phase.end > phase.start):
                    continue
                self._own(owner, until, time)
                time = until
                if phase.kind is SpanKind.WAITING and (following := self._cause(task_id, phase)):
                    break
                self._span(phase, begin, until)
                time = begin
            task_id = following
        self._own(owner, start, time)

    def _cause(self, task_id: str, phase: Span) -> str:
        """Returns the predecessor that ended the wait, or that it goes on for; empty if none explains it."""
        if phase.detail in _UNEXPLAINED:
            return ""
        waited = [each for each in self._predecessors.get(task_id, ()) if self._phases.get(each)]
        return _last_task(waited, self._phases)

    def _span(self, span: Span, start: float, end: float) -> None:
        """Walks a span from its end to its start, within these times."""
        if span.kind is SpanKind.DELEGATION:
            self.task(span.task_id, start, end, span)
            return
        time = end
        for child in _latest_first(span.children, start, end):
            if child.end > time:
                continue
            self._own(span, child.end, time)
            time = max(start, child.start)
            self._span(child, time, child.end)
        self._own(span, start, time)

    def _own(self, span: Span, start: float, end: float) -> None:
        if end > start:
            self._steps.append(PathStep(span, start, end, TIME_OF[span.kind]))


def _latest_first(children: Sequence[Span], start: float, end: float) -> Iterator[Span]:
    within = [child for child in children if child.start < child.end <= end and child.end > start]
    yield from sorted(within, key=lambda child: (-child.end, child.start))
