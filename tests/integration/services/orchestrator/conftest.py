"""A mesh of real processes over a real etcd; agents are processes too, or scripted ones in the test's own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from archon.client import Client
from archon.registry import RegistryClient
from archon_services.testing import EtcdProcess
from tests.fixtures.services import ServiceProcess, eventually
from tests.integration.services.orchestrator.troupe import Troupe


class Mesh:
    """Services by attribute; `agent` adds one."""

    orchestrator_module = "archon_services.orchestrator"

    def __init__(self, home: Path, etcd: str) -> None:
        self.home = home
        self.registry = ServiceProcess("archon_services.registry", home, ARCHON_ETCD=etcd, ARCHON_PREFIX=_prefix())
        self.memory: ServiceProcess
        self.orchestrator: ServiceProcess
        self.client: Client
        self.directory: RegistryClient
        self.agents: list[ServiceProcess] = []

    async def start(self, **environment: str) -> None:
        """Registry, memory, orchestrator."""
        registry = await self.registry.start()
        self.memory = ServiceProcess("archon_services.memory", self.home, ARCHON_REGISTRY=registry)
        memory = await self.memory.start()
        self.orchestrator = ServiceProcess(
            self.orchestrator_module,
            self.home,
            ARCHON_REGISTRY=registry,
            ARCHON_MEMORY=memory,
            **environment,
        )
        self.client = Client(await self.orchestrator.start())
        self.directory = RegistryClient(registry)

    async def agent(
        self,
        role: str,
        *depends_on: str,
        delay: float = 0.0,
        module: str = "tests.fixtures.echo_agent",
        **environment: str,
    ) -> ServiceProcess:
        """A process that echoes, or does as its module says; registered when this returns."""
        process = ServiceProcess(
            module,
            self.home,
            ECHO_ROLE=role,
            ECHO_DELAY=str(delay),
            ECHO_LEDGER=str(self.ledger),
            ARCHON_REGISTRY=self.registry.address,
            ARCHON_DEPENDS_ON=",".join(depends_on),
            ARCHON_TTL="2",
            **environment,
        )
        await process.start()
        self.agents.append(process)
        await self.seen(environment.get("ARCHON_ADVERTISE", process.address))
        return process

    @property
    def ledger(self) -> Path:
        """What the agents executed."""
        return self.home / "ledger.txt"

    def executions(self, verb: str = "end") -> list[tuple[str, int]]:
        """(role, attempt) of what began or ended, in order."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [(words[1], int(words[3])) for words in map(str.split, lines) if words[0] == verb]

    async def seen(self, address: str, *, gone: bool = False, within: float = 10.0) -> None:
        """Returns when the registry names an address, or no longer does."""

        async def look() -> bool:
            return gone != any(one.address == address for one in await self.directory.list_instances())

        await eventually(look, within)

    async def stop(self) -> None:
        """Ends everything, also where one of them doesn't end as it should."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.client.close)
            stack.push_async_callback(self.directory.close)
            for process in [self.registry, self.memory, self.orchestrator, *self.agents]:
                stack.push_async_callback(process.stop)


def _prefix() -> str:
    return f"/test/{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdProcess]:
    """One etcd; each mesh has a prefix of its own."""
    with EtcdProcess() as process:
        yield process


@pytest.fixture(scope="module")
async def mesh(etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mesh]:
    """Shared by a module: requirements -> designer -> implementer, requirements -> implementer."""
    mesh = Mesh(tmp_path_factory.mktemp("mesh"), etcd.address)
    async with AsyncExitStack() as stack:
        await mesh.start()
        stack.push_async_callback(mesh.stop)
        await mesh.agent("requirements")
        await mesh.agent("designer", "requirements")
        await mesh.agent("implementer", "requirements", "designer")
        yield mesh


@pytest.fixture
async def troupe(mesh: Mesh) -> AsyncIterator[Troupe]:
    """Agents in this process that join the shared mesh for one test."""
    async with AsyncExitStack() as stack:
        yield Troupe(mesh, stack)


@pytest.fixture
async def own_mesh(etcd: EtcdProcess, tmp_path: Path) -> AsyncIterator[Mesh]:
    """For a test that kills: no agents yet."""
    mesh = Mesh(tmp_path, etcd.address)
    await mesh.start()
    yield mesh
    await mesh.stop()
