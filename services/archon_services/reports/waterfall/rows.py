"""The rows of a waterfall: a row per attempt, with the time that its task was idle before, and one per call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from archon.run_view import Usage
from archon_services.reports.texts import one_line
from archon_services.reports.waterfall.spans import TIME_OF, Mark, Span, SpanKind, TimeKind, Waterfall
from archon_services.reports.waterfall.totals import Segment, segments

_IDLE: Final = (SpanKind.WAITING, SpanKind.QUEUE)
NAME_CHARS: Final = 200
"""Characters of a name that are shown at most."""


CHARACTERS: Final = {
    TimeKind.WAITING: ".",
    TimeKind.QUEUE: ":",
    TimeKind.MODEL: "#",
    TimeKind.TOOL: "+",
    TimeKind.DELEGATION: ">",
    TimeKind.AGENT: "=",
}
"""How a kind of time is drawn in a bar of characters."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row. `span` is the span that its columns describe; `segments` also cover the idle time before an attempt."""

    depth: int
    label: str
    span: Span
    segments: Sequence[Segment]
    numbers: frozenset[int]
    """The numbers of the spans that the row shows."""
    critical: bool
    detail: str = ""
    """Why it ended as it did; empty if that is not worth a line."""


def rows_of(waterfall: Waterfall) -> Iterator[Row]:
    """Yields the rows in the order of the tasks and of time, parents first."""
    yield from _rows(waterfall.root.children, 0, waterfall.critical())


def path_segments(waterfall: Waterfall) -> list[Segment]:
    """Returns the segments of the critical path."""
    return [(step.start, step.end, step.kind) for step in waterfall.path]


def mark_lines(waterfall: Waterfall, limit: int) -> Iterator[tuple[Mark, str]]:
    """Yields the marks with their texts on one line, at most `limit` of them."""
    for mark in waterfall.marks[:limit]:
        yield mark, one_line(mark.text, NAME_CHARS)


def _rows(spans: Sequence[Span], depth: int, critical: set[int]) -> Iterator[Row]:
    idle: list[Span] = []
    for span in spans:
        if span.kind in _IDLE:
            if idle and idle[-1].task_id != span.task_id:
                yield _idle_row(idle, depth, critical)
                idle = []
            idle.append(span)
            continue
        if idle and idle[-1].task_id != span.task_id:
            yield _idle_row(idle, depth, critical)
            idle = []
        before = [(each.start, each.end, TIME_OF[each.kind]) for each in idle]
        label, detail = _label(span), one_line(span.detail, NAME_CHARS)
        numbers = frozenset(each.number for each in [*idle, span])
        on_path = bool(numbers & critical)
        yield Row(depth, label, span, [*before, *segments(span)], numbers, on_path, detail)
        idle = []
        yield from _rows(span.children, depth + 1, critical)
    if idle:
        yield _idle_row(idle, depth, critical)


def _idle_row(spans: Sequence[Span], depth: int, critical: set[int]) -> Row:
    """A row for a task that is idle, or that ended so: after its last attempt, or before the first."""
    last = spans[-1]
    pieces: list[Segment] = [(span.start, span.end, TIME_OF[span.kind]) for span in spans]
    whole = Span(last.kind, last.name, spans[0].start, last.end)
    label = f"{one_line(last.name, NAME_CHARS)} waits"
    numbers = frozenset(span.number for span in spans)
    return Row(depth, label, whole, pieces, numbers, bool(numbers & critical), f"waits {last.detail}")


def _label(span: Span) -> str:
    name = one_line(span.name, NAME_CHARS)
    if span.kind is SpanKind.ATTEMPT:
        number = f" #{span.attempt}" if span.attempt > 1 else ""
        return f"{name}{number}{_status(span)}"
    prefix = "" if span.kind is SpanKind.QUESTION else f"{'to' if span.kind is SpanKind.DELEGATION else span.kind} "
    return f"{prefix}{name}{_status(span)}"


def _status(span: Span) -> str:
    return "" if span.status == "completed" else f" ({span.status})"


def token_texts(spent: Usage) -> tuple[str, str]:
    """Returns the tokens in and out in short form, with `~` if estimated; empty if there are none."""
    if not spent.input_tokens and not spent.output_tokens:
        return "", ""
    mark = "~" if spent.estimated else ""
    return mark + _short(spent.input_tokens), mark + _short(spent.output_tokens)


def _short(count: int) -> str:
    """Formats a count with at most five characters: 9,999, 12.3k, 123k, 1.2M."""
    for limit, divisor, unit in ((10_000, 1, ""), (1_000_000, 1_000, "k"), (1_000_000_000, 1_000_000, "M")):
        if count < limit:
            number = count / divisor
            return f"{count:,}" if not unit else f"{number:.1f}{unit}" if number < 100 else f"{number:.0f}{unit}"
    return f"{count / 1e9:.1f}G"
