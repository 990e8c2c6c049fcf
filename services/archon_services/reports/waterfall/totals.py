"""The time of a run by kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from archon_services.reports.waterfall.spans import TIME_OF, Span, SpanKind, TimeKind, Waterfall

Segment = tuple[float, float, TimeKind]
"""Start and end, in seconds since the epoch, and the kind of time."""

_FIRST: Final = (TimeKind.MODEL, TimeKind.TOOL, TimeKind.DELEGATION, TimeKind.WAITING)
"""The order of precedence if an attempt does several things at a time."""


@dataclass(frozen=True, slots=True)
class Total:
    """Seconds of one kind: on the critical path, and of all tasks together; `share` is the part of the run's duration
    that its critical path spent so, from 0 to 1."""

    kind: TimeKind
    critical: float
    share: float
    summed: float


def totals(waterfall: Waterfall) -> list[Total]:
    """Returns the totals of all kinds.

    The shares add up to 1. The sums count each task: tasks at the same time count twice, and so does a task that waits
    for another one (delegation) while that one works (model, say).
    """
    critical: dict[TimeKind, float] = defaultdict(float)
    summed: dict[TimeKind, float] = defaultdict(float)
    for step in waterfall.path:
        critical[step.kind] += step.seconds
    for _, span in waterfall.root.walk():
        if span.kind in (SpanKind.ATTEMPT, SpanKind.QUEUE, SpanKind.WAITING):
            for start, end, kind in segments(span):
                summed[kind] += end - start
    whole = waterfall.root.seconds
    return [Total(kind, critical[kind], critical[kind] / whole if whole else 0.0, summed[kind]) for kind in TimeKind]


def segments(span: Span) -> Iterator[Segment]:
    """Yields the time of a span by kind, in order and without gaps; of an attempt, by its children."""
    if span.kind is not SpanKind.ATTEMPT:
        yield span.start, span.end, TIME_OF[span.kind]
        return
    yield from _merged(_pieces(span))


def _pieces(span: Span) -> Iterator[Segment]:
    changes: list[tuple[float, int, TimeKind]] = []
    for child in span.children:
        changes += [(child.start, 1, TIME_OF[child.kind]), (child.end, -1, TIME_OF[child.kind])]
    active: dict[TimeKind, int] = defaultdict(int)
    time = span.start
    for moment, change, kind in sorted(changes):
        if moment > time:
            yield time, moment, next((each for each in _FIRST if active[each]), TimeKind.AGENT)
            time = moment
        active[kind] += change
    if span.end > time:
        yield time, span.end, TimeKind.AGENT


def _merged(pieces: Iterable[Segment]) -> Iterator[Segment]:
    last: Segment | None = None
    for start, end, kind in pieces:
        if last is not None and last[2] is kind:
            last = (last[0], end, kind)
            continue
        if last is not None:
            yield last
        last = (start, end, kind)
    if last is not None:
        yield last
