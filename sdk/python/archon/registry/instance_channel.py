"""Connects to an instance of the registry: directly, or through the orchestrator that it is attached to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc.aio

from archon.channel import Option, agent_options, connect
from archon.registry.registration import Registration
from archon.security.credentials import Credentials, credentials_for
from archon.security.peer import ORCHESTRATOR, agent
from archon.security.tokens import Audience


def credentials_of_mesh(registry: str) -> dict[Audience, Credentials]:
    """Returns the credentials of this process for all members of the mesh with this registry (host:port), by audience.
    Raises TokenInvalid if ARCHON_TOKEN is no token."""
    return {"services": credentials_for(registry, "services"), "agents": credentials_for(registry, "agents")}


def connect_to_instance(
    instance: Registration,
    credentials: Mapping[Audience, Credentials] | None = None,
    options: Sequence[Option] | None = None,
) -> grpc.aio.Channel:
    """Returns a channel to an instance; the caller closes it. Calls of an attached instance are relayed by the
    orchestrator that holds it. `credentials` are by default those for the mesh of the address that is dialled, and
    `options` those for agents."""
    peer = agent(instance.role, instance.tenant) if instance.address else ORCHESTRATOR
    return connect(
        instance.dialled_at,
        agent_options() if options is None else options,
        peer=peer,
        credentials=None if credentials is None else credentials[peer.audience],
        instance_id="" if instance.address else instance.instance_id,
    )
