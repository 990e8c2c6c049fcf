"""`--watch`: prints a command's output again and again, until Ctrl-C."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Final

from archon_services.cli.errors import USAGE, CliError

INTERVAL: Final = 2.0
"""Seconds."""

_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"


class _Terminal(io.StringIO):
    """Collects the text printed for a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ is not None else -1


def repeat(show: Callable[[], None], *, watch: bool) -> None:
    """Calls `show`; with `watch` every INTERVAL seconds, and replaces the previous output by the new one. Raises
    CliError if `watch` is set and standard output is no terminal."""
    if not watch:
        show()
        return
    if not sys.stdout.isatty():
        raise CliError("--watch needs a terminal", hint="Use --json and repeat the command.", code=USAGE)
    terminal = sys.stdout
    terminal.write("\x1b[2J")
    try:
        while True:
            with redirect_stdout(_Terminal()) as printed:
                show()
            lines = printed.getvalue().splitlines()
            head = f"Every {INTERVAL:g} s; Ctrl-C ends it."
            room = max(1, shutil.get_terminal_size().lines - 3)
            text = "".join(f"{line}{_CLEAR_LINE}\n" for line in (head, "", *lines[:room]))
            terminal.write(_HOME + text + _CLEAR_BELOW)
            terminal.flush()
            time.sleep(INTERVAL)
    except KeyboardInterrupt:
        terminal.write("\n")
