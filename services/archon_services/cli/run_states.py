"""The states of runs that a list names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from archon.client import Client

AT_ONCE: Final = 10
"""Runs that are read at once."""

REMOVED: Final = "removed"
"""The state of a run that is not kept any more."""


async def run_states(client: Client, run_ids: Iterable[str]) -> dict[str, str]:
    """Returns the state of each run by its id; `removed` if it is not kept any more. Empty ids are left out. Raises
    Archon's errors."""
    from archon.errors import RunExpired, UnknownRun
    from archon_services.reports.state_names import run_state_name

    free = asyncio.Semaphore(AT_ONCE)

    async def state(run_id: str) -> str:
        async with free:
            try:
                return run_state_name((await client.get(run_id)).proto)
            except (UnknownRun, RunExpired):
                return REMOVED

    wanted = list(dict.fromkeys(filter(None, run_ids)))
    return dict(zip(wanted, await asyncio.gather(*map(state, wanted)), strict=True))
