"""`archon serve`: an agent of one's own as a role of the mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.mesh import RegistryOption, find_registry


def serve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The YAML file that declares the agent.")],
    model: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_MODEL", metavar="MODEL", help="offline or openai/NAME, where the file says of none."
        ),
    ] = "offline",
    host: Annotated[str, typer.Option(envvar="ARCHON_HOST", help="Where it listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="ARCHON_PORT", min=0, max=65535, help="Where it listens; 0 picks a free one.")
    ] = 0,
    advertise: Annotated[
        str, typer.Option(envvar="ARCHON_ADVERTISE", metavar="HOST[:PORT]", help="Where others dial it.")
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Say whether the file is right, and serve nothing.")] = False,
    registry: RegistryOption = "",
) -> None:
    """Serve an agent that a file declares, as a role of the mesh that is up here or of the registry that is named.

    Ctrl-C lets it finish what it works on, then it leaves.
    """
    from archon.errors import InvalidArgument, NotFound
    from archon_mesh.declared import load_agent
    from archon_services.agents.app import serve_role
    from archon_services.agents.settings import AgentServiceSettings

    try:
        declared = load_agent(file, model=model)
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None
    if check:
        role, tools = declared.role, [one.name for one in declared.agent.tools.list_tools()]
        print(f"{file} declares {role.name}: {len(tools)} tools{': ' + ', '.join(tools) if tools else ''}.")
        return
    settings = AgentServiceSettings(
        registry=find_registry(registry), model=model, host=host, port=port, advertise=advertise, log_level="info"
    )
    raise typer.Exit(serve_role(declared.role, settings, declared.agent))
