"""What a fault can hit: a process, and the valves before its listener."""

from __future__ import annotations

import asyncio
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from tests.fixtures.etcd_cluster import EtcdMember
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.services import ServiceProcess
from tests.fixtures.valve import Valve

BACK_WITHIN: Final = 60.0


class Target(ABC):
    """`kind` is what it is counted as, `down` whether a fault has taken it away."""

    def __init__(self, kind: str, name: str, valves: Sequence[Valve]) -> None:
        self.kind = kind
        self.name = name
        self.valves = valves
        self.down = False

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """As its operator would end it."""

    @abstractmethod
    async def kill(self) -> None: ...

    @abstractmethod
    def freeze(self) -> None: ...

    @abstractmethod
    def thaw(self) -> None: ...

    @property
    @abstractmethod
    def running(self) -> bool: ...

    @property
    def died(self) -> bool:
        """Whether it ended though nobody had ended it."""
        return not self.down and not self.running


class ServiceTarget(Target):
    """A process of ours. What doesn't start, since the database is away, is started again, as its supervisor would."""

    def __init__(self, kind: str, name: str, process: ServiceProcess, valve: Valve) -> None:
        super().__init__(kind, name, [valve])
        self.process = process

    async def start(self) -> None:
        async with asyncio.timeout(BACK_WITHIN):
            while True:
                try:
                    address = await self.process.start()
                    break
                except AssertionError:  # it ended: what it needs to start isn't there
                    await asyncio.sleep(0.2)
                except BaseException:
                    await self.process.kill()
                    raise
        self.valves[0].server_port = int(address.rpartition(":")[2])

    async def stop(self) -> None:
        await self.process.stop()

    async def kill(self) -> None:
        if self.running:
            await self.process.kill()

    def freeze(self) -> None:
        self.process.freeze()

    def thaw(self) -> None:
        self.process.thaw()

    @property
    def running(self) -> bool:
        return self.process.running


class PostgresTarget(Target):
    """The database; each orchestrator has a valve of its own before it."""

    def __init__(self, server: PostgresServer, valves: Sequence[Valve]) -> None:
        super().__init__("PostgreSQL", "PostgreSQL", valves)
        self.server = server

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self.server.stop)

    async def kill(self) -> None:
        await asyncio.to_thread(self.server.kill)

    def freeze(self) -> None:
        self.server.freeze()

    def thaw(self) -> None:
        self.server.thaw()

    @property
    def running(self) -> bool:
        return self.server.running


class EtcdTarget(Target):
    """A member of etcd."""

    def __init__(self, member: EtcdMember, valve: Valve) -> None:
        super().__init__("etcd member", f"etcd {member.name}", [valve])
        self.member = member

    async def start(self) -> None:
        """Waits for nothing: where others are down too it answers only with them."""
        self.member.launch()

    async def stop(self) -> None:
        await asyncio.to_thread(self.member.stop)

    async def kill(self) -> None:
        await asyncio.to_thread(self.member.kill)

    def freeze(self) -> None:
        self.member.freeze()

    def thaw(self) -> None:
        self.member.thaw()

    @property
    def running(self) -> bool:
        return self.member.running


async def end(target: Target) -> None:
    """However it stands."""
    try:
        target.thaw()
        await target.kill()
    except (OSError, subprocess.SubprocessError):
        pass
