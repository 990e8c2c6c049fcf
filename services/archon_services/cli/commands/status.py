"""`archon status`: the processes on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from archon_services.cli.contexts import find_home
from archon_services.cli.errors import START_HINT, UNREACHABLE, CliError
from archon_services.cli.options import JsonOption, WatchOption
from archon_services.cli.render.output import print_json, print_table, shown_address
from archon_services.cli.watching import repeat
from archon_services.local_mesh import MeshState, live_state
from archon_services.reports.texts import age

if TYPE_CHECKING:
    from archon_services.local_mesh.state import ProcessState

_HEADERS: Final = ("process", "state", "pid", "address", "up for", "restarts", "model")
_METRICS: Final = "metrics"
"""A further column if processes serve metrics."""

_RIGHT: Final = (2, 4, 5)
_FOLDED: Final = (6,)


def status(watch: WatchOption = False, as_json: JsonOption = False) -> None:
    """Show the processes of the mesh in ARCHON_HOME.

    Exits with 1 if one of them is not healthy.
    """
    import typer

    healthy = True

    def show() -> None:
        nonlocal healthy
        state = _state()
        healthy = state.phase == "ready" and all(process.condition == "healthy" for process in state.processes)
        _print(state, as_json=as_json)

    repeat(show, watch=watch)
    if not healthy:
        raise typer.Exit(1)


def _state() -> MeshState:
    home = find_home()
    state = live_state(home)
    if state is None:
        raise CliError(f"no mesh is running in {home.root}", hint=START_HINT, code=UNREACHABLE)
    return state


def _print(state: MeshState, *, as_json: bool) -> None:
    from importlib.metadata import version

    installed = version("archon-mesh")
    if as_json:
        print_json({**asdict(state), "version": installed})
        return
    print(f"Archon {installed}, mesh in {state.home}: {state.phase}")
    headers: tuple[str, ...] = _HEADERS
    rows = [_row(process) for process in state.processes]
    if any(process.metrics for process in state.processes):
        headers = (*headers, _METRICS)
        rows = [(*row, process.metrics or "-") for row, process in zip(rows, state.processes, strict=True)]
    print_table(headers, rows, right=_RIGHT, folded=_FOLDED)
    for process in state.processes:
        if process.detail and process.condition != "healthy":
            print(f"{process.name}: {process.detail}")
    for note in state.notes:
        print(note)


def _row(process: ProcessState) -> tuple[str, ...]:
    return (
        process.name,
        process.condition,
        str(process.pid or "-"),
        shown_address(process.address) or "-",
        age(process.age) if process.started else "-",
        str(process.restarts),
        process.model or "-",
    )
