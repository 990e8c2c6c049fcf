"""The logs of all processes as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

_PAUSE = 0.1


async def follow_logs(files: Sequence[tuple[str, Path]], show: Callable[[str, str], None]) -> None:
    """Calls `show(name, line)` for every line of these files, from their beginning on, until it is cancelled. What is
    there by then is shown before it ends."""
    read = dict.fromkeys((name for name, _ in files), 0)
    try:
        while True:
            _drain(files, read, show)
            await asyncio.sleep(_PAUSE)
    finally:
        _drain(files, read, show)


def _drain(files: Sequence[tuple[str, Path]], read: dict[str, int], show: Callable[[str, str], None]) -> None:
    for name, path in files:
        try:
            with path.open("rb") as file:
                file.seek(read[name])
                content = file.read()
        except FileNotFoundError:
            continue
        whole = content[: content.rfind(b"\n") + 1]
        read[name] += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            show(name, line)
