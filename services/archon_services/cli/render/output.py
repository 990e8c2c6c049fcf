"""Printing: tables, JSON, times and durations. Colours and live views appear only on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from archon.plain_text import duration
from archon_services.cli.errors import CliError

if TYPE_CHECKING:
    from rich.console import Console

# The output of a model must not control the terminal.
_CONTROLS: Final = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}

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


def axis_label(seconds: float, total: float) -> str:
    """Formats a time on an axis of `total` seconds; in milliseconds on a short one, whose labels would be the same."""
    if not seconds:
        return "0 s"
    return f"{seconds * 1_000:.3g} ms" if total < 0.1 else duration(seconds)


def cached_text(cached: int, read: int) -> str:
    """Formats the share of the tokens read that providers had in their caches: ` (80 % cached)`; empty if it is 0."""
    return f" ({100 * cached / read:.0f} % cached)" if cached and read else ""


def cost_text(micro_usd: int) -> str:
    """Formats millionths of a US dollar: $3, $0.05, $0.000123; empty if it is 0."""
    return f"${micro_usd / 1e6:,.6f}".rstrip("0").rstrip(".") if micro_usd else ""


def age(seconds: float) -> str:
    """Formats an age with one unit: 5 s, 3 m, 2 h, 4 d."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(0.0, seconds))} s"


def shown_address(address: str) -> str:
    """Returns an address for a column of a table: of a Unix socket, whose path is long, its kind alone."""
    return "unix socket" if address.startswith("unix:") else address


def one_line(text: str, length: int, *, indent: bool = False) -> str:
    """Returns the text without control characters and line breaks, shortened to `length` characters; with `indent`, the
    spaces at its start stay."""
    line = " ".join(strip_controls(text).split())
    if indent:
        line = text[: len(text) - len(text.lstrip(" "))] + line
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def local_time(seconds: float) -> str:
    """Formats seconds since the epoch in the local time zone."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def zoned_time(seconds: float) -> str:
    """Formats seconds since the epoch in the local time zone, with its name."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds))


def strip_controls(text: str) -> str:
    """Removes control characters other than newline and tab."""
    return text.translate(_CONTROLS)
