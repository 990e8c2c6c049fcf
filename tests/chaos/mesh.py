"""The mesh of chaos: a valve stands before every listener, so that every connection passes through a valve."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from archon.client import Client
from archon.registry import RegistryClient
from tests.chaos.targets import AttachedTarget, EtcdTarget, PostgresTarget, ServiceTarget, Target, end
from tests.fixtures.etcd_cluster import EtcdCluster
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.services import ServiceProcess
from tests.fixtures.valve import Balancer, Valve
from tests.fixtures.waiting import eventually

PIPELINE: Final = {"reader": (), "thinker": ("reader",), "writer": ("reader", "thinker")}
LEADER: Final = "leader"
"""The role that delegates to the first two roles of the pipeline."""

CLERK: Final = "clerk"
"""The role that asks a person."""

REPLICAS: Final = 2
WORK: Final = 0.25
"""Seconds that an agent works at a task."""

LEASE: Final = 3
"""TTL of an agent's registration in seconds."""

REGISTERED_WITHIN: Final = 30.0


class ChaosMesh:
    """Two orchestrators on PostgreSQL, two registries on three members of etcd, the memory service, and two agents of
    each role, of which the second one is attached. All files are below `home`; each process logs to a folder of its name."""

    def __init__(self, home: Path, programs: Mapping[str, Sequence[str]] | None = None) -> None:
        """`programs` are the commands of the agents of some roles, in other languages; the others are in Python."""
        self.home = home
        self._programs = programs or {}
        self.ledger = home / "ledger.txt"
        self.ledger.touch()
        self.postgres = PostgresServer()
        self.cluster = EtcdCluster()
        self.database = ""
        self.targets: list[Target] = []
        self.clients: list[Client] = []
        self._stack = AsyncExitStack()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ChaosMesh]:
        """Runs the mesh during the block. Afterwards, or if a process fails to start, ends every process by its id."""
        try:
            await self._begin()
            yield self
        finally:
            await self._end()

    @property
    def dsn(self) -> str:
        """The address of the journal's database, without a valve."""
        return self.postgres.dsn(self.database)

    def died(self) -> list[str]:
        """Returns the names of processes that ended although no fault had ended them."""
        return [target.name for target in self.targets if target.died]

    async def _begin(self) -> None:
        await asyncio.gather(asyncio.to_thread(self.postgres.start), asyncio.to_thread(self.cluster.start))
        self.database = await asyncio.to_thread(self.postgres.create_database)
        registries = [await self._registry(number, await self._etcd()) for number in range(1, 3)]
        await asyncio.gather(*(registry.start() for registry in registries))
        at = "ipv4:" + ",".join(f"127.0.0.1:{registry.valves[0].port}" for registry in registries)
        memory = await self._service("memory", "memory", "archon_services.memory", ARCHON_REGISTRY=at)
        ways = [await self._valve(self.postgres.port) for _ in range(2)]
        self.targets.append(PostgresTarget(self.postgres, ways))
        orchestrators = [
            await self._service(
                "orchestrator",
                f"orchestrator {number}",
                "archon_services.orchestrator",
                advertised=True,
                ARCHON_REGISTRY=at,
                ARCHON_MEMORY=f"127.0.0.1:{memory.valves[0].port}",
                ARCHON_JOURNAL=self.postgres.dsn(self.database, port=way.port),
            )
            for number, way in enumerate(ways, 1)
        ]
        ports = [orchestrator.valves[0].port for orchestrator in orchestrators]
        roles = (*PIPELINE, LEADER, CLERK)
        balanced = await self._stack.enter_async_context(Balancer([each.valves[0].port for each in registries]))
        agents = [await self._agent(role, at, balanced) for role in roles] + [
            await self._attached(role, ports) for role in roles
        ]
        await asyncio.gather(*(target.start() for target in (memory, *orchestrators, *agents)))
        self.clients = [Client(f"127.0.0.1:{orchestrator.valves[0].port}") for orchestrator in orchestrators]
        await self._all_registered(at)

    async def _etcd(self) -> str:
        """Returns the addresses of the members' valves, which the first call creates."""
        members = [target for target in self.targets if isinstance(target, EtcdTarget)]
        if not members:
            for member in self.cluster.members:
                valve = await self._valve(int(member.address.rpartition(":")[2]))
                members.append(EtcdTarget(member, valve))
            self.targets += members
        return ",".join(f"127.0.0.1:{member.valves[0].port}" for member in members)

    async def _registry(self, number: int, etcd: str) -> ServiceTarget:
        return await self._service("registry", f"registry {number}", "archon_services.registry", ARCHON_ETCD=etcd)

    async def _agent(self, role: str, registry: str, balanced: Valve) -> ServiceTarget:
        """An agent that is dialled. A program in another language knows one address of the registries: `balanced`."""
        at = balanced.address if role in self._programs else registry
        environment = {**self._role(role), "ARCHON_REGISTRY": at}
        return await self._service("agent", f"{role} 1", self._module(role), advertised=True, **environment)

    async def _attached(self, role: str, orchestrators: Sequence[int]) -> AttachedTarget:
        """An agent that attaches to the orchestrators at these ports, each through a valve of its own, or a program in
        another language through a proxy before all of them."""
        valves: list[Valve]
        if role in self._programs:
            valves = [await self._stack.enter_async_context(Balancer(orchestrators))]
            at = valves[0].address
        else:
            valves = [await self._valve(port) for port in orchestrators]
            at = "ipv4:" + ",".join(valve.address for valve in valves)
        home = self._home(name := f"{role} 2")
        process = ServiceProcess(self._module(role), home, **self._role(role), ARCHON_ATTACH=at)
        target = AttachedTarget("attached agent", name, process, *valves)
        self.targets.append(target)
        return target

    def _role(self, role: str) -> dict[str, str]:
        return {
            "ECHO_ROLE": role,
            "ECHO_DELAY": str(0.0 if role == LEADER else WORK),
            "ECHO_LEDGER": str(self.ledger),
            "ECHO_ASKS": "1" if role == CLERK else "",
            "ECHO_PROGRAM": shlex.join(self._programs.get(role, ())),
            "DELEGATES": ",".join(list(PIPELINE)[:2]),
            "ARCHON_DEPENDS_ON": ",".join(PIPELINE.get(role, ())),
            "ARCHON_MAX_TASKS": "16",
            "ARCHON_TTL": str(LEASE),
        }

    def _module(self, role: str) -> str:
        """The program of an agent of a role."""
        if role in self._programs:
            return "tests.fixtures.echo_program"
        return "tests.fixtures.delegating_agent" if role == LEADER else "tests.fixtures.echo_agent"

    def _home(self, name: str) -> Path:
        home = self.home / name.replace(" ", "-")
        home.mkdir()
        return home

    async def _service(
        self, kind: str, name: str, module: str, *, advertised: bool = False, **environment: str
    ) -> ServiceTarget:
        valve = await self._valve()
        home = self._home(name)
        if advertised:
            environment["ARCHON_ADVERTISE"] = f"127.0.0.1:{valve.port}"
        target = ServiceTarget(kind, name, ServiceProcess(module, home, **environment), valve)
        self.targets.append(target)
        return target

    async def _valve(self, server_port: int = 0) -> Valve:
        valve = await self._stack.enter_async_context(Valve())
        valve.server_port = server_port
        return valve

    async def _all_registered(self, registry: str) -> None:
        async with RegistryClient(registry) as directory:

            async def look() -> bool:
                return len(await directory.list_instances()) == REPLICAS * (len(PIPELINE) + 2)

            await eventually(look, REGISTERED_WITHIN)

    async def _end(self) -> None:
        """Kills every process without a drain: a caller that interrupts chaos needs no process left behind."""
        await asyncio.gather(*(end(target) for target in self.targets))
        await asyncio.gather(*(client.close() for client in self.clients), return_exceptions=True)
        await self._stack.aclose()
        await asyncio.to_thread(self.postgres.close)
        await asyncio.to_thread(self.cluster.close)
