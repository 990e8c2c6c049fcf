"""Which run is meant: by its id, the beginning of one, or `last`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import NOT_FOUND, USAGE, CliError

if TYPE_CHECKING:
    from archon.client import Client

LAST: Final = "last"
_SEARCHED: Final = 10_000

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=f"A run's id, the beginning of one, or `{LAST}`.")]


async def find_run(client: Client, named: str) -> str:
    """The id of the run meant by an id, the beginning of one, or `last`. Raises CliError."""
    if not named:
        raise CliError("an empty id names no run", code=USAGE)
    if named == LAST:
        newest = await client.list_runs(limit=1)
        if not newest:
            raise CliError("there is no run yet", code=NOT_FOUND)
        return newest[0].run_id
    matching = [one.run_id for one in await client.list_runs(limit=_SEARCHED) if one.run_id.startswith(named)]
    if len(matching) == 1 or named in matching:
        return named if named in matching else matching[0]
    if not matching:
        raise CliError(f"no run's id begins with {named!r}", hint="`archon runs` lists the runs.", code=NOT_FOUND)
    raise CliError(f"{len(matching)} runs have ids that begin with {named!r}", hint="Give more of it.", code=USAGE)
