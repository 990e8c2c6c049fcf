"""`archon run`: one goal, from submit to answer."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options.budget import MOST_DEPTH, MOST_TOKENS, budget_of
from archon_services.cli.target.mesh import OrchestratorOption, reach_of

if TYPE_CHECKING:
    from archon_services.cli.follow_run import Order, Outcome
    from archon_services.cli.render.run_screen import Screen


class StrategyName(StrEnum):
    """What a run may do."""

    PIPELINE = "pipeline"
    AGENT = "agent"


def run(
    goal: Annotated[
        str, typer.Argument(metavar="GOAL", help="What is to be done; - reads it from standard input.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="A text that belongs to the goal, or is the goal.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="Who takes part; all of the pipeline by default. Repeatable."),
    ] = None,
    strategy: Annotated[
        StrategyName | None,
        typer.Option(
            help="pipeline: all roles, along their dependencies. agent: one role, the coordinating one by default, "
            "which may delegate to others. By default agent where one --role is named, else pipeline.",
        ),
    ] = None,
    session: Annotated[str, typer.Option(metavar="ID", help="The session whose shared memory the run works in.")] = "",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The run's time; 1 h by default.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(min=1, max=MOST_TOKENS, metavar="N", help="What it may spend: tokens, in and out.")
    ] = None,
    budget_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="What it may spend: US dollars, as in 0.25.")
    ] = None,
    budget_depth: Annotated[
        int | None, typer.Option(min=1, max=MOST_DEPTH, metavar="N", help="How deep delegations may nest.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON, and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a goal through the mesh: a live tree, the answer, a summary.

    Uses the mesh that is up in ARCHON_HOME; where none is, it starts one and ends it afterwards. Ctrl-C asks for the
    run to be cancelled, a second one leaves.
    """
    if as_json and quiet:
        raise CliError("--json and --quiet exclude each other", code=USAGE)
    roles = role or []
    if strategy is StrategyName.AGENT and len(roles) > 1:
        raise CliError(
            f"--strategy agent takes one --role, not {len(roles)}",
            hint="Without --role it is the one that coordinates; --strategy pipeline takes any number.",
            code=USAGE,
        )
    from archon_services.cli.follow_run import Order
    from archon_services.cli.options.text import read_given

    text = read_given(goal, file, "goal", hint='Say what is to be done, as in: archon run "..."')

    order = Order(
        text,
        tuple(roles),
        session,
        timeout,
        str(strategy or ""),
        budget_of(tokens=budget_tokens, cost=budget_cost, depth=budget_depth),
    )
    raise typer.Exit(asyncio.run(_run(order, orchestrator, as_json=as_json, quiet=quiet)))


async def _run(order: Order, orchestrator: str, *, as_json: bool, quiet: bool) -> int:
    from archon_services.cli.follow_run import run_to_end
    from archon_services.cli.target.temporary_mesh import some_mesh

    async with some_mesh(orchestrator, quiet=quiet) as (target, signals):
        screen = make_screen(as_json=as_json, quiet=quiet, reach=reach_of(orchestrator))
        outcome = await run_to_end(target, order, screen, signals)
    if not as_json:
        show_outcome(outcome, quiet=quiet)
    return outcome.code


def make_screen(*, as_json: bool = False, quiet: bool = False, reach: str = "") -> Screen:
    """What shows a run here; `reach` is what another command needs to find it."""
    from archon_services.cli.render.output import is_terminal
    from archon_services.cli.render.run_screen import JsonScreen, LineScreen, QuietScreen, TreeScreen

    if as_json:
        return JsonScreen()
    if quiet:
        return QuietScreen(reach)
    return TreeScreen(reach) if is_terminal() else LineScreen(reach=reach)


def show_outcome(outcome: Outcome, *, quiet: bool = False) -> None:
    """The answer, then who did what."""
    from archon_services.cli.render.output import say
    from archon_services.cli.render.run_view import state_name
    from archon_services.cli.render.summary import print_answer, print_summary

    print_answer(outcome.run)
    if not quiet:
        print_summary(outcome.run, outcome.versions)
    elif outcome.code:
        say(f"error: the run {state_name(outcome.run.state)}: {outcome.run.failure.message}")
