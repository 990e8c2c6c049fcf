"""Serves a role whose tasks are runs of another mesh."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from archon.errors import ArchonError, FailedPrecondition
from archon.federation import MeshGateway, RunChoice, gateway_server
from archon.federation.other_mesh import Address, description_of, mesh_id_of
from archon.security.credentials import Credentials
from archon.telemetry import logs
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.process import run


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The other mesh and the role that stands for it. `address` is the orchestrator of the other mesh, `registry` its
    registry if that is known, `orchestrator` the orchestrator of this mesh if that is known, `credentials` are
    presented to the other mesh. An empty role has the name of the mesh, an empty description is made of its roles."""

    mesh: str
    address: Address
    registry: str = ""
    role: str = ""
    description: str = ""
    capabilities: Sequence[str] = ()
    choice: RunChoice = field(default_factory=RunChoice)
    metadata: Sequence[str] = ("*",)
    orchestrator: str = ""
    credentials: Credentials | None = None


@asynccontextmanager
async def gateway_app(options: GatewayOptions, settings: AgentServiceSettings) -> AsyncIterator[str]:
    """Serves the role inside the block and drains at its end; yields host:port. The other mesh need not run.

    Raises FailedPrecondition if the other mesh is this one, InvalidArgument for a name that no role may have, and
    Unavailable if the port is in use.
    """
    gateway = MeshGateway(
        options.mesh,
        options.address,
        choice=options.choice,
        metadata=options.metadata,
        orchestrator=options.orchestrator,
        credentials=options.credentials,
    )
    await _check_other(options, gateway.mesh_id)
    about = options.description or await description_of(
        options.mesh, options.registry, options.choice.roles, options.credentials
    )
    server = gateway_server(
        gateway,
        options.role,
        description=about,
        capabilities=options.capabilities,
        settings=settings.agent_settings(),
    )
    logs.identify(server.instance_id)
    async with gateway:
        try:
            yield await server.start()
        finally:
            await server.stop(settings.drain)


def serve_gateway(options: GatewayOptions, settings: AgentServiceSettings) -> int:
    """Serves the role until a signal and returns the exit code."""
    name = options.role or options.mesh
    return run(name, lambda: gateway_app(options, settings), settings, service_name=name)


async def _check_other(options: GatewayOptions, own: str) -> None:
    try:
        other = await mesh_id_of(options.address(), options.credentials)
    except ArchonError:
        return  # it may start later; a loop is refused by the lineage of its runs
    if other and other == own:
        raise FailedPrecondition(f"{options.mesh} is this mesh itself: a mesh has no role for its own runs")
