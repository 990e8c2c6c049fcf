"""The reasons for a task's waits while none of its attempts was in progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from archon.run_view import Attempt, RunView, TaskState, TaskView
from archon_services.reports.state_names import task_label
from archon_services.reports.waterfall.spans import Span, SpanKind

PERSON: Final = "for a person"
PAUSED: Final = "for the run to be resumed"
RETRY: Final = "for the time of its retry"
INSTANCE: Final = "for an instance"

_Interval = tuple[float, float]


class IdleTimes:
    """The reasons why a task was idle. An open question or pause lasts until `end`, in seconds since the epoch."""

    def __init__(self, view: RunView, task: TaskView, end: float) -> None:
        self._task = task
        self._asked: list[_Interval] = [(question.asked, question.ended or end) for question in task.questions]
        self._paused: list[_Interval] = [(pause.started, pause.ended or end) for pause in view.pauses]
        known = view.predecessors(task)
        self._predecessors = list(map(task_label, known))
        self._ready = max((_completed(each, end) for each in known), default=task.created)

    def between(self, start: float, end: float, previous: Attempt | None) -> Iterator[Span]:
        """Yields a span for each reason from `start` to `end`; `previous` is the attempt before."""
        retry_time = previous.retry_time if previous is not None else 0.0
        moments = {start, end, self._ready, retry_time}
        moments.update(each for interval in self._asked + self._paused for each in interval)
        cuts = sorted(each for each in moments if start <= each <= end)
        spans: list[Span] = []
        for begin, until in pairwise(cuts):
            kind, reason = self._reason(begin, retry_time)
            if spans and (spans[-1].kind, spans[-1].detail) == (kind, reason):
                spans[-1].end = until
            else:
                spans.append(Span(kind, task_label(self._task), begin, until, "", reason, self._task.task_id))
        yield from spans

    def _reason(self, time: float, retry_time: float) -> tuple[SpanKind, str]:
        if _within(time, self._asked):
            return SpanKind.WAITING, PERSON
        if time < self._ready:
            return SpanKind.WAITING, f"for {' and '.join(self._predecessors)}"
        if _within(time, self._paused):
            return SpanKind.WAITING, PAUSED
        return SpanKind.QUEUE, RETRY if time < retry_time else INSTANCE


def _within(time: float, intervals: Sequence[_Interval]) -> bool:
    return any(begin <= time < until for begin, until in intervals)


def _completed(task: TaskView, end: float) -> float:
    """Returns when a predecessor completed; `end` if it has not."""
    return task.ended if task.state is TaskState.COMPLETED and task.ended else end
