"""`archon down`: stops the mesh."""

from __future__ import annotations

import asyncio
from typing import Final

from archon_services.cli.contexts import find_home
from archon_services.cli.run_ids import short_length
from archon_services.local_mesh import Home, live_state, stop_mesh

_PATIENCE: Final = 3.0
"""Seconds to wait for the list of runs: it must not keep a mesh from being stopped."""

_COUNTED: Final = 10_000
_NAMED: Final = 5


def down() -> None:
    """Stop the mesh in ARCHON_HOME.

    Data and logs are kept, and runs in progress continue at the next `archon up`, unless the journal is in memory
    (ARCHON_JOURNAL=memory).
    """
    home = find_home()
    state = live_state(home)
    open_runs = asyncio.run(_open_runs(home))
    if not stop_mesh(home):
        print(f"No mesh is running in {home.root}.")
        return
    print(f"Stopped the mesh in {home.root}.")
    if open_runs:
        print(open_runs_text(open_runs, durable=state is None or state.durable))


def open_runs_text(run_ids: list[str], *, durable: bool = True) -> str:
    """Says whether these runs continue at the next start; names a few of them."""
    named = ", ".join(run_id[: short_length(run_ids)] for run_id in run_ids[:_NAMED])
    more = f" and {len(run_ids) - _NAMED:,} more" if len(run_ids) > _NAMED else ""
    if not durable:
        subject = "1 run is" if len(run_ids) == 1 else f"{len(run_ids):,} runs are"
        return f"{subject} lost, because the journal is in memory: {named}{more}"
    subject = "1 run continues" if len(run_ids) == 1 else f"{len(run_ids):,} runs continue"
    return f"{subject} at the next `archon up`: {named}{more}"


async def _open_runs(home: Home) -> list[str]:
    """The ids of the runs in progress, newest first; none if the orchestrator does not answer in time."""

    state = live_state(home)
    address = state.address("orchestrator") if state is not None else ""
    if not address:
        return []
    from archon.client import Client
    from archon.errors import ArchonError
    from archon.types import TaskState

    states = [state for state in TaskState if state.proto and not state.final]
    try:
        async with asyncio.timeout(_PATIENCE), Client(address) as client:
            return [run.run_id for run in await client.list_runs(limit=_COUNTED, states=states)]
    except (ArchonError, TimeoutError):
        return []
