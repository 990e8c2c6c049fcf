"""Printing: tables, JSON, times and durations. Colours and live views appear only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

# The output of a model must not control the terminal.
_CONTROLS: Final = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}

_STYLES: Final = {
    "completed": "green",
    "healthy": "green",
    "working": "cyan",
    "starting": "cyan",
    "submitted": "dim",
    "stopped": "dim",
    "failed": "red",
    "rejected": "red",
    "silent": "red",
    "restarting": "yellow",
    "canceled": "yellow",
    "input required": "magenta",
}


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def console(*, stderr: bool = False) -> Console:
    """Returns a Rich console. Rich is imported here, because importing it is slow."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def print_stderr(text: str) -> None:
    """Prints progress to standard error, so that standard output has results only."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Prints indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Prints columns without borders; `right` has the indexes of right-aligned columns.

    Cells are never cut or folded, so that ids can be copied: the terminal wraps what is wider than its window.
    """
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    lines = [
        [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (headers, *rows)
    ]
    if not is_terminal():
        for cells in lines:
            print("  ".join(cells).rstrip())
        return
    from rich.text import Text

    out = console()
    for number, cells in enumerate(lines):
        line = Text("  ").join(Text(cell, style=style_of(cell.strip())) for cell in cells)
        line.rstrip()
        out.print(line, style="bold" if number == 0 else "", soft_wrap=True)


def style_of(state: str) -> str:
    """Returns the colour of a state; empty for other words."""
    return _STYLES.get(state, "")


def duration(seconds: float) -> str:
    """Formats a duration: 0.21 s, 12.3 s, 2 m 05 s, 3 h 07 m."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} m"


def local_time(seconds: float) -> str:
    """Formats seconds since the epoch in the local time zone."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def counted(count: int, noun: str) -> str:
    """Formats a count with its noun in the singular or plural: 1 task, 2 tasks."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def strip_controls(text: str) -> str:
    """Removes control characters other than newline and tab."""
    return text.translate(_CONTROLS)
