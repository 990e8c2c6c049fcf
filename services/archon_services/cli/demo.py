"""`archon demo`: a real brief of a page through the whole mesh."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Annotated

import typer

from archon_services.cli.target import OrchestratorOption


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh up afterwards.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a brief of one page, and end by itself.

    Uses the mesh that is up in ARCHON_HOME; where none is, it starts one and ends it afterwards.
    """
    from archon_services.cli.following import Order
    from archon_services.cli.run import run_order
    from archon_services.cli.target import target_or_none
    from archon_services.cli.up import start_detached
    from archon_services.mesh_up import Home, MeshOptions

    home = Home.find()
    if keep and target_or_none(orchestrator, home) is None:
        start_detached(home, MeshOptions())
    brief = files("archon_services.cli").joinpath("briefs", "demo.md").read_text(encoding="utf-8")
    raise typer.Exit(asyncio.run(run_order(Order(brief), orchestrator)))
