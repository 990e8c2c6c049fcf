"""`archon graph`: shows the dependencies between roles."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.drawing_format import Format, format_of
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import JsonOption, RegistryOption, WatchOption
from archon_services.cli.render.graph import render_graph
from archon_services.cli.render.output import save_text
from archon_services.cli.target.mesh import connecting, find_registry
from archon_services.cli.watching import repeat

if TYPE_CHECKING:
    from archon.registry import Graph


def graph(
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default the format of the suffix of --output, else text."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    watch: WatchOption = False,
    as_json: JsonOption = False,
    registry: RegistryOption = "",
) -> None:
    """Show the dependencies between roles: which one uses whose answers."""
    form = form or (Format.JSON if as_json else None) or format_of(output)
    address = find_registry(registry)

    def rendered() -> str:
        dependencies, instances, coordinators = asyncio.run(_query(address))
        return render_graph(dependencies, instances, form, coordinators)

    if output is None:
        repeat(lambda: print(rendered(), end=""), watch=watch)
        return
    if watch:
        raise CliError("--watch and --output exclude each other", code=USAGE)
    save_text(output, rendered())


async def _query(registry: str) -> tuple[Graph, Counter[str], frozenset[str]]:
    """Returns the graph, the number of instances by role, and the coordinating roles."""
    from archon.registry import RegistryClient

    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            dependencies = await client.get_graph()
            instances = await client.list_instances()
    coordinators = frozenset(instance.role for instance in instances if instance.coordinator)
    return dependencies, Counter(instance.role for instance in instances), coordinators
