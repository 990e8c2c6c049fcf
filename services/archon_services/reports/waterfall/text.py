"""The waterfall as text: bars of characters, which need no colour, with a legend and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from archon.plain_text import counted, duration
from archon.run_view import Usage
from archon_services.reports.texts import axis_label, cost_text, one_line
from archon_services.reports.waterfall.rows import CHARACTERS, Row, mark_lines, path_segments, rows_of, token_texts
from archon_services.reports.waterfall.spans import TimeKind, Waterfall
from archon_services.reports.waterfall.totals import Segment, totals

MIN_WIDTH: Final = 60
MAX_WIDTH: Final = 400
MAX_ROWS: Final = 1_000
"""Rows that are printed; JSON has all spans."""

MAX_MARKS: Final = 50
_MIN_BAR: Final = 16
_NOTE_CHARS: Final = 1_000
_STYLES: Final = {
    TimeKind.WAITING: "bright_black",
    TimeKind.QUEUE: "yellow",
    TimeKind.MODEL: "magenta",
    TimeKind.TOOL: "green",
    TimeKind.DELEGATION: "cyan",
    TimeKind.AGENT: "blue",
}
_STYLE_OF: Final = {character: _STYLES[kind] for kind, character in CHARACTERS.items()}

Piece = tuple[str, str]
"""A text and its style."""

Line = list[Piece]


@dataclass(frozen=True, slots=True)
class _Columns:
    name: int
    bar: int
    time: int
    tokens: tuple[int, int]
    cost: int


def waterfall_lines(waterfall: Waterfall, width: int) -> Iterator[Line]:
    """Yields the lines for `width` columns, which is kept between MIN_WIDTH and MAX_WIDTH."""
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    yield from _head(waterfall, width)
    rows, more = _first(rows_of(waterfall))
    columns = _columns(waterfall, rows, width)
    yield []
    yield _axis(waterfall, columns)
    if waterfall.marks:
        yield _line(columns, "", "events", _marks(waterfall, columns.bar))
    path = path_segments(waterfall)
    yield _line(columns, "*", "critical path", _bar(path, waterfall, columns.bar), duration(waterfall.root.seconds))
    for row in rows:
        yield _row(row, waterfall, columns)
        if row.detail:
            yield [(one_line(f"{' ' * (2 * row.depth + 4)}{row.detail}", width, indent=True), "dim")]
    if more:
        yield [(f"{counted(more, 'more row')}; --format json has all spans", "dim")]
    yield []
    yield from _legend(width)
    yield []
    yield from _totals(waterfall)
    yield from _footnotes(waterfall, width)


def plain(line: Line) -> str:
    """Returns a line without its styles."""
    return "".join(text for text, _ in line).rstrip()


def _first(rows: Iterator[Row]) -> tuple[list[Row], int]:
    kept: list[Row] = []
    more = 0
    for row in rows:
        if len(kept) < MAX_ROWS:
            kept.append(row)
        else:
            more += 1
    return kept, more


def _head(waterfall: Waterfall, width: int) -> Iterator[Line]:
    root = waterfall.root
    pieces = [f"run {waterfall.run_id}", root.status, waterfall.strategy, duration(root.seconds)]
    pieces += [root.tokens, cost_text(root.spent.cost_micro_usd)]
    line = ""
    for piece in filter(None, pieces):  # a piece that does not fit begins the next line
        if line and len(line) + 2 + len(piece) > width:
            yield [(line, "bold")]
            line = f"  {piece}"
        else:
            line = f"{line}  {piece}" if line else piece
    yield [(line, "bold")]
    if root.detail:
        yield [(one_line(f"failure: {root.detail}", width), "red")]


def _columns(waterfall: Waterfall, rows: Sequence[Row], width: int) -> _Columns:
    """Divides the width: numbers as wide as they are, then names up to a quarter of it, and bars have the rest."""
    spans = [row.span for row in rows]
    time = max([len(duration(span.seconds)) for span in (waterfall.root, *spans)])
    tokens = [token_texts(span.spent) for span in spans]
    widths = tuple(max((len(each[number]) for each in tokens), default=0) for number in (0, 1))
    with_tokens = any(widths)
    in_width, out_width = (max(widths[0], 2), max(widths[1], 3)) if with_tokens else (0, 0)
    cost = max((len(cost_text(span.spent.cost_micro_usd)) for span in spans), default=0)
    cost = max(cost, 4) if cost else 0
    numbers = time + 2 + (in_width + out_width + 4 if with_tokens else 0) + (cost + 2 if cost else 0)
    wanted = max([len("critical path"), *(2 * row.depth + len(row.label) for row in rows)])
    name = max(8, min(wanted, max(width // 4, 22), width - numbers - 4 - _MIN_BAR))
    return _Columns(name, max(8, width - numbers - name - 4), time, (in_width, out_width), cost)


def _axis(waterfall: Waterfall, columns: _Columns) -> Line:
    total = waterfall.root.seconds
    middle, end = axis_label(total / 2, total), axis_label(total, total)
    axis = "0 s".ljust(columns.bar)
    place = columns.bar // 2
    if place + len(middle) + 2 + len(end) <= columns.bar and place > 4:
        axis = axis[:place] + middle.ljust(columns.bar - place)
    axis = axis[: columns.bar - len(end)] + end
    line = f"{'':{columns.name + 2}}  {axis}  {'time':>{columns.time}}"
    if any(columns.tokens):
        line += f"  {'in':>{columns.tokens[0]}}  {'out':>{columns.tokens[1]}}"
    return [(line + (f"  {'cost':>{columns.cost}}" if columns.cost else ""), "bold")]


def _line(columns: _Columns, mark: str, label: str, bar: Line, time: str = "", spent: Usage | None = None) -> Line:
    name = one_line(label, columns.name, indent=True)
    line: Line = [(f"{mark:1} {name:<{columns.name}}  ", "bold" if mark else ""), *bar]
    numbers = f"  {time:>{columns.time}}"
    if spent is not None:
        if any(columns.tokens):
            texts = token_texts(spent)
            numbers += f"  {texts[0]:>{columns.tokens[0]}}  {texts[1]:>{columns.tokens[1]}}"
        if columns.cost:
            numbers += f"  {cost_text(spent.cost_micro_usd):>{columns.cost}}"
    return [*line, (numbers, "")]


def _row(row: Row, waterfall: Waterfall, columns: _Columns) -> Line:
    bar = _bar(row.segments, waterfall, columns.bar)
    label = f"{'  ' * row.depth}{row.label}"
    return _line(columns, "*" if row.critical else "", label, bar, duration(row.span.seconds), row.span.spent)


def _bar(segments: Sequence[Segment], waterfall: Waterfall, cells: int) -> Line:
    """Draws a bar: each cell has the character of the kind that covers most of it. A row has one cell at least."""
    root = waterfall.root
    scale = cells / root.seconds if root.seconds else 0.0
    coverage: list[dict[TimeKind, float]] = [{} for _ in range(cells)]
    for start, end, kind in segments:
        begin, until = (start - root.start) * scale, (end - root.start) * scale
        first, last = min(max(int(begin), 0), cells - 1), min(max(int(until), 0), cells - 1)
        for cell in range(first, last + 1):
            covered = min(until, cell + 1) - max(begin, cell)
            coverage[cell][kind] = coverage[cell].get(kind, 0.0) + max(covered, 1e-9)
    filled = [cell for cell in range(cells) if sum(coverage[cell].values()) >= 0.5]
    if not filled:
        filled = sorted(range(cells), key=lambda cell: -sum(coverage[cell].values()))[: 1 if segments else 0]
    shown = set(filled)
    text = [CHARACTERS[max(coverage[c], key=coverage[c].__getitem__)] if c in shown else " " for c in range(cells)]
    return _styled("".join(text))


def _styled(text: str) -> Line:
    pieces: Line = []
    for character in text:
        style = _STYLE_OF.get(character, "")
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + character, style)
        else:
            pieces.append((character, style))
    return pieces


def _marks(waterfall: Waterfall, cells: int) -> Line:
    text = [" "] * cells
    for mark in waterfall.marks:
        position = (mark.time - waterfall.root.start) / (waterfall.root.seconds or 1.0)
        text[min(max(int(position * cells), 0), cells - 1)] = "!"
    return [("".join(text), "bold red")]


def _legend(width: int) -> Iterator[Line]:
    entries = [(CHARACTERS[kind], kind.value) for kind in TimeKind] + [("*", "on the critical path"), ("!", "event")]
    line: Line = []
    for character, text in entries:
        if line and len(plain(line)) + len(text) + 4 > width:
            yield line
            line = []
        line += [("  " if line else "", ""), (character, _STYLE_OF.get(character, "bold")), (f" {text}", "")]
    yield line


def _totals(waterfall: Waterfall) -> Iterator[Line]:
    shown = [total for total in totals(waterfall) if total.summed or total.critical]
    yield [(f"{'time':<10}  {'critical path':>13}  {'share':>6}  {'all tasks':>9}", "bold")]
    for total in shown:
        numbers = f"  {duration(total.critical):>13}  {total.share:>6.1%}  {duration(total.summed):>9}"
        yield [(f"{total.kind.value:<10}", _STYLES[total.kind]), (numbers, "")]


def _footnotes(waterfall: Waterfall, width: int) -> Iterator[Line]:
    if waterfall.marks:
        yield []
        for mark, text in mark_lines(waterfall, MAX_MARKS):
            head = f"! {duration(max(0.0, mark.time - waterfall.root.start))}  "
            yield [(head + one_line(text, width - len(head)), "")]
        if (more := len(waterfall.marks) - MAX_MARKS) > 0:
            yield [(f"  {counted(more, 'more event')}", "dim")]
    for note in waterfall.notes:
        yield []
        for line in wrap(f"note: {one_line(note, _NOTE_CHARS)}", width, subsequent_indent="  "):
            yield [(line, "dim")]
