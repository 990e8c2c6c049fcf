"""`archon demo`: a real brief of a page through the whole mesh, by both strategies."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.target.mesh import OrchestratorOption

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run

_HEADINGS: Final = {
    "pipeline": "1. Pipeline: the registry's graph says who works when",
    "agent": "2. Agent: a coordinator gets the brief, and calls the other roles as tools",
}


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh up afterwards.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a brief of one page twice, as a pipeline and through the coordinator, and end by itself.

    Uses the mesh that is up in ARCHON_HOME; where none is, it starts one and ends it afterwards.
    """
    from archon_services.cli.commands.up import start_detached
    from archon_services.cli.target.mesh import target_or_none
    from archon_services.local_mesh import Home, MeshOptions

    home = Home.find()
    if keep and target_or_none(orchestrator, home) is None:
        start_detached(home, MeshOptions())
    stays = target_or_none(orchestrator, home) is not None
    raise typer.Exit(asyncio.run(_demo(orchestrator, stays=stays)))


async def _demo(orchestrator: str, *, stays: bool) -> int:
    from archon_services.cli.commands.run import make_screen, show_outcome
    from archon_services.cli.errors import OK
    from archon_services.cli.follow_run import Order, run_to_end
    from archon_services.cli.target.mesh import reach_of
    from archon_services.cli.target.temporary_mesh import some_mesh

    brief = files("archon_services.cli").joinpath("briefs", "demo.md").read_text(encoding="utf-8")
    runs: dict[str, Run] = {}
    async with some_mesh(orchestrator) as (target, signals):
        for strategy, heading in _HEADINGS.items():
            _print_heading(heading)
            screen = make_screen(reach=reach_of(orchestrator))
            outcome = await run_to_end(target, Order(brief, strategy=strategy), screen, signals)
            show_outcome(outcome)
            if outcome.code != OK:
                return outcome.code
            runs[strategy] = outcome.run
    print()
    print(difference(runs["pipeline"], runs["agent"]))
    look = f"archon show {runs['agent'].run_id[:12]} and archon prompts {runs['agent'].run_id[:12]} tell more"
    print(f"{look}." if stays else f"{look}, with a mesh up: archon up --detach")
    return OK


def difference(pipeline: Run, agent: Run) -> str:
    """How the two runs went about it."""
    delegated = [task for task in agent.tasks if task.parent_task_id]
    asked = ", ".join(task.role for task in delegated) or "nobody"
    leads = " and ".join(task.role for task in agent.tasks if not task.parent_task_id)
    return (
        f"The pipeline ran {_count(len(pipeline.tasks), 'task')} along the graph, with "
        f"{_count(pipeline.usage.model_calls, 'model call')}. In the agent run, {leads} chose whom to ask ({asked}): "
        f"{_count(len(delegated), 'delegation')}, {_count(agent.usage.model_calls, 'model call')}."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _print_heading(text: str) -> None:
    from archon_services.cli.render.output import console, is_terminal

    print()
    if is_terminal():
        console().print(text, style="bold cyan")
    else:
        print(text, flush=True)
