"""`archon rerun`: continues an ended run in a new one, or executes tasks of it again."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.commands.run import make_screen, print_outcome
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.fork_options import DryRunOption, EditOption, read_answers
from archon_services.cli.options import JsonEventsOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import is_terminal, print_json
from archon_services.cli.target.mesh import find_target, orchestrator_flag
from archon_services.cli.target.temporary_mesh import running_or_own_mesh
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon_services.cli.follow_run import ForkRequest

WIDTH: Final = 80
"""Characters of a line that is printed to no terminal."""


def rerun(
    run: RunArgument,
    start: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="TASK", help="A role, a step or a task's id to execute again. Repeatable."),
    ] = None,
    edit_answer: EditOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonEventsOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Continue an ended run in a new run, or execute tasks of it again, with all that used their answers.

    The new run has the goal, the plan and the settings of the ended one. It reuses the answers of the tasks that had
    completed and the answers of people, and executes the other tasks anew. With --from or --edit-answer also these
    tasks are executed again, or have another answer, and those whose answers used theirs, and no others. Prints the
    same as `archon run`. Ctrl-C cancels the new run, a second Ctrl-C detaches from it.
    """
    from archon_services.cli.follow_run import ForkRequest

    request = ForkRequest(rerun=tuple(dict.fromkeys(start or ())), answers=read_answers(edit_answer or ()))
    start_fork(run, request, orchestrator, dry_run=dry_run, as_json=as_json, quiet=quiet)


def start_fork(
    run: str,
    request: ForkRequest,
    orchestrator: str,
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    at_any_time: bool = False,
) -> None:
    """Forks a run and follows the new one, or with `dry_run` prints the tasks that it would execute. Always raises
    Exit, or CliError if options exclude each other."""
    if as_json and quiet:
        raise CliError("--json and --quiet are mutually exclusive", code=USAGE)
    if dry_run and quiet:
        raise CliError("--dry-run and --quiet are mutually exclusive", code=USAGE)
    if dry_run:
        _preview(run, request, orchestrator, as_json=as_json, at_any_time=at_any_time)
        raise typer.Exit(0)
    work = _follow(run, request, orchestrator, as_json=as_json, quiet=quiet, at_any_time=at_any_time)
    raise typer.Exit(asyncio.run(work))


def _preview(name: str, request: ForkRequest, orchestrator: str, *, as_json: bool, at_any_time: bool) -> None:
    from archon_services.cli.follow_run import preview_fork
    from archon_services.cli.render.rerun import preview_document, preview_lines

    run_id, preview = asyncio.run(preview_fork(find_target(orchestrator), name, request, at_any_time=at_any_time))
    if as_json:
        print_json(preview_document(run_id, preview))
        return
    width = shutil.get_terminal_size().columns if is_terminal() else WIDTH
    for line in preview_lines(run_id, preview, width):
        print(strip_controls(line))


async def _follow(
    name: str, request: ForkRequest, orchestrator: str, *, as_json: bool, quiet: bool, at_any_time: bool
) -> int:
    from archon_services.cli.follow_run import fork_and_follow

    flag = orchestrator_flag(orchestrator)
    async with running_or_own_mesh(orchestrator, quiet=quiet) as (target, signals):
        screen = make_screen(as_json=as_json, quiet=quiet, flag=flag)
        outcome = await fork_and_follow(target, name, screen, signals, request, quiet=quiet, at_any_time=at_any_time)
    if not as_json:
        print_outcome(outcome, quiet=quiet, flag=flag)
    return outcome.code
