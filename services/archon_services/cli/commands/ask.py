"""`archon ask`: one answer to a query, by whichever roles of the mesh it needs."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.breakpoint_option import read_breakpoints
from archon_services.cli.errors import OK, CliError
from archon_services.cli.options import BreakOption, MetadataOption, OrchestratorOption, UserOption
from archon_services.cli.render.output import is_terminal, print_stderr
from archon_services.cli.run_metadata import metadata_of
from archon_services.cli.target.mesh import orchestrator_client, orchestrator_flag
from archon_services.cli.text_input import read_goal
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon.strategy_choice import StrategyChoice
    from archon.submission import Goal
    from archon_mesh.workflows import Workflow
    from archon_services.cli.follow_run import RunOutcome, RunRequest

ROLES: Final = ("planner", "researcher", "writer", "coder")
"""The roles of the temporary mesh that is started if none is running."""


def ask(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query; - reads it from standard input.")] = "",
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A text, image, audio or other file to attach to the query, or to use as the query. Repeatable.",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="A role that may take part; by default all with an instance. Repeatable."),
    ] = None,
    planner: Annotated[str, typer.Option(metavar="ROLE", help="The role that plans; by default planner.")] = "",
    check_alignment: Annotated[
        bool,
        typer.Option(
            "--check-alignment",
            help="If the query is planned: ask the planner, while its plan is executed, whether the plan still leads "
            "to the goal, and replace one that does not.",
        ),
    ] = False,
    session: Annotated[str, typer.Option(metavar="ID", help="The session whose shared memory the run uses.")] = "",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The time limit of the run; by default 1 h.")
    ] = None,
    user: UserOption = "",
    metadata: MetadataOption = None,
    break_before: BreakOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Answer a query. Prints the answer to standard output, and how it was found to standard error.

    A query of one step is answered by the role that fits it best; one of several steps is planned, and its steps go to
    the roles that fit them. A workflow that fits is run, unless --role or --planner is given. Uses the mesh in
    ARCHON_HOME; if none is running, starts a temporary one.
    """
    from archon_services.cli.follow_run import RunRequest

    text = read_goal(query, file or [], "query", hint='Pass it as an argument, as in: archon ask "..."')
    request = RunRequest(
        text,
        tuple(role or ()),
        session,
        timeout,
        planner=planner,
        metadata=metadata_of(user, metadata or []),
        check_alignment=check_alignment,
        breakpoints=read_breakpoints(break_before),
    )
    outcome = asyncio.run(_ask(request, orchestrator, quiet=quiet))
    _print(outcome)
    raise typer.Exit(outcome.code)


async def _ask(request: RunRequest, orchestrator: str, *, quiet: bool) -> RunOutcome:
    from archon_services.cli.follow_run import submit_and_follow
    from archon_services.cli.render.run_screen import LineScreen, QuietScreen
    from archon_services.cli.run_workflow import follow_workflow, workflow_request
    from archon_services.cli.target.temporary_mesh import running_or_own_mesh
    from archon_services.local_mesh import SERVICES, MeshOptions
    from archon_services.local_mesh.options import WORKFLOW

    fit = None if request.roles or request.planner else _fitting_workflow(request.goal)
    options = MeshOptions(only=(*SERVICES, *ROLES)) if fit is None else MeshOptions(replicas={WORKFLOW: 1})
    flag = orchestrator_flag(orchestrator)
    screen = QuietScreen(flag) if quiet else LineScreen(flag=flag)
    async with running_or_own_mesh(orchestrator, quiet=quiet, options=options) as (target, signals):
        if fit is not None:
            template, arguments = fit
            _note(f"running the workflow {template.reference}, which fits the query best", quiet=quiet)
            request = workflow_request(template, arguments, request)
            return await follow_workflow(request, template, target, signals, orchestrator, screen)
        async with orchestrator_client(target.orchestrator) as client:
            choosing = client.choose_strategy(request.goal, roles=request.roles, planner=request.planner)
            choice = await signals.guard(choosing)
        _note(_reason(choice), quiet=quiet)
        is_planned = choice.strategy == "plan"
        request = replace(
            request,
            roles=choice.roles,
            strategy=choice.strategy,
            planner=request.planner if is_planned else "",
            check_alignment=request.check_alignment and is_planned,
        )
        return await submit_and_follow(target, request, screen, signals)


def _fitting_workflow(query: Goal) -> tuple[Workflow, dict[str, Any]] | None:
    """Returns the workflow that a query asks for, with its arguments; None if there is none. Notes one that fits but
    for arguments that are missing."""
    from archon.errors import ArchonError
    from archon_mesh.planning.plan_template import asked_template
    from archon_mesh.workflows import WorkflowFolder, WorkflowTemplate
    from archon_mesh.workflows.parameters import checked_arguments
    from archon_services.cli.contexts import find_home

    if not isinstance(query, str):
        return None
    newest: dict[str, Workflow] = {}
    try:
        for each in WorkflowFolder.from_environment(find_home().root).list()[0]:
            newest.setdefault(each.name, each)
    except ArchonError as error:
        _note(f"note: no workflow is considered: {error}", quiet=False)
    fit = asked_template(query, [WorkflowTemplate(each) for each in newest.values()])
    if fit is None:
        return None
    template = newest[fit.template.name]
    if fit.missing:
        needed = " ".join(f"{name}=..." for name in fit.missing)
        _note(f"the workflow {template.reference} fits the query, but it needs {needed}", quiet=False)
        return None
    return template, checked_arguments(template.reference, template.parameters, fit.arguments)


def _note(text: str, *, quiet: bool) -> None:
    if not quiet:
        print_stderr(text)


def _reason(choice: StrategyChoice) -> str:
    how = f"asking {choice.roles[0]}" if choice.strategy == "agent" else "planning"
    return f"{how}: {choice.reason}"


def _print(outcome: RunOutcome) -> None:
    """Prints the answer. Raises CliError if the run ended without success."""
    from archon_services.cli.render.answer import shown_answer
    from archon_services.reports.state_names import state_name

    run = outcome.run
    if outcome.code == OK:
        text = shown_answer(run)
        sys.stdout.write((strip_controls(text) if is_terminal() else text).rstrip("\n") + "\n")
        return
    failure = f": {run.failure.message}" if run.failure.message else ""
    raise CliError(
        f"run {run.run_id} {state_name(run.state)}{failure}",
        hint=f"`archon show {run.run_id[:12]}` shows the run.",
        code=outcome.code,
    )
