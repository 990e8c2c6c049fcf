"""`archon logs`: prints the logs of a mesh on this machine, merged by time."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon.telemetry.logs.render import plain
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import LAST
from archon_services.cli.render.output import is_terminal, print_stderr

if TYPE_CHECKING:
    from archon_services.local_mesh import Home
    from archon_services.local_mesh.log_lines import LogLine

INTERVAL: Final = 0.3
"""Seconds between two looks at the files that are followed."""

LINES: Final = 20
"""Last lines of each log that are printed, unless a run or a number is given."""

PREVIOUS: Final = ".old"
"""The end of the names of an earlier mesh's logs."""

TAIL_BYTES: Final = 4 * 1024 * 1024
"""The end of a log that is searched."""

_RUN_ID_LENGTH: Final = 8
"""Characters from which on a name may be the beginning of a run id."""


class Level(StrEnum):
    """Levels of lines, lowest first."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def logs(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="A process, a role, or a run (id or `last`); by default all processes."),
    ] = "",
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            min=0,
            metavar="N",
            help=f"The last N lines of each log; by default {LINES}, and all lines of a run.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines, until Ctrl-C.")] = False,
    level: Annotated[Level, typer.Option("--level", help="The lowest level that is printed.")] = Level.DEBUG,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as they are in the files.")] = False,
) -> None:
    """Print the logs of the mesh in ARCHON_HOME, also after it was stopped.

    The lines of all processes are merged by time. The lines of a run name it in their field run_id.
    """
    home = find_home()
    files, wanted = _selected(home, name, level)
    logs = [_Log(file) for file in files]
    count = LINES if lines is None and not wanted.run_id else lines
    newest = [line for log in logs for line in log.read_last(wanted, count)]
    if wanted.run_id and not newest and count != 0:
        _report_silence(wanted, follow=follow)
    width = max(len(file.stem) for file in files) if len(files) > 1 else 0
    show = _Printer(width, shows_run=not wanted.run_id, raw=json)
    show.print(newest)
    try:
        while follow:
            show.print([line for log in logs for line in log.read_new(wanted)])
            time.sleep(INTERVAL)
    except KeyboardInterrupt:
        return


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which lines to print: from a level on, and of one run if `run_id` is set."""

    level: str
    run_id: str = ""

    def __call__(self, line: LogLine) -> bool:
        return (not self.run_id or line.run_id == self.run_id) and line.is_at_least(self.level)


def _selected(home: Home, name: str, level: str) -> tuple[Sequence[Path], _Wanted]:
    """Returns the files and which of their lines to print. Raises CliError if nothing has the name."""
    files = sorted(file for file in home.logs.glob("*.log") if not file.stem.endswith(PREVIOUS))
    if not files:
        raise CliError(f"there are no logs in {home.logs}", hint="`archon up` starts a mesh.", code=NOT_FOUND)
    wanted = _Wanted(level)
    if not name:
        return files, wanted
    named = [file for file in files if file.stem == name or file.stem.rpartition("-")[0] == name]
    if named:
        return named, wanted
    if name == LAST:
        return files, replace(wanted, run_id=_newest_run())
    if len(name) >= _RUN_ID_LENGTH and name.isalnum():
        return files, replace(wanted, run_id=_run_of(name, files))
    names = ", ".join(file.stem for file in files)
    raise CliError(f"no process or role {name!r} has a log", hint=f"There are logs of {names}.", code=NOT_FOUND)


def _run_of(prefix: str, files: Iterable[Path]) -> str:
    """Returns the id of the run that the lines name by this beginning; the beginning itself if none does. Raises
    CliError if several runs have it."""
    lines = (line for file in files for line in _Log(file).read_last(lambda _: True))
    run_ids = sorted({line.run_id for line in lines if line.run_id.startswith(prefix)})
    if len(run_ids) > 1 and prefix not in run_ids:
        raise CliError(f"{len(run_ids):,} run ids start with {prefix!r}", hint="Use a longer prefix.", code=USAGE)
    return run_ids[0] if len(run_ids) == 1 else prefix


def _newest_run() -> str:
    """Returns the id of the newest run. Raises CliError if no mesh is running, or there is no run."""
    from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
    from archon_services.cli.target.run import find_run_id

    async def find() -> str:
        target = find_orchestrator("")
        async with orchestrator_client(target) as client:
            return await find_run_id(client, LAST)

    return asyncio.run(find())


def _report_silence(wanted: _Wanted, *, follow: bool) -> None:
    """Says that no line names the run; raises CliError unless lines to come are waited for."""
    text = f"no line of the logs names run {wanted.run_id}"
    if wanted.level != Level.DEBUG:
        text += f" at level {wanted.level} or above"
    if not follow:
        raise CliError(text, hint=f"`archon show {wanted.run_id[:12]}` prints the run itself.", code=NOT_FOUND)
    print_stderr(f"{text}; waiting for one")


class _Log:
    """One file. A line without a time belongs to the line before it and has its time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._time = 0.0

    def read_last(self, wanted: Callable[[LogLine], bool], count: int | None = None) -> list[LogLine]:
        """Returns the last `count` lines, None for all of the last TAIL_BYTES."""
        lines = self._read(max(0, self._file.stat().st_size - TAIL_BYTES), wanted)
        return lines if count is None else lines[len(lines) - min(count, len(lines)) :]

    def read_new(self, wanted: Callable[[LogLine], bool]) -> list[LogLine]:
        """Returns the lines that were appended since the last call."""
        if self._file.stat().st_size < self._offset:
            self._offset = 0  # the mesh has begun the file anew
        return self._read(self._offset, wanted)

    def _read(self, start: int, wanted: Callable[[LogLine], bool]) -> list[LogLine]:
        """Returns whole lines from `start` on."""
        from archon_services.local_mesh.log_lines import parse_line

        with self._file.open("rb") as file:
            file.seek(start)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset = start + len(whole)
        lines = []
        for text in whole.decode(errors="replace").split("\n")[:-1]:
            line = parse_line(self._file.stem, text)
            self._time = line.time or self._time
            if wanted(line):
                lines.append(replace(line, time=self._time))
        return lines


class _Printer:
    """Prints lines in the order of their times."""

    def __init__(self, width: int, *, shows_run: bool, raw: bool) -> None:
        self._width = width
        self._shows_run = shows_run
        self._raw = raw
        self._colours = is_terminal() and not os.environ.get("NO_COLOR")
        self._columns = shutil.get_terminal_size().columns if is_terminal() else 0

    def print(self, lines: Iterable[LogLine]) -> None:
        for line in sorted(lines, key=lambda line: line.time):
            process = line.process.ljust(self._width) if self._width else ""
            text = plain(line.text) if self._raw else self._text(line, process)
            print(text, flush=True)

    def _text(self, line: LogLine, process: str) -> str:
        return line.rendered(colours=self._colours, process=process, shows_run=self._shows_run, columns=self._columns)
