"""How a mesh looks while it starts, runs and ends: a live table, or lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from archon_services.cli.render.output import duration, say, style_of
from archon_services.local_mesh.state import MeshState, ProcessState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_WIDTHS = {"state": 10, "port": 5, "up": 8}  # so that nothing jumps while it starts
_HEADLINES = {
    "starting": "[cyan]starting[/]",
    "ready": "[green]ready[/]",
    "stopping": "[yellow]ending[/]",
    "failed": "[red]failed[/]",
}


def mesh_table(state: MeshState, *, foot: str = "") -> RenderableType:
    """One line per process."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("name", "pid", "port", "state", "restarts", "up"):
        right = header in ("pid", "port", "restarts", "up")
        table.add_column(header, justify="right" if right else "left", min_width=_WIDTHS.get(header, 0))
    for one in state.processes:
        said = one.condition + (f" ({one.detail})" if one.detail and one.condition != "healthy" else "")
        table.add_row(
            Text(one.name, style="bold" if one.kind == "agent" else ""),
            str(one.pid or "-"),
            one.port or "-",
            Text(said, style=style_of(one.condition)),
            Text(str(one.restarts), style="yellow" if one.restarts else "dim"),
            duration(max(0.0, time.time() - one.started)) if one.pid else "-",
        )
    head = Text.from_markup(f"[bold]Archon mesh[/]  {_HEADLINES[state.phase]}  ")
    head.append(state.home, style="dim")
    notes = [Text(f"note: {note}", style="yellow") for note in state.notes]
    return Group(head, *notes, table, *([Text(foot, style="dim")] if foot else []))


def live_table(state: Callable[[], MeshState], foot: Callable[[], str] = str) -> Live:
    """The table, kept up to date until the block ends. Use it as a context manager."""
    from rich.live import Live

    from archon_services.cli.render.output import console

    return Live(
        get_renderable=lambda: mesh_table(state(), foot=foot()),
        console=console(),
        refresh_per_second=8,
        vertical_overflow="visible",
    )


class MeshLines:
    """A line for each change, on standard error."""

    def __init__(self) -> None:
        self._seen: dict[str, ProcessState] = {}
        self._noted = 0

    def show(self, state: MeshState) -> None:
        """Prints what is new."""
        for note in state.notes[self._noted :]:
            say(f"note: {note}")
        self._noted = len(state.notes)
        for one in state.processes:
            before = self._seen.get(one.name)
            self._seen[one.name] = one
            if before is not None and (before.condition, before.pid) != (one.condition, one.pid):
                more = f"  pid {one.pid}  {one.address}" if one.pid else f"  {one.detail}"
                say(f"{one.name:<16} {one.condition:<10}{more}".rstrip())
