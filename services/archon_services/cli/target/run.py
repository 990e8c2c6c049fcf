"""The run of a command: found by an id, a prefix of one, or `last`; and its events so far."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import LAST
from archon_services.cli.run_ids import short_length

if TYPE_CHECKING:
    from archon.api.orchestrator.v1 import run_pb2
    from archon.client import Client
    from archon.errors import RunExpired
    from archon.types import Run, RunEvent

_SHOWN: Final = 5
"""Candidates that are listed if a prefix matches several runs."""

_RECENT: Final = 200
_SEARCHED: Final = 10_000
"""Newest runs among which prefixes are looked up."""

_FULL: Final = re.compile(r"[0-9a-f]{32}")

_PATIENCE: Final = 10.0
"""Seconds to wait for the events of a run."""


async def find_run_id(client: Client, name: str) -> str:
    """Returns the full id of the run. One that is given in full is returned as it is: the call that follows tells
    whether there is such a run. Others are looked up among the newest runs. Raises CliError if none or several match.
    """
    if not name:
        raise CliError("the run id is empty", code=USAGE)
    if _FULL.fullmatch(name):
        return name
    if name == LAST:
        newest = await client.list_runs(limit=1)
        if not newest:
            raise CliError("there are no runs", code=NOT_FOUND)
        return newest[0].run_id
    matches, searched = await _matches(client, name)
    if len(matches) == 1 or name in matches:
        return name if name in matches else matches[0]
    if not matches:
        among = f" among the newest {_SEARCHED:,}" if searched >= _SEARCHED else ""
        older = "; older ones are found by their full id" if among else ""
        raise CliError(
            f"no run id{among} starts with {name!r}", hint=f"`archon runs` lists the runs{older}.", code=NOT_FOUND
        )
    candidates = ", ".join(match[: short_length(matches)] for match in matches[:_SHOWN])
    more = f" and {len(matches) - _SHOWN:,} more" if len(matches) > _SHOWN else ""
    raise CliError(
        f"{len(matches):,} run ids start with {name!r}", hint=f"Use a longer prefix: {candidates}{more}.", code=USAGE
    )


async def _matches(client: Client, prefix: str) -> tuple[list[str], int]:
    """Returns the ids that begin with `prefix`, and among how many they were looked up: first among a few, since mostly
    a recent run is meant."""
    matches: list[str] = []
    searched = 0
    for limit in (_RECENT, _SEARCHED):
        run_ids = [run.run_id for run in await client.list_runs(limit=limit)]
        matches, searched = [run_id for run_id in run_ids if run_id.startswith(prefix)], len(run_ids)
        # Ids grow with time: ids of older runs come before the prefix.
        if searched < limit or (matches and min(run_ids) < prefix):
            break
    return matches, searched


def details_removed(run_id: str) -> RunExpired:
    """Returns the error about a run without events, as the orchestrator words it."""
    from archon.errors import RunExpired

    return RunExpired(f"the details of run {run_id} were removed by retention")


async def read_events(client: Client, run: Run | run_pb2.Run, apply: Callable[[RunEvent], None]) -> bool:
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
