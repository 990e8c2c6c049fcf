"""The run of a command: found by an id, a prefix of one, or `last`; and its events so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import LAST
from archon_services.cli.run_ids import short_length

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run, RunEvent
    from archon.client import Client

_SHOWN: Final = 5
"""Candidates that are listed if a prefix matches several runs."""

_SEARCHED: Final = 10_000
"""Newest runs among which prefixes are looked up."""

_PATIENCE: Final = 10.0
"""Seconds to wait for the events of a run."""


async def find_run_id(client: Client, name: str) -> str:
    """Returns the full id of the run. Raises CliError if no run or several runs match."""
    if not name:
        raise CliError("the run id is empty", code=USAGE)
    if name == LAST:
        newest = await client.list_runs(limit=1)
        if not newest:
            raise CliError("there are no runs", code=NOT_FOUND)
        return newest[0].run_id
    matches = [run.run_id for run in await client.list_runs(limit=_SEARCHED) if run.run_id.startswith(name)]
    if len(matches) == 1 or name in matches:
        return name if name in matches else matches[0]
    if not matches:
        raise CliError(f"no run id starts with {name!r}", hint="`archon runs` lists the runs.", code=NOT_FOUND)
    candidates = ", ".join(match[: short_length(matches)] for match in matches[:_SHOWN])
    more = f" and {len(matches) - _SHOWN:,} more" if len(matches) > _SHOWN else ""
    raise CliError(
        f"{len(matches):,} run ids start with {name!r}", hint=f"Use a longer prefix: {candidates}{more}.", code=USAGE
    )


async def read_events(client: Client, run: Run, apply: Callable[[RunEvent], None]) -> bool:
    """Calls `apply` with the durable events up to the present state of `run`, in order. Returns whether there are any:
    they are deleted some time after the end of the run. Raises CliError if no event comes for 10 seconds."""
    from archon.errors import RunExpired

    clock = asyncio.get_running_loop().time
    try:
        async with (
            asyncio.timeout(_PATIENCE) as limit,
            aclosing(client.watch(run.run_id, durable_only=True, patience=_PATIENCE)) as events,
        ):
            async for event in events:
                apply(event)
                if event.seq >= run.last_seq:
                    break
                limit.reschedule(clock() + _PATIENCE)
    except RunExpired:
        return False
    except TimeoutError:
        raise CliError(f"the events of run {run.run_id} have not come within {_PATIENCE:g} s") from None
    return True
