"""The lines of a debugger: from a person at a terminal, with completion and history, or from standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

MAX_HISTORY: Final = 500
"""Lines of earlier debuggers that are kept."""

Complete = Callable[[Sequence[str]], Sequence[str]]
"""Returns the words that may follow the words before; the last one is being typed."""


def typed_lines(prompt: Callable[[], str], complete: Complete, history: Path | None) -> Iterator[str]:
    """Yields lines until the end of the input. A terminal shows the prompt, completes words with the tabulator, and
    keeps the lines in the file `history`, if there is one. Ctrl-C raises KeyboardInterrupt."""
    if not sys.stdin.isatty():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    _prepare(complete, history)
    try:
        while True:
            try:
                yield input(prompt())
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()  # the shell's prompt begins a line
                raise
    finally:
        _keep(history)


def _prepare(complete: Complete, history: Path | None) -> None:
    """Has the terminal complete words, and know earlier lines. Without GNU readline it does neither."""
    try:
        import readline
    except ImportError:
        return

    def choose(text: str, number: int) -> str | None:
        words = readline.get_line_buffer()[: readline.get_endidx()].split(" ")
        found = [word for word in complete(words) if word.startswith(text)]
        return f"{found[number]} " if number < len(found) else None

    readline.set_completer(choose)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
    if history is not None:
        try:
            readline.read_history_file(history)
        except OSError:
            pass  # there is none yet, or it cannot be read


def _keep(history: Path | None) -> None:
    if history is None:
        return
    try:
        import readline

        history.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(history, os.O_WRONLY | os.O_CREAT, 0o600))  # the lines may have parts of answers
        readline.set_history_length(MAX_HISTORY)
        readline.write_history_file(history)
    except (ImportError, OSError):
        pass  # a home that cannot be written
