"""Views of a mesh while it starts, runs and stops: a live table, lines of changes, or its logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon.plain_text import duration
from archon_services.cli.render.output import console, print_stderr, shown_address, style_of
from archon_services.local_mesh.log_lines import parse_line
from archon_services.local_mesh.logs import follow_logs
from archon_services.local_mesh.state import MeshState, ProcessState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from archon_services.local_mesh import Supervisor

_WIDTHS: Final = {"state": 10, "port": 5, "uptime": 8}
"""Minimum widths, so that columns keep their place while the mesh starts."""

_HEADLINES: Final = {
    "starting": "[cyan]starting[/]",
    "ready": "[green]ready[/]",
    "stopping": "[yellow]stopping[/]",
    "failed": "[red]failed[/]",
}
_LOG_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "red")
_POLL: Final = 0.05


def mesh_table(state: MeshState, *, footer: str = "") -> RenderableType:
    """Returns a table with one row per process."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("name", "pid", "port", "state", "restarts", "uptime"):
        right = header in ("pid", "port", "restarts", "uptime")
        table.add_column(header, justify="right" if right else "left", min_width=_WIDTHS.get(header, 0))
    for process in state.processes:
        detail = f" ({process.detail})" if process.detail and process.condition != "healthy" else ""
        table.add_row(
            Text(process.name, style="bold" if process.kind == "agent" else ""),
            str(process.pid or "-"),
            process.port or "-",
            Text(process.condition + detail, style=style_of(process.condition)),
            Text(str(process.restarts), style="yellow" if process.restarts else "dim"),
            duration(process.age) if process.pid else "-",
        )
    head = Text.from_markup(f"[bold]Archon mesh[/]  {_HEADLINES[state.phase]}  ")
    head.append(state.home, style="dim")
    notes = [Text(f"note: {note}", style="yellow") for note in state.notes]
    return Group(head, *notes, table, *([Text(footer, style="dim")] if footer else []))


class MeshLines:
    """Prints a line per change of a process to standard error."""

    def __init__(self) -> None:
        self._processes: dict[str, ProcessState] = {}
        self._notes = 0

    def show(self, state: MeshState) -> None:
        """Prints the differences from the previous state."""
        for note in state.notes[self._notes :]:
            print_stderr(f"note: {note}")
        self._notes = len(state.notes)
        for process in state.processes:
            before = self._processes.get(process.name)
            self._processes[process.name] = process
            if before is not None and (before.condition, before.pid) != (process.condition, process.pid):
                more = (
                    f"  pid {process.pid}  {shown_address(process.address)}" if process.pid else f"  {process.detail}"
                )
                print_stderr(f"{process.name:<16} {process.condition:<10}{more}".rstrip())


class MeshScreen:
    """Shows a supervised mesh until `close`: as a live table, as logs, or as lines of changes."""

    def __init__(self, *, table: bool, logs: bool) -> None:
        self._table = table
        self._logs = logs
        self._footer = ""
        self._task: asyncio.Task[None] | None = None
        self._live: Live | None = None

    def open(self, supervisor: Supervisor) -> None:
        """Starts the view. Needs a running event loop."""
        if self._table:
            self._live = _live_table(supervisor.state, lambda: self._footer)
            self._live.start()
        elif self._logs:
            self._task = asyncio.create_task(_show_logs(supervisor), name="logs")
        else:
            self._task = asyncio.create_task(_show_lines(supervisor), name="lines")

    def footer(self, text: str) -> None:
        """Shows a status line, below the table if there is one."""
        self._footer = text
        if not self._table:
            print_stderr(text)

    async def close(self) -> None:
        """Ends the view. Idempotent."""
        self._footer = ""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._live is not None:
            self._live.stop()


def _live_table(state: Callable[[], MeshState], footer: Callable[[], str]) -> Live:
    from rich.live import Live

    return Live(
        get_renderable=lambda: mesh_table(state(), footer=footer()),
        console=console(),
        refresh_per_second=8,
        vertical_overflow="visible",
    )


async def _show_logs(supervisor: Supervisor) -> None:
    out = console()
    styles: dict[str, str] = {}

    def files() -> list[tuple[str, Path]]:
        return [(process.name, supervisor.home.log_file(process.name)) for process in supervisor.state().processes]

    def show(name: str, line: str) -> None:
        style = styles.setdefault(name, _LOG_COLOURS[len(styles) % len(_LOG_COLOURS)])
        out.print(f"[{style}]{name:<16}[/] │ ", end="")
        out.print(parse_line(name, line).rendered(), markup=False, soft_wrap=True)

    await follow_logs(files, show)


async def _show_lines(supervisor: Supervisor) -> None:
    lines = MeshLines()
    try:
        while True:
            lines.show(supervisor.state())
            await asyncio.sleep(_POLL)
    finally:
        lines.show(supervisor.state())
