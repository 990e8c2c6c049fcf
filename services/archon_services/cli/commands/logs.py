"""`archon logs`: prints the logs of a mesh on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import NOT_FOUND, CliError

if TYPE_CHECKING:
    from archon_services.local_mesh import Home

INTERVAL: Final = 0.3
"""Seconds between two looks at the files that are followed."""

PREVIOUS: Final = ".old"
"""The end of the names of an earlier mesh's logs."""

TAIL_BYTES: Final = 4 * 1024 * 1024
"""The end of a log that is searched."""

_RUN_ID_LENGTH: Final = 8
"""Characters from which on a name may be the beginning of a run id."""


def logs(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="A process, a role, or a run (id or `last`); by default all processes."),
    ] = "",
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, metavar="N", help="The last lines of each log.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print what is appended, until Ctrl-C.")] = False,
) -> None:
    """Print the logs of the mesh in ARCHON_HOME, also after it was stopped."""
    from archon_services.cli.contexts import find_home

    home = find_home()
    files, text = _selected(home, name)
    width = max(len(file.stem) for file in files)
    logs = [_Log(file, f"{file.stem.ljust(width)}  " if len(files) > 1 else "", text) for file in files]
    for log in logs:
        log.print_last(lines)
    try:
        while follow:
            for log in logs:
                log.print_new()
            time.sleep(INTERVAL)
    except KeyboardInterrupt:
        return


def _selected(home: Home, name: str) -> tuple[Sequence[Path], str]:
    """Returns the files to print, and the text that their lines must contain. Raises CliError if nothing has the
    name."""
    files = sorted(file for file in home.logs.glob("*.log") if not file.stem.endswith(PREVIOUS))
    if not files:
        raise CliError(f"there are no logs in {home.logs}", hint="`archon up` starts a mesh.", code=NOT_FOUND)
    if not name:
        return files, ""
    named = [file for file in files if file.stem == name or file.stem.rpartition("-")[0] == name]
    if named:
        return named, ""
    if name == "last":
        return files, _newest_run()
    if len(name) >= _RUN_ID_LENGTH and name.isalnum():
        return files, name
    names = ", ".join(file.stem for file in files)
    raise CliError(f"no process or role {name!r} has a log", hint=f"There are logs of {names}.", code=NOT_FOUND)


def _newest_run() -> str:
    """Returns the id of the newest run. Raises CliError if no mesh is running, or there is no run."""
    from archon.client import Client
    from archon_services.cli.target.mesh import connecting, find_orchestrator
    from archon_services.cli.target.run import find_run_id

    async def find() -> str:
        target = find_orchestrator("")
        with connecting("orchestrator", target):
            async with Client(target) as client:
                return await find_run_id(client, "last")

    return asyncio.run(find())


class _Log:
    """One file; `head` comes before each line, `text` must be in it."""

    def __init__(self, file: Path, head: str, text: str) -> None:
        self._file = file
        self._head = head
        self._text = text
        self._offset = 0

    def print_last(self, lines: int) -> None:
        """Prints the last lines."""
        content = self._read(max(0, self._file.stat().st_size - TAIL_BYTES))
        self._print(self._wanted(content)[-lines:] if lines else [])

    def print_new(self) -> None:
        """Prints the lines that were appended since the last call."""
        if self._file.stat().st_size < self._offset:
            self._offset = 0  # the mesh has begun the file anew
        self._print(self._wanted(self._read(self._offset)))

    def _read(self, start: int) -> str:
        """Reads whole lines from `start` on."""
        with self._file.open("rb") as file:
            file.seek(start)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset = start + len(whole)
        return whole.decode(errors="replace")

    def _wanted(self, content: str) -> list[str]:
        return [line for line in content.splitlines() if self._text in line]

    def _print(self, lines: Sequence[str]) -> None:
        from archon_services.cli.render.output import strip_controls

        for line in lines:
            print(self._head + strip_controls(line), flush=True)
