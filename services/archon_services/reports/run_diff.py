"""The difference of two runs side by side: its rows, and their lines in two columns of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from archon.plain_text import counted, duration
from archon_mesh.run_diff import Piece, PieceKind, RunDiff, TaskDiff, TaskSide, TextChange
from archon_services.reports.texts import cost_text, one_line, strip_controls

MIN_WIDTH: Final = 80
"""Columns of a report at least; a wider terminal is used as a whole."""

CONTEXT: Final = 12
"""Words around a difference that are shown; text that is the same farther away is left out."""

MAX_LINES: Final = 40
"""Lines of one changed text; `--json` has all."""

MAX_CHANGES: Final = 20
"""Changed texts of one kind that are shown; `--json` has all."""

SAME: Final = "(same)"
_BETWEEN: Final = " | "
_MARKS: Final = {PieceKind.REMOVED: ("[-", "-]"), PieceKind.ADDED: ("{+", "+}")}
_BEGINNINGS: Final = tuple(begin for begin, _ in _MARKS.values())
_ENDS: Final = tuple(end for _, end in _MARKS.values())


@dataclass(frozen=True, slots=True)
class Columns:
    """Two columns of a terminal with this width."""

    width: int

    @property
    def each(self) -> int:
        """Characters of a column."""
        return (max(MIN_WIDTH, self.width) - 2 - len(_BETWEEN)) // 2

    def rows(self, left: str, right: str, *, most: int = MAX_LINES) -> Iterator[str]:
        """Yields the lines of two texts beside each other."""
        lines = list(self._pairs(left.split("\n"), right.split("\n")))
        for first, second in lines[:most]:
            yield f"  {first:<{self.each}}{_BETWEEN}{second}".rstrip()
        if len(lines) > most:
            yield f"  and {counted(len(lines) - most, 'more line')} (--json has all)"

    def _pairs(self, left: list[str], right: list[str]) -> Iterator[tuple[str, str]]:
        """Yields the wrapped lines in pairs: line by line if both texts have as many, else one text beside the
        other."""
        if len(left) != len(right):
            both = ([line for each in side for line in self._wrapped(each)] for side in (left, right))
            yield from zip_longest(*both, fillvalue="")
            return
        for first, second in zip(left, right, strict=True):
            yield from zip_longest(self._wrapped(first), self._wrapped(second), fillvalue="")

    def _wrapped(self, line: str) -> list[str]:
        return textwrap.wrap(strip_controls(line).expandtabs(4), self.each, break_on_hyphens=False) or [""]


def diff_lines(diff: RunDiff, width: int) -> Iterator[str]:
    """Yields the lines of the difference of two runs; the differing parts only, after the runs themselves."""
    columns = Columns(width)
    left, right = diff.runs
    yield from columns.rows(left.run.run_id, right.run.run_id)
    yield from columns.rows(*outcomes(diff))
    for note in diff.notes:
        yield from textwrap.wrap(f"note: {note}", 2 * columns.each, initial_indent="  ", subsequent_indent="    ")
    if diff.same:
        yield ""
        yield "The runs are the same, apart from ids, instances and times."
        return
    for name, sides in changed_fields(diff).items():
        yield ""
        yield name
        yield from columns.rows(*sides)
    yield from _structure(diff, columns)
    yield from _changes("answers", diff.answers, columns)
    yield from _changes("tool calls", diff.tools, columns)
    yield from _changes("prompts", diff.prompts, columns)
    yield from _measures(diff)


def _structure(diff: RunDiff, columns: Columns) -> Iterator[str]:
    changed = [task for task in diff.tasks if not task.same]
    same = len(diff.tasks) - len(changed)
    yield ""
    if not changed:
        yield f"tasks  {counted(same, 'task')}, the same in both"
        return
    yield "tasks" + (f"  {counted(same, 'other')} the same in both" if same else "")
    for task in changed:
        yield from columns.rows(*task_sides(task))


def changed_fields(diff: RunDiff) -> dict[str, tuple[str, str]]:
    """Returns the fields of the runs that differ, by name, except the states, which `outcomes` has."""
    return {name: sides for name, sides in diff.fields.items() if sides[0] != sides[1] and name != "state"}


def task_sides(task: TaskDiff) -> tuple[str, str]:
    """Returns how a task went in both runs."""
    left, right = task.sides
    if left is None or right is None:
        return (
            f"{task.label}: {_task(left)}" if left is not None else "(no such task)",
            f"{task.label}: {_task(right)}" if right is not None else "(no such task)",
        )
    first, second = _task(left), _task(right)
    if left.used != right.used:
        first += f"; used {', '.join(left.used) or 'nothing'}"
        second += f"; used {', '.join(right.used) or 'nothing'}"
    return f"{task.label}: {first}", f"{task.label}: {second}"


def _task(side: TaskSide) -> str:
    ended = [outcome for outcome in side.outcomes if outcome != side.state]
    attempts = counted(len(side.outcomes), "attempt") if side.outcomes else "no attempt"
    return f"{side.state}, {attempts}" + (f" ({', '.join(ended)})" if ended else "")


def _changes(title: str, changes: Sequence[TextChange], columns: Columns) -> Iterator[str]:
    if not changes:
        return
    yield ""
    yield title
    for change in changes[:MAX_CHANGES]:
        yield f"  {one_line(change.label, 60)}" + (
            f", {change.place}" if change.place not in ("answer", "tool calls") else ""
        )
        yield from columns.rows(*marked(change.pieces))
    if len(changes) > MAX_CHANGES:
        yield f"  and {len(changes) - MAX_CHANGES:,} more (--json has all)"


def shortened(pieces: Sequence[Piece]) -> list[Piece]:
    """Returns the pieces without parts that are the same and far from a difference."""
    last = len(pieces) - 1
    return [
        Piece(piece.kind, _shortened(piece.text, is_first=index == 0, is_last=index == last))
        if piece.kind is PieceKind.SAME
        else piece
        for index, piece in enumerate(pieces)
    ]


def marked(pieces: Sequence[Piece]) -> tuple[str, str]:
    """Returns both texts with their differences marked as git marks words, and without parts that are the same and far
    from a difference."""
    left, right = "", ""
    has_words = any(piece.text.strip() for piece in pieces if piece.kind is not PieceKind.SAME)
    for piece in shortened(pieces):
        if piece.kind is PieceKind.SAME:
            left, right = left + piece.text, right + piece.text
        elif piece.kind is PieceKind.REMOVED:
            left += _mark(piece) if piece.text.strip() or not has_words else piece.text
        else:
            right += _mark(piece) if piece.text.strip() or not has_words else piece.text
    return left.strip("\n"), right.strip("\n")


def marked_inline(pieces: Sequence[Piece]) -> str:
    """Returns both texts as one, with their differences marked, and without parts that are the same and far from a
    difference."""
    text = ""
    for piece in shortened(pieces):
        if piece.kind is PieceKind.SAME:
            text += piece.text
            continue
        marked_piece = _mark(piece)
        touches = text.endswith(_ENDS) and marked_piece.startswith(_BEGINNINGS)
        text += f" {marked_piece}" if touches else marked_piece
    return text.strip("\n")


def _mark(piece: Piece) -> str:
    begin, end = _MARKS[piece.kind]
    body = piece.text.strip()
    start = piece.text.find(body) if body else 0
    if not body:
        return f"{begin}{repr(piece.text)[1:-1]}{end}"
    return f"{piece.text[:start]}{begin}{body}{end}{piece.text[start + len(body) :]}"


def _shortened(text: str, *, is_first: bool, is_last: bool) -> str:
    words = text.split()
    if len(words) <= 2 * CONTEXT + 4:
        return text
    before = "" if is_first else f"{_lead(text)}{' '.join(words[:CONTEXT])} "
    after = "" if is_last else f" {' '.join(words[-CONTEXT:])}{text[len(text.rstrip()) :]}"
    hidden = len(words) - CONTEXT * (2 - is_first - is_last)
    return f"{before}(... {hidden:,} words ...){after}"


def _lead(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def outcomes(diff: RunDiff) -> tuple[str, str]:
    """Returns how both runs have ended, or their states so far."""
    left, right = (f"{recorded.run.state} after {duration(recorded.seconds)}" for recorded in diff.runs)
    return left, right


def measures(diff: RunDiff) -> list[tuple[str, str, str, str]]:
    """Returns the measures of the runs: the name, the values on both sides, and the change in percent."""
    left, right = diff.runs
    rows = [("time", duration(left.seconds), duration(right.seconds), _change(left.seconds, right.seconds))]
    for name, (one, other) in diff.usage.items():
        if one or other:
            first, second = (
                (cost_text(round(value * 1e6)) or "$0") if name == "cost_usd" else f"{value:,.0f}"
                for value in (one, other)
            )
            rows.append(({"cost_usd": "cost"}.get(name, name.replace("_", " ")), first, second, _change(one, other)))
    return rows


def _measures(diff: RunDiff) -> Iterator[str]:
    rows = measures(diff)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    yield ""
    for name, first, second, change in rows:
        yield f"{name:<{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}  {change}".rstrip()


def _change(one: float, other: float) -> str:
    if one == other:
        return SAME
    return f"{100 * (other - one) / one:+.0f} %" if one else ""
