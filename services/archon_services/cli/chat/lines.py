"""Lines that a person types, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from archon_services.cli.render.output import print_stderr

if TYPE_CHECKING:
    from archon_services.cli.interrupts import Signals

READ_BYTES: Final = 65_536


class Lines:
    """The lines of standard input. Input that arrives before it is read waits here."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ended = False

    async def message(self, signals: Signals) -> str | None:
        """Reads a message; None after an empty line, the end of the input, or Ctrl-C."""
        reading = asyncio.ensure_future(self.read("you: "))
        if await signals.race(reading) is None:
            return reading.result().strip() or None
        reading.cancel()
        await asyncio.wait([reading])
        print_stderr("")
        return None

    async def read(self, prompt: str, *, hidden: bool = False) -> str:
        """Reads a line with its end; empty at the end of the input. A terminal shows the prompt, and the typed text
        unless it is `hidden`."""
        if sys.stdin.isatty():
            sys.stderr.write(prompt)
            sys.stderr.flush()
        try:
            file = sys.stdin.fileno()
        except OSError:  # a stream in memory
            return sys.stdin.readline()
        with _echo(sys.stdin.isatty() and hidden):
            while b"\n" not in self._bytes and not self._ended:
                await _readable(file)
                read = os.read(file, READ_BYTES)
                self._bytes += read
                self._ended = not read
        line, end, rest = self._bytes.partition(b"\n")
        self._bytes = rest
        return (line + end).decode(errors="replace")


async def _readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(file, lambda: None if ready.done() else ready.set_result(None))
    except OSError:  # a regular file, which is always readable
        return
    try:
        await ready
    finally:
        loop.remove_reader(file)


@contextmanager
def _echo(is_off: bool) -> Iterator[None]:
    """Turns off the terminal's echo of typed text within the block, if `is_off`."""
    if not is_off:
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    changed = termios.tcgetattr(sys.stdin)
    changed[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        print_stderr("")
