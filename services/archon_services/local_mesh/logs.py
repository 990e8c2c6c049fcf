"""Log files of the processes: following, the last lines, rotation."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from archon_services.local_mesh.log_lines import parse_line

MAX_LOG: Final = 64 * 1024 * 1024
"""Bytes of a log above which it begins anew, and its content replaces the log before it."""

_POLL: Final = 0.1


async def follow_logs(files: Callable[[], Sequence[tuple[str, Path]]], show: Callable[[str, str], None]) -> None:
    """Calls `show(name, line)` for every line of the files, from their beginning, until cancelled. Files may be added.

    The lines that exist at the cancellation are shown before it takes effect.
    """
    offsets: dict[str, int] = {}
    try:
        while True:
            _show_new_lines(files(), offsets, show)
            await asyncio.sleep(_POLL)
    finally:
        _show_new_lines(files(), offsets, show)


def last_lines(log: Path, *, offset: int = 0, lines: int = 15) -> str:
    """Returns the last lines that follow `offset`, as people read them."""
    with log.open("rb") as file:
        file.seek(offset)
        text = file.read().decode(errors="replace")
    return "\n".join(parse_line("", line).rendered() for line in text.rstrip().split("\n")[-lines:])


def rotate(log: Path) -> None:
    """Renames a log to `.old.log`, so that each mesh starts with empty logs and keeps the previous one's."""
    if log.exists():
        shutil.move(log, log.with_suffix(".old.log"))


def limit_size(log: Path) -> bool:
    """Moves the content of a log to `.old.log` if it is larger than MAX_LOG, and returns whether it did.

    The process that appends to the log keeps its file; lines that it writes meanwhile may be lost. Raises OSError if
    the disk is full.
    """
    if log.stat().st_size <= MAX_LOG:
        return False
    shutil.copyfile(log, log.with_suffix(".old.log"))
    os.truncate(log, 0)
    return True


def _show_new_lines(
    files: Sequence[tuple[str, Path]], offsets: dict[str, int], show: Callable[[str, str], None]
) -> None:
    for name, path in files:
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < offsets.get(name, 0):
                    offsets[name] = 0  # the log has begun anew
                file.seek(offsets.get(name, 0))
                content = file.read()
        except FileNotFoundError:
            continue
        complete = content[: content.rfind(b"\n") + 1]
        offsets[name] = offsets.get(name, 0) + len(complete)
        for line in complete.decode(errors="replace").split("\n")[:-1]:
            show(name, line)
