"""`archon serve`: serves an agent from a YAML file as a role of the mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import AgentModelOption, RegistryOption
from archon_services.cli.target.mesh import find_registry


def serve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The YAML file that declares the agent.")],
    model: AgentModelOption = "",
    host: Annotated[
        str, typer.Option(envvar="ARCHON_HOST", metavar="HOST", help="The interface to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            envvar="ARCHON_PORT", metavar="PORT", min=0, max=65535, help="The port to listen on; 0 for any free one."
        ),
    ] = 0,
    advertise: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_ADVERTISE",
            metavar="HOST[:PORT]",
            help="The address that others dial; by default the one it listens on.",
        ),
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Validate the file and exit.")] = False,
    registry: RegistryOption = "",
) -> None:
    """Serve an agent from a YAML file as a role of the mesh.

    Ctrl-C drains it: tasks in progress finish before it leaves the mesh.
    """
    from archon.errors import InvalidArgument, NotFound
    from archon_mesh.declared import load_agent
    from archon_services.agents.app import serve_role
    from archon_services.agents.settings import AgentServiceSettings
    from archon_services.cli.render.output import counted

    overrides = replace(AgentServiceSettings().overrides(), model=model or None)
    try:
        declared = load_agent(file, overrides=overrides)
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None
    if check:
        names = [tool.name for tool in declared.agent.tools.list_tools()]
        tools = f"{counted(len(names), 'tool')} ({', '.join(names)})" if names else "no tools"
        print(f"{file} declares the role {declared.role.name} with {tools}.")
        return
    settings = AgentServiceSettings(
        registry=find_registry(registry), host=host, port=port, advertise=advertise, log_level="info"
    )
    raise typer.Exit(serve_role(declared.role, settings, declared.agent))
