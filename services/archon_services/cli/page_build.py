"""Builds the web page beside a mesh that starts from a clone of the repository."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from archon_services.gateway.web.build import has_sources, is_current

COMMAND: Final = (sys.executable, "-m", "archon_services.gateway.web.build")
BUILDING: Final = "The web page is built in the background, once; its address shows it in a minute."
READY: Final = "The web page is ready."
_SECONDS: Final = 600.0
_REASON_CHARS: Final = 300


def needs_build() -> bool:
    """Returns whether this is a clone in which the page was not built from the present sources."""
    return has_sources() and not is_current()


@asynccontextmanager
async def building_page(say: Callable[[str], None]) -> AsyncIterator[None]:
    """Builds the page during the block, if that is needed. `say` gets a line when it begins, and when it has ended. A
    build that has not ended with the block is killed."""
    if not await asyncio.to_thread(needs_build):
        yield
        return
    say(BUILDING)
    task = asyncio.create_task(_build(say), name="build the web page")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def build_detached(log: Path) -> str:
    """Begins to build the page in a process that outlives this one and writes to `log`, if that is needed. Returns a
    line about it, or an empty text."""
    if not needs_build():
        return ""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    return f"{BUILDING} Its log is {log}."


async def _build(say: Callable[[str], None]) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        say(f"The web page is not built: that took longer than {_SECONDS:.0f} s.")
        return
    finally:
        if process.returncode is None:
            _kill(process.pid)
            await process.wait()
    if process.returncode == 0:
        say(READY)
        return
    reason = " ".join(out.decode(errors="replace").split()).removeprefix("error: ")
    say(f"The web page is not built: {reason[:_REASON_CHARS]}")


def _kill(pid: int) -> None:
    """Kills the build and the commands that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
