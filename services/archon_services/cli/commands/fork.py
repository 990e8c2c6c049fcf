"""`archon fork`: forks a run at one of its events, with changes, in a new run."""

from __future__ import annotations

from typing import Annotated

import typer

from archon_services.cli.commands.rerun import start_fork
from archon_services.cli.fork_options import DryRunOption, EditOption, read_answers, read_inputs
from archon_services.cli.options import JsonEventsOption, OrchestratorOption, RunArgument


def fork(
    run: RunArgument,
    at: Annotated[
        int,
        typer.Option("--at", min=0, metavar="SEQ", help="The last event that counts; by default that of the run."),
    ] = 0,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TASK.input=TEXT",
            help="An input in place of the goal, or of the step's description; @FILE reads it. Repeatable.",
        ),
    ] = None,
    edit_answer: EditOption = None,
    goal: Annotated[str, typer.Option(metavar="TEXT", help="Another goal.")] = "",
    dry_run: DryRunOption = False,
    as_json: JsonEventsOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Fork a run at one of its events, with other inputs, answers or another goal, in a new run.

    \b
    archon fork last --at 31
    archon fork last --set writer.input="Write it for children."
    archon fork last --edit-answer researcher=@facts.txt --dry-run

    Tasks that had completed by then are not executed again, unless they are changed, or their answers used an answer
    that is. The run may be in progress. Prints the same as `archon run`; `archon runs --tree` shows forks.
    """
    from archon_services.cli.follow_run import ForkRequest

    answers, inputs = read_answers(edit_answer or ()), read_inputs(sets or ())
    request = ForkRequest(at, goal, (), answers, inputs)
    start_fork(run, request, orchestrator, dry_run=dry_run, as_json=as_json, quiet=quiet, at_any_time=True)
