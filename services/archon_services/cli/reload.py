"""`archon serve --reload`: serves a file in a process of its own, and restarts that when files change."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from archon.background import BackgroundLoop
from archon_services.cli.errors import INTERRUPTED
from archon_services.cli.interrupts import Signals
from archon_services.cli.render.output import print_stderr

INTERVAL: Final = 0.5
"""Seconds between two looks at the files."""

MAX_FILES: Final = 1_000
"""Files of a folder that are watched."""

STOP_TIMEOUT: Final = 60.0
"""Seconds that the process has to finish its tasks; then it is killed."""

_SUFFIXES: Final = frozenset({".py", ".yaml", ".yml"})
_SERVE: Final = (sys.executable, "-P", "-c", "from archon_services.cli.main import main; main()", "serve")

Versions = dict[Path, tuple[int, int]]
"""Time of the last change in nanoseconds and size, by file."""


def versions(folder: Path) -> Versions:
    """Returns the state of the Python and YAML files in a folder."""
    found: Versions = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if os.path.splitext(entry.name)[1] in _SUFFIXES and len(found) < MAX_FILES:
                try:
                    stat = entry.stat()
                except OSError:
                    continue  # removed meanwhile
                found[Path(entry.path)] = (stat.st_mtime_ns, stat.st_size)
    return found


async def serve_reloading(file: Path, options: Sequence[str]) -> int:
    """Serves the file until a signal, anew after each change in its folder. Returns the exit code.

    A process that ends by itself, such as one whose file is invalid, is started again after the next change.
    """
    folder = file.parent
    with Signals() as signals:
        while True:
            changed = await _serve_until_change(file, options, versions(folder), signals)
            if isinstance(changed, signal.Signals):
                return INTERRUPTED if changed is signal.SIGINT else 0
            print_stderr(f"{changed.name} has changed: the agent starts again.")


async def _serve_until_change(
    file: Path, options: Sequence[str], before: Versions, signals: Signals
) -> Path | signal.Signals:
    """Serves the file in a process until a signal or a change; returns the signal or the file that has changed."""
    process = await asyncio.create_subprocess_exec(*_SERVE, str(file), *options)
    exiting = asyncio.create_task(process.wait(), name="wait for the agent")
    exiting.add_done_callback(_report_end)
    change: asyncio.Future[Path] = asyncio.get_running_loop().create_future()
    watching = BackgroundLoop("watch files", lambda: _watch(file.parent, before, change), expected=(OSError,))
    watching.start()
    try:
        signum = await signals.race(change)
    finally:
        await watching.close()
        exiting.remove_done_callback(_report_end)
        await _stop(process, exiting)
    return change.result() if signum is None else signum


async def _watch(folder: Path, before: Versions, change: asyncio.Future[Path]) -> None:
    """Reports a file that has changed once an interval has passed without another change, and returns."""
    last = before
    while True:
        await asyncio.sleep(INTERVAL)
        now = versions(folder)
        if now == last != before:
            change.set_result(next(path for path in {**now, **before} if now.get(path) != before.get(path)))
            return
        last = now


def _report_end(_: object) -> None:
    print_stderr("The agent has ended; it starts again after a change.")


async def _stop(process: asyncio.subprocess.Process, exiting: asyncio.Task[int]) -> None:
    """Stops the process: SIGTERM, which drains it, and SIGKILL after STOP_TIMEOUT seconds."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if exiting.done():
            return
        try:
            process.send_signal(signum)
        except ProcessLookupError:
            pass
        await asyncio.wait([exiting], timeout=STOP_TIMEOUT)
