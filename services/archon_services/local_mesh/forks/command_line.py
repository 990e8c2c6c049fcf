"""The command line of this process, as `ps` and /proc show it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_FIRST, _END = 48, 49
"""The fields of /proc/self/stat with the first address of the arguments, and the one after the last (proc(5))."""

_AFTER_NAME: Final = 3
"""The number of the first field after the command's name."""


def set_command_line(arguments: Sequence[str]) -> None:
    """Writes the arguments over those that this process was started with, as far as there is room. Linux only."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end = int(stat[_FIRST - _AFTER_NAME]), int(stat[_END - _AFTER_NAME])
    room = end - first
    if room <= 0:  # the kernel hides them
        return
    text = b"\0".join(argument.encode(errors="surrogateescape") for argument in arguments)
    ctypes.memmove(first, text[: room - 1].ljust(room, b"\0"), room)
