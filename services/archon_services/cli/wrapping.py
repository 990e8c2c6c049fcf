"""Prose on a terminal: lines wrap at words."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import Final

MIN_WIDTH: Final = 40
"""Characters of a line that is wrapped, at least."""


def wrapped(text: str, *, hang: str = "  ", stderr: bool = False) -> str:
    """Returns the lines of a text wrapped at words if the stream is a terminal, else as they are. Lines that continue
    another one begin with `hang`. Words that are longer than a line, such as ids and paths, stay whole."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return text
    # As Rich does: the variable wins, and a terminal of unknown size has 80 columns.
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else os.get_terminal_size(stream.fileno()).columns or 80
    return "\n".join(
        textwrap.fill(
            line,
            max(MIN_WIDTH, width),
            subsequent_indent=hang,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        for line in text.split("\n")
    )
