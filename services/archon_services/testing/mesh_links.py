"""The network of a mesh in the event loop of a test: a link before each server, which faults cut, shut and slow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archon.agent import AgentSettings
from archon_services.testing.etcd import free_ports
from archon_services.testing.link import HOST, Link
from archon_services.testing.local_service import LocalService


@dataclass(frozen=True, slots=True)
class AgentLinks:
    """The connections of one agent: `sessions` from orchestrators to it, `registry` from it to the registry."""

    sessions: Link
    registry: Link

    @property
    def both(self) -> tuple[Link, Link]:
        """All its links."""
        return self.sessions, self.registry


class MeshLinks:
    """The links of one mesh: from its services to `registry` and `memory`, and from its client to `orchestrator`."""

    def __init__(self) -> None:
        self.registry = Link()
        self.memory = Link()
        self.orchestrator = Link()
        self.agents: list[AgentLinks] = []
        self._starting: list[asyncio.Task[None]] = []

    async def before(self, service: LocalService, link: Link) -> str:
        """Puts a link before a service that is running. Returns the link's address."""
        link.server_port = int(service.address.rpartition(":")[2])
        await link.start()
        return link.address

    def agent_settings(self, registry: LocalService, settings: dict[str, Any]) -> AgentSettings:
        """Returns settings of an agent with links of its own."""
        port = settings.pop("port", 0) or free_ports(HOST, 1)[0]
        links = AgentLinks(Link(port), Link(int(registry.address.rpartition(":")[2])))
        self.agents.append(links)
        for link in links.both:
            link.listen()
            self._starting.append(asyncio.create_task(link.start(), name="link of an agent"))
        return AgentSettings(
            host=HOST, port=port, advertise=links.sessions.address, registry=links.registry.address, **settings
        )

    def of_port(self, port: int) -> AgentLinks | None:
        """Returns the links of the agent that listens, or is registered, on a port; None if it has none."""
        return next((each for each in self.agents if port in (each.sessions.port, each.sessions.server_port)), None)

    def to_registry(self) -> Iterator[Link]:
        """Yields all links to the registry."""
        yield self.registry
        yield from (each.registry for each in self.agents)

    async def close(self) -> None:
        """Closes all links. Idempotent."""
        await asyncio.gather(*self._starting, return_exceptions=True)
        agents = [link for each in self.agents for link in each.both]
        for link in (self.registry, self.memory, self.orchestrator, *agents):
            await link.close()
