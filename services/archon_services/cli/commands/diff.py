"""`archon diff`: compares two runs."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import FAILED, CliError
from archon_services.cli.options import LAST, JsonOption, OrchestratorOption
from archon_services.cli.render.output import print_json
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon_mesh.recorded import RecordedRun

DIFFERENT: Final = 1
TROUBLE: Final = 2
"""The exit codes of diff(1) that are not 0; an unreachable mesh and an unknown run have the codes of every command,
which are higher."""

_RUN: Final = f"A run id, a unique prefix of a recent one, or `{LAST}` for the newest run."


def diff(
    left: Annotated[str, typer.Argument(metavar="RUN1", help=_RUN)],
    right: Annotated[str, typer.Argument(metavar="RUN2", help=_RUN)],
    as_json: JsonOption = False,
    prompts: Annotated[
        bool, typer.Option("--prompts/--no-prompts", help="Compare the recorded prompts and tool calls, too.")
    ] = True,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Compare two runs side by side: tasks, answers, tool calls, prompts, cost and time.

    Shows the parts that differ, by words: [-in RUN1 only-], {+in RUN2 only+}. Ids, instances and times are no
    difference. Exit code 0 if the runs are the same, 1 if they differ, more if they cannot be compared.
    """
    from archon.errors import ArchonError
    from archon_mesh.run_diff import diff_runs
    from archon_services.reports.run_diff import diff_lines

    try:
        first, second = asyncio.run(_fetch(find_orchestrator(orchestrator), left, right, records=prompts))
    except CliError as error:
        raise CliError(str(error), hint=error.hint, code=TROUBLE if error.code == FAILED else error.code) from error
    except ArchonError as error:
        if error.code in ("NOT_FOUND", "INVALID_ARGUMENT", "UNAVAILABLE", "DEADLINE_EXCEEDED"):
            raise
        raise CliError(str(error), code=TROUBLE) from error
    found = diff_runs(first, second)
    if as_json:
        print_json(found.document())
    else:
        print("\n".join(diff_lines(found, shutil.get_terminal_size((80, 24)).columns)))
    if not found.same:
        raise typer.Exit(DIFFERENT)


async def _fetch(orchestrator: str, left: str, right: str, *, records: bool) -> tuple[RecordedRun, RecordedRun]:
    from archon_mesh.recorded import fetch_run

    async with orchestrator_client(orchestrator) as client:
        first = await fetch_run(client, await find_run_id(client, left), records=records)
        return first, await fetch_run(client, await find_run_id(client, right), records=records)
