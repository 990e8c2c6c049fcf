"""Printing: tables, JSON, times and durations. Colours and live views appear only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from archon_services.cli.errors import CliError
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from rich.console import Console

MIN_FOLDED: Final = 12
"""Characters that a folded column has at least."""

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
    "paused": "yellow",
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


def save_text(file: Path, text: str) -> None:
    """Writes a file and says so on standard output. Raises CliError if it cannot be written."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from error
    print(f"Wrote {file}.")


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    folded: Sequence[int] = (),
) -> None:
    """Prints columns without borders; `right` has the indexes of right-aligned columns.

    On a terminal, cells of the `folded` columns wrap at words to fit its width. Others are never cut, so that they can
    be copied.
    """
    if not is_terminal():
        _print_plain((headers, *rows), right)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, header in enumerate(headers):
        width = max(len(row[column]) for row in (headers, *rows))
        table.add_column(
            header,
            justify="right" if column in right else "left",
            no_wrap=column not in folded,
            min_width=min(width, MIN_FOLDED) if column in folded else width,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(cell, style=style_of(cell)) for cell in row))
    console().print(table, crop=False)


def _print_plain(lines: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    widths = [max(len(row[column]) for row in lines) for column in range(len(lines[0]))]
    for row in lines:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def print_states(lines: Iterable[tuple[str, str]], shape: Callable[[str], str] = str) -> None:
    """Prints lines without control characters, on a terminal each in the colour of its state, as `shape` folds it."""
    plain = [(strip_controls(text), state) for text, state in lines]
    if not is_terminal():
        for text, _ in plain:
            print(text)
        return
    from rich.text import Text

    out = console()
    for text, state in plain:
        out.print(Text(shape(text), style=style_of(state)), soft_wrap=True)


def style_of(state: str) -> str:
    """Returns the colour of a state; empty for other words."""
    return _STYLES.get(state, "")


def shown_address(address: str) -> str:
    """Returns an address for a column of a table: of a Unix socket, whose path is long, its kind alone."""
    return "unix socket" if address.startswith("unix:") else address
