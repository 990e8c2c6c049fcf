"""The waterfall as one SVG file: no scripts, no fonts or files from elsewhere, for light and dark backgrounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final
from xml.sax.saxutils import escape

from archon.plain_text import counted, duration
from archon_mesh.core.text_width import fitted
from archon_services.reports.texts import axis_label, cost_text, one_line
from archon_services.reports.waterfall.rows import Row, mark_lines, path_segments, rows_of, token_texts
from archon_services.reports.waterfall.spans import PathStep, Span, TimeKind, Waterfall
from archon_services.reports.waterfall.totals import Segment, Total, totals

MAX_ROWS: Final = 2_000
MAX_MARKS: Final = 50

WIDTH: Final = 1200
_NAME: Final = 310
"""Width of the names."""
_BAR: Final = 600
_RIGHT: Final = _NAME + _BAR
_TIME: Final = _RIGHT + 66
_IN: Final = _RIGHT + 138
_OUT: Final = _RIGHT + 194
_COST: Final = WIDTH - 20
"""Right edges of the columns of numbers."""

_ROW: Final = 24
_LEGEND: Final = 470
_NOTES: Final = 430
_MARGIN: Final = 20
_SIZE: Final = 13
"""Size of the font."""
_GAP: Final = 8
_LABEL_CHARS: Final = 80
_DETAIL_CHARS: Final = 300

_INVALID: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not permit."""

_LIGHT: Final = {
    ".back": "#ffffff",
    ".stripe": "#f6f8fa",
    "text": "#1f2328",
    "text.dim": "#59636e",
    "text.failed": "#cf222e",
    ".path": "#cf222e",
    ".waiting": "#9aa4ae",
    ".queue": "#d29922",
    ".model": "#8250df",
    ".tool": "#2da44e",
    ".delegation": "#a5d6e8",
    ".agent": "#0969da",
}
_DARK: Final = {
    ".back": "#0d1117",
    ".stripe": "#151b23",
    "text": "#e6edf3",
    "text.dim": "#9198a1",
    "text.failed": "#ff7b72",
    ".path": "#ff7b72",
    ".waiting": "#6e7681",
    ".queue": "#d29922",
    ".model": "#bc8cff",
    ".tool": "#3fb950",
    ".delegation": "#2b5c75",
    ".agent": "#58a6ff",
}


def _colours(palette: Mapping[str, str], grid: str) -> str:
    # Without CSS variables, which not every viewer of SVG files knows.
    rules = [f"{selector} {{ fill: {colour} }}" for selector, colour in palette.items()]
    return " ".join([*rules, f".grid {{ stroke: {grid} }}", f".mark {{ stroke: {palette['.path']} }}"])


_STYLE: Final = f"""
text {{ font: {_SIZE}px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }}
text.head {{ font-weight: 600; font-size: 16px }} text.bold {{ font-weight: 600 }}
text.number {{ text-anchor: end }} text.middle {{ text-anchor: middle }} .mark {{ stroke-dasharray: 3 3 }}
{_colours(_LIGHT, "#d8dee4")}
@media (prefers-color-scheme: dark) {{ {_colours(_DARK, "#30363d")} }}
"""


def waterfall_svg(waterfall: Waterfall) -> str:
    """Returns an SVG document of at most MAX_ROWS rows, without scripts."""
    rows = list(islice(rows_of(waterfall), MAX_ROWS + 1))
    cut = len(rows) > MAX_ROWS
    body = [*_head(waterfall)]
    top = 98
    bottom = top + _ROW * (min(len(rows), MAX_ROWS) + 1)
    body += _stripes(top + _ROW, bottom)
    body += [*_axis(waterfall, top, bottom), *_marks(waterfall, top, bottom)]
    body += _path_row(waterfall, top)
    steps: dict[int, list[PathStep]] = {}
    for step in waterfall.path:
        steps.setdefault(step.span.number, []).append(step)
    for number, row in enumerate(rows[:MAX_ROWS], start=1):
        own = [step for span in sorted(row.numbers) for step in steps.get(span, ())]
        body += _row(waterfall, row, own, top + _ROW * number)
    end = bottom + 34
    if cut:
        body.append(_text(_MARGIN, bottom + 18, f"More than {MAX_ROWS:,} rows; the JSON has all spans.", "dim"))
        end += 20
    summary = list(_summary(waterfall, end))
    footnotes = list(_footnotes(waterfall, end))
    body += [*summary, *footnotes]
    height = end + 24 * (max(len(footnotes), len(summary) // 5 + 1) + 1)
    title = escape(_clean(f"Waterfall of the run {waterfall.run_id}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">\n<title>{title}</title>\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{WIDTH}" height="{height}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _head(waterfall: Waterfall) -> Iterator[str]:
    root = waterfall.root
    pieces = [root.status, waterfall.strategy, duration(root.seconds), _spent(root)]
    yield _text(_MARGIN, 32, f"Run {one_line(waterfall.run_id, 40)}", "head")
    yield _text(_MARGIN, 54, " · ".join(filter(None, pieces)), "dim")
    if root.detail:
        yield _text(WIDTH - _MARGIN, 54, fitted(one_line(root.detail, _DETAIL_CHARS), _BAR, _SIZE), "number failed")
    x = _LEGEND
    for kind in TimeKind:
        yield _shape(kind, x, 24, 16, "")
        yield _text(x + 22, 33, kind.value, "dim")
        x += 40 + 8 * len(kind.value)
    yield f'<rect class="path" x="{x}" y="28" width="16" height="3"/>'
    yield _text(x + 22, 33, "critical path", "dim")


def _stripes(top: int, bottom: int) -> Iterator[str]:
    for y in range(top, bottom, 2 * _ROW):
        yield f'<rect class="stripe" x="8" y="{y}" width="{WIDTH - 16}" height="{_ROW}"/>'


def _axis(waterfall: Waterfall, top: int, bottom: int) -> Iterator[str]:
    total = waterfall.root.seconds
    for number in range(5):
        x = _NAME + _BAR * number / 4
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}"/>'
        yield _text(x, top - 11, axis_label(total * number / 4, total), "dim middle")
    for x, title in ((_TIME, "time"), (_IN, "tokens in"), (_OUT, "out"), (_COST, "cost")):
        yield _text(x, top - 11, title, "dim number")


def _marks(waterfall: Waterfall, top: int, bottom: int) -> Iterator[str]:
    for mark, text in mark_lines(waterfall, MAX_MARKS):
        x = _place(waterfall, mark.time)
        title = escape(_clean(f"{duration(max(0.0, mark.time - waterfall.root.start))}: {text}"))
        yield f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}"><title>{title}</title></line>'


def _path_row(waterfall: Waterfall, top: int) -> Iterator[str]:
    yield _text(_MARGIN, top + 16, "critical path", "bold")
    for segment in path_segments(waterfall):
        yield _segment(waterfall, segment, top, "critical path")
    yield _text(_TIME, top + 16, duration(waterfall.root.seconds), "number bold")


def _row(waterfall: Waterfall, row: Row, steps: list[PathStep], top: int) -> Iterator[str]:
    indent = 14 * min(row.depth, 8)
    label = fitted(one_line(row.label, _LABEL_CHARS), _NAME - _MARGIN - indent - _GAP, _SIZE)
    failed = row.span.status in ("failed", "lost", "rejected", "refused")
    names = " ".join(filter(None, ("bold" if row.critical else "", "failed" if failed else "")))
    yield _text(_MARGIN + indent, top + 16, label, names, _title(row))
    for segment in row.segments:
        yield _segment(waterfall, segment, top, _title(row))
    for step in steps:
        x, width = _extent(waterfall, step.start, step.end)
        yield f'<rect class="path" x="{x:.1f}" y="{top + 20}" width="{width:.1f}" height="2.5"/>'
    yield _text(_TIME, top + 16, duration(row.span.seconds), "number")
    spent = row.span.spent
    for x, text in zip((_IN, _OUT, _COST), (*token_texts(spent), cost_text(spent.cost_micro_usd)), strict=True):
        if text:
            yield _text(x, top + 16, text, "number dim")


def _title(row: Row) -> str:
    span = row.span
    pieces = [row.label, span.instance, row.detail, duration(span.seconds), _spent(span)]
    return one_line(", ".join(filter(None, pieces)), _DETAIL_CHARS)


def _segment(waterfall: Waterfall, segment: Segment, top: int, title: str) -> str:
    start, end, kind = segment
    x, width = _extent(waterfall, start, end)
    return _shape(kind, x, top + 5, width, f"{kind.value} {duration(end - start)}: {title}")


def _shape(kind: TimeKind, x: float, top: int, width: float, title: str) -> str:
    """A bar; thin if nothing works."""
    thickness = {TimeKind.WAITING: 3, TimeKind.QUEUE: 7}.get(kind, 13)
    shape = f'<rect class="{kind.value}" x="{x:.1f}" y="{top + (13 - thickness) / 2:.1f}" width="{width:.1f}" '
    shape += f'height="{thickness}"'
    return f"{shape}><title>{escape(_clean(title))}</title></rect>" if title else f"{shape}/>"


def _summary(waterfall: Waterfall, top: int) -> Iterator[str]:
    shown = [total for total in totals(waterfall) if total.summed or total.critical]
    heads = ((_MARGIN, "time", "bold"), (220, "critical path", "bold number"), (290, "share", "bold number"))
    for x, title, names in (*heads, (380, "all tasks", "bold number")):
        yield _text(x, top, title, names)
    for number, total in enumerate(shown, start=1):
        yield from _total(total, top + 24 * number)


def _total(total: Total, y: int) -> Iterator[str]:
    yield _shape(total.kind, _MARGIN, y - 11, 14, "")
    yield _text(_MARGIN + 22, y, total.kind.value)
    yield _text(220, y, duration(total.critical), "number")
    yield _text(290, y, f"{total.share:.1%}", "number")
    yield _text(380, y, duration(total.summed), "number")


def _footnotes(waterfall: Waterfall, top: int) -> Iterator[str]:
    lines = [
        f"{duration(max(0.0, mark.time - waterfall.root.start))}: {text}"
        for mark, text in mark_lines(waterfall, MAX_MARKS)
    ]
    if (more := len(waterfall.marks) - MAX_MARKS) > 0:
        lines.append(counted(more, "more event"))
    lines += waterfall.notes
    for number, line in enumerate(lines):
        text = fitted(one_line(line, _DETAIL_CHARS), WIDTH - _NOTES - _MARGIN, _SIZE)
        yield _text(_NOTES, top + 24 * number, text, "dim", line)


def _spent(span: Span) -> str:
    return ", ".join(filter(None, (span.tokens, cost_text(span.spent.cost_micro_usd))))


def _extent(waterfall: Waterfall, start: float, end: float) -> tuple[float, float]:
    """Returns place and width of a bar, which is wide enough to be seen."""
    x = _place(waterfall, start)
    width = max(1.0, _place(waterfall, end) - x)
    return min(x, _RIGHT - width), width


def _place(waterfall: Waterfall, time: float) -> float:
    root = waterfall.root
    part = (time - root.start) / root.seconds if root.seconds else 0.0
    return _NAME + _BAR * min(max(part, 0.0), 1.0)


def _text(x: float, y: float, text: str, names: str = "", title: str = "") -> str:
    kind = f' class="{names}"' if names else ""
    hint = f"<title>{escape(_clean(title))}</title>" if title else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}">{escape(_clean(text))}{hint}</text>'


def _clean(text: str) -> str:
    return _INVALID.sub("", text)
