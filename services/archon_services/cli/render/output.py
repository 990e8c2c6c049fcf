"""What commands print with: tables, JSON, durations; plain text where nobody looks at a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# What a model writes must not steer the terminal.
_CONTROLS = {number: None for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"}


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def console(*, stderr: bool = False) -> Console:
    """A console of Rich; imported only here, since it takes its time."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def say(text: str) -> None:
    """A line about what goes on: on standard error, so that standard output can be piped on."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Columns without borders; the columns numbered in `right` stand to the right. Nothing is cut or folded: what is
    wider than the terminal is the terminal's to wrap, so that ids can be copied."""
    widths = [max(len(row[number]) for row in (headers, *rows)) for number in range(len(headers))]
    lines = [
        [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
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


_STYLES = {
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


def style_of(word: str) -> str:
    """The colour of a state; none for other words."""
    return _STYLES.get(word, "")


def duration(seconds: float) -> str:
    """For people: 0.21 s, 12.3 s, 2 m 05 s, 3 h 07 m."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} m"


def moment(seconds: float) -> str:
    """A point in time, local."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def harmless(text: str) -> str:
    """Without control characters, for a terminal."""
    return text.translate(_CONTROLS)
