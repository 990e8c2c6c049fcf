"""`archon demo`: runs a sample brief with both strategies."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.options import OrchestratorOption

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run

_HEADINGS: Final = {
    "pipeline": "1. Pipeline: the roles run in the order of the dependency graph",
    "agent": "2. Agent: the coordinator delegates to the other roles as tools",
}


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the mesh running afterwards.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a sample brief with both strategies.

    The first run is a pipeline of three roles; in the second run the coordinator delegates to them. Uses the mesh in
    ARCHON_HOME; if none is running, starts a temporary one.
    """
    from archon_services.cli.commands.up import start_detached
    from archon_services.cli.contexts import find_home
    from archon_services.cli.target.mesh import target_or_none
    from archon_services.local_mesh import MeshOptions

    home = find_home()
    if keep and target_or_none(orchestrator, home) is None:
        start_detached(home, MeshOptions())
    stays = target_or_none(orchestrator, home) is not None
    raise typer.Exit(asyncio.run(_demo(orchestrator, stays=stays)))


async def _demo(orchestrator: str, *, stays: bool) -> int:
    from archon_services.cli.commands.run import make_screen, print_outcome
    from archon_services.cli.errors import OK
    from archon_services.cli.follow_run import RunRequest, submit_and_follow
    from archon_services.cli.target.mesh import orchestrator_flag
    from archon_services.cli.target.temporary_mesh import running_or_own_mesh

    brief = files("archon_services.cli").joinpath("briefs", "demo.md").read_text(encoding="utf-8")
    flag = orchestrator_flag(orchestrator)
    runs: dict[str, Run] = {}
    async with running_or_own_mesh(orchestrator) as (target, signals):
        for strategy, heading in _HEADINGS.items():
            _print_heading(heading)
            request = RunRequest(brief, strategy=strategy)
            outcome = await submit_and_follow(target, request, make_screen(flag=flag), signals)
            print_outcome(outcome, flag=flag)
            if outcome.code != OK:
                return outcome.code
            runs[strategy] = outcome.run
    run_id = runs["agent"].run_id[:12]
    print()
    print(comparison(runs["pipeline"], runs["agent"]))
    print(f"\nTo look closer{'' if stays else ', start a mesh (archon up --detach)'}:")
    print("\n".join(f"  archon {command} {run_id}{flag}" for command in ("show", "trace", "prompts")))
    return OK


def comparison(pipeline: Run, agent: Run) -> str:
    """Compares the tasks and model calls of the two runs, one line each."""
    from archon_services.cli.render.output import counted

    delegated = [task.role for task in agent.tasks if task.parent_task_id]
    roles = f" ({', '.join(delegated)})" if delegated else ""
    coordinator = " and ".join(task.role for task in agent.tasks if not task.parent_task_id)
    return (
        f"Pipeline: {counted(len(pipeline.tasks), 'task')} in dependency order, "
        f"{counted(pipeline.usage.model_calls, 'model call')}.\n"
        f"Agent: {coordinator} made {counted(len(delegated), 'delegation')}{roles}, "
        f"{counted(agent.usage.model_calls, 'model call')}."
    )


def _print_heading(text: str) -> None:
    from archon_services.cli.render.output import console, is_terminal

    print()
    if is_terminal():
        console().print(text, style="bold cyan")
    else:
        print(text, flush=True)
