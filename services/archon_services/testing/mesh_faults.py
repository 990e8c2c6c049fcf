"""The faults of a mesh by name, and how each of them works."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from archon.agent import AgentServer
from archon.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument
from archon.registry import RegistryClient
from archon.testing import FakeAgent
from archon_mesh.testing.injected_fault import NamedFault
from archon_services.testing.link import Link
from archon_services.testing.local_service import LocalService
from archon_services.testing.mesh_links import AgentLinks, MeshLinks

_EXPIRED_WITHIN: Final = 10
"""Leases that may pass until one has expired."""


class Fault(NamedFault):
    """The faults of a mesh, for `InProcessMesh.fault`."""

    ORCHESTRATOR_KILLED = (
        "orchestrator_killed",
        "the orchestrator ends as in a crash, and starts again over its journal when it is healed",
        "calls of clients raise `Unavailable`; agents work on; later the runs go on where they were",
    )
    ORCHESTRATOR_UNREACHABLE = (
        "orchestrator_unreachable",
        "bytes between the client and the orchestrator wait; connections stay open",
        "calls of the client raise `DeadlineExceeded`; runs go on",
    )
    ANSWER_LOST = (
        "answer_lost",
        "the client's connection breaks after its next request, before the answer, once",
        "the client calls again by itself; a submitted run exists once",
    )
    REGISTRY_KILLED = (
        "registry_killed",
        "the registry ends as in a crash, and starts again without registrations",
        "runs go on with the agents that are known; later all agents are registered again",
    )
    REGISTRY_UNREACHABLE = (
        "registry_unreachable",
        "bytes to and from the registry wait, of services and agents",
        "runs go on with the agents that are known; leases expire; later agents register again",
    )
    MEMORY_KILLED = (
        "memory_killed",
        "the memory service ends as in a crash, and starts again over its file",
        "runs complete; what they publish is delivered later",
    )
    MEMORY_UNREACHABLE = (
        "memory_unreachable",
        "bytes between the orchestrator and the memory service wait",
        "runs complete; what they publish is delivered later",
    )
    AGENT_LOST = (
        "agent_lost",
        "the connections of the agent break without a goodbye, and new ones are refused; its handler works on",
        "its lease expires, and its tasks are lost; each is given to another instance as a new attempt",
    )
    AGENT_SILENT = (
        "agent_silent",
        "bytes of the agent to the orchestrator wait, heartbeats too; the agent hears, and keeps its lease",
        "its session ends as silent; its tasks are lost if it stays silent, else they go on",
    )
    PARTITION = (
        "partition",
        "bytes between the orchestrator and the agent wait in both directions; the agent keeps its lease",
        "as `agent_silent`, and the agent hears nothing either",
    )
    SLOW_LINK = (
        "slow_link",
        "each piece of bytes between the orchestrator and the agent takes `seconds`",
        "tasks and results come later; a task is lost if heartbeats are later than the silence limit",
    )
    SESSION_CUT = (
        "session_cut",
        "the connection between the orchestrator and the agent breaks, once; it can be made again at once",
        "frames under way are lost and sent again, so that they may come twice; no task is lost",
    )
    LEASE_EXPIRED = (
        "lease_expired",
        "bytes between the agent and the registry wait, and the clock is moved until the lease has expired",
        "the registry no longer lists the agent; its tasks go on while its session lives; later it is listed again",
    )


WITHOUT_LINKS: Final = frozenset({Fault.ORCHESTRATOR_KILLED, Fault.REGISTRY_KILLED, Fault.MEMORY_KILLED})
"""The faults that a mesh without links has."""

OF_AGENTS: Final = frozenset(
    {Fault.AGENT_LOST, Fault.AGENT_SILENT, Fault.PARTITION, Fault.SLOW_LINK, Fault.SESSION_CUT, Fault.LEASE_EXPIRED}
)
"""The faults that hit an agent."""

Target = AgentServer | FakeAgent | str
"""An agent: its server, or a role or instance id, which means all its instances."""


class Parts(Protocol):
    """The parts of a mesh that faults hit."""

    registry: LocalService
    memory: LocalService
    orchestrator: LocalService
    directory: RegistryClient
    links: MeshLinks | None

    @property
    def stopping(self) -> bool:
        """Whether the mesh stops: a service that was killed is not started again."""

    async def advance(self, seconds: float) -> None: ...


def check(fault: Fault, agent: Target | None, seconds: float, *, has_links: bool) -> None:
    """Raises InvalidArgument if an agent is missing, or is given to a fault of no agent, or `seconds` is not above 0;
    FailedPrecondition if the fault needs links, and the mesh has none."""
    if fault in OF_AGENTS and not agent:
        raise InvalidArgument(f"the fault {fault} hits an agent: name its role, or pass its AgentServer, as `agent`")
    if fault not in OF_AGENTS and agent is not None:
        raise InvalidArgument(f"the fault {fault} hits no agent")
    if not 0 < seconds < math.inf:
        raise InvalidArgument(f"seconds must be above 0, not {seconds!r}")
    if fault not in WITHOUT_LINKS and not has_links:
        raise FailedPrecondition(f"the fault {fault} needs a mesh with links: InProcessMesh(home, links=True)")


def apply(fault: Fault, mesh: Parts, agent: Target | None, seconds: float) -> AbstractAsyncContextManager[None]:
    """Returns the context manager during whose block a fault is active."""
    match fault:
        case Fault.ORCHESTRATOR_KILLED:
            return _killed(mesh, mesh.orchestrator)
        case Fault.REGISTRY_KILLED:
            return _killed(mesh, mesh.registry)
        case Fault.MEMORY_KILLED:
            return _killed(mesh, mesh.memory)
    links = mesh.links
    assert links is not None, "checked"
    match fault:
        case Fault.ORCHESTRATOR_UNREACHABLE:
            return _shut([links.orchestrator])
        case Fault.REGISTRY_UNREACHABLE:
            return _shut(list(links.to_registry()))
        case Fault.MEMORY_UNREACHABLE:
            return _shut([links.memory])
        case Fault.ANSWER_LOST:
            return _answer_lost(links.orchestrator)
    assert agent is not None, "checked"
    return _of_agents(fault, mesh, links, agent, seconds)


@asynccontextmanager
async def _of_agents(fault: Fault, mesh: Parts, links: MeshLinks, agent: Target, seconds: float) -> AsyncIterator[None]:
    agents = await _links_of(mesh, links, agent)
    sessions = [each.sessions for each in agents]
    match fault:
        case Fault.AGENT_LOST:
            block = _refused([link for each in agents for link in each.both])
        case Fault.AGENT_SILENT:
            block = _shut(sessions, "down")
        case Fault.PARTITION:
            block = _shut(sessions)
        case Fault.SLOW_LINK:
            block = _slow(sessions, seconds)
        case Fault.SESSION_CUT:
            block = _cut(sessions)
        case _:
            block = _expired(mesh, agents)
    async with block:
        yield


@asynccontextmanager
async def _killed(mesh: Parts, service: LocalService) -> AsyncIterator[None]:
    if not service.running:
        raise FailedPrecondition("the service is not running, so that it cannot be killed")
    await service.kill()
    try:
        yield
    finally:
        await _start_again(mesh, service)


async def _start_again(mesh: Parts, service: LocalService) -> None:
    """Starts a service unless the test has started it, or the mesh stops."""
    if not service.running and not mesh.stopping:
        await service.start()


@asynccontextmanager
async def _shut(links: Sequence[Link], *ways: str) -> AsyncIterator[None]:
    for link in links:
        link.shut(*ways)
    try:
        yield
    finally:
        for link in links:
            link.reopen(*ways)


@asynccontextmanager
async def _refused(links: Sequence[Link]) -> AsyncIterator[None]:
    for link in links:
        link.refuse = True
        link.cut()
    try:
        yield
    finally:
        for link in links:
            link.refuse = False


@asynccontextmanager
async def _slow(links: Sequence[Link], seconds: float) -> AsyncIterator[None]:
    for link in links:
        link.delay += seconds
    try:
        yield
    finally:
        for link in links:
            link.delay = max(0.0, link.delay - seconds)


@asynccontextmanager
async def _cut(links: Sequence[Link]) -> AsyncIterator[None]:
    for link in links:
        link.cut()
    yield


@asynccontextmanager
async def _answer_lost(link: Link) -> AsyncIterator[None]:
    lost = link.lose(bool, answered=True)

    async def accept_again() -> None:
        await lost.wait()
        link.refuse = False

    accepting = asyncio.create_task(accept_again(), name="link accepts again")
    try:
        yield
    finally:
        accepting.cancel()
        link.lose_no_more()


@asynccontextmanager
async def _expired(mesh: Parts, agents: Sequence[AgentLinks]) -> AsyncIterator[None]:
    async with _shut([each.registry for each in agents]):
        ports = {str(each.sessions.port) for each in agents}
        listed = [each for each in await mesh.directory.list_instances() if _port(each.address) in ports]
        longest = max((each.ttl for each in listed), default=0.0)
        for _ in range(_EXPIRED_WITHIN):
            if not [each for each in await mesh.directory.list_instances() if _port(each.address) in ports]:
                break
            await mesh.advance(longest / 2)
        else:
            raise DeadlineExceeded(f"the lease has not expired after {_EXPIRED_WITHIN / 2:g} times its {longest:g} s")
        yield


async def _links_of(mesh: Parts, links: MeshLinks, agent: Target) -> list[AgentLinks]:
    """Returns the links of an agent. Raises FailedPrecondition if it is not known, or has no links."""
    if isinstance(agent, FakeAgent):
        agent = agent.server
    if isinstance(agent, AgentServer):
        name, ports = agent.role, [agent.settings.port]
    else:
        known = await mesh.directory.list_instances()
        name, ports = agent, [int(_port(each.address)) for each in known if agent in (each.role, each.instance_id)]
    found = [each for port in ports if (each := links.of_port(port)) is not None]
    if not found:
        raise FailedPrecondition(
            f"the agent {name} has no link in this mesh: start it with the settings of `mesh.agent_settings()`"
            if ports
            else f"no instance of {name} is registered"
        )
    return found


def _port(address: str) -> str:
    return address.rpartition(":")[2]
