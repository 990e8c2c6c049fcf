"""The runs that are a baseline: those that cases were made from, or runs of an earlier eval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon.client import Client
    from archon_mesh.evals import Case


async def baseline_runs(client: Client, cases: Sequence[Case], names: str, *, is_origin: bool) -> dict[str, list[str]]:
    """Returns the runs of each case: its origin, or the ones in `names` (separated by commas) that an eval made
    of it or that it was made from. Raises CliError if there are none, or a run belongs to no case."""
    from archon_mesh.evals.targets import CASE_KEY

    if is_origin:
        runs = {case.id: [case.origin] for case in cases if case.origin}
        if not runs:
            raise CliError("no case was made from a run", hint="`archon dataset add RUN` makes cases.", code=USAGE)
        return runs
    runs = {}
    for name in filter(None, map(str.strip, names.split(","))):
        run = await client.get(await _find(client, name))
        named = run.metadata.get(CASE_KEY, "")
        case = next((case for case in cases if case.id == named or case.origin == run.run_id), None)
        if case is None:
            raise CliError(f"run {run.run_id} belongs to no case of the data set", code=USAGE)
        runs.setdefault(case.id, []).append(run.run_id)
    return runs


async def _find(client: Client, name: str) -> str:
    try:
        return await find_run_id(client, name)
    except CliError as error:
        if error.code == NOT_FOUND:
            raise CliError(
                f"there is no file and no run {name!r}, for --against", hint=error.hint, code=NOT_FOUND
            ) from None
        raise
