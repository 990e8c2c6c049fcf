"""`archon serve --mesh`: serves a role whose tasks are runs of the mesh of a context."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.context_mesh import context_mesh
from archon_services.cli.target.mesh import find_registry, orchestrator_beside

TOKEN: Final = "ARCHON_OTHER_MESH_TOKEN"
"""The variable with a token of the other mesh; without it, the token of its context is presented."""

STRATEGIES: Final = ("agent", "pipeline", "plan")


@dataclass(frozen=True, slots=True)
class GatewayRole:
    """The role for another mesh, as the options of the command say."""

    context: str
    name: str = ""
    description: str = ""
    capabilities: Sequence[str] = ()
    strategy: str = ""
    roles: Sequence[str] = ()
    planner: str = ""
    metadata: Sequence[str] = ()


def serve_mesh(role: GatewayRole, host: str, port: int, advertise: str, registry: str, *, check: bool) -> int:
    """Serves the role until a signal, or only checks its options, and returns the exit code. Raises CliError if an
    option is invalid."""
    from archon.errors import InvalidArgument
    from archon.federation import RunChoice
    from archon.identifiers import check_role
    from archon_services.agents.gateway import GatewayOptions, serve_gateway
    from archon_services.agents.settings import AgentServiceSettings

    if role.strategy and role.strategy not in STRATEGIES:
        raise CliError(f"unknown strategy {role.strategy!r}: expected one of {', '.join(STRATEGIES)}", code=USAGE)
    own = find_registry(registry)
    mesh = context_mesh(role.context, own)
    try:
        check_role(name := role.name or role.context)
    except InvalidArgument as error:
        raise CliError(str(error), hint="--name NAME gives the role another name.", code=USAGE) from None
    if check:
        print(f"The role {name} hands its tasks to the mesh of the context {role.context}.")
        return 0
    options = GatewayOptions(
        mesh=role.context,
        address=mesh.orchestrator,
        registry=mesh.registry(),
        role=name,
        description=role.description,
        capabilities=tuple(role.capabilities),
        choice=RunChoice(role.strategy, tuple(role.roles), role.planner),
        metadata=tuple(role.metadata) or ("*",),
        orchestrator=orchestrator_beside(own),
        credentials=mesh.credentials(os.environ.get(TOKEN, "")),
    )
    settings = AgentServiceSettings(registry=own, host=host, port=port, advertise=advertise, log_level="info")
    return serve_gateway(options, settings)
