"""Targets of faults: a process, and the valves before its listener."""

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

RESTARTED_AFTER: Final = 0.2
"""Seconds until a process that exited while it started is started again."""


class Target(ABC):
    """A process that faults can hit. Reports count it under `kind`; `down` is true while a fault has ended it."""

    def __init__(self, kind: str, name: str, valves: Sequence[Valve]) -> None:
        self.kind = kind
        self.name = name
        self.valves = valves
        self.down = False

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """Ends the process gracefully, as an operator does."""

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
        """Whether the process ended although no fault had ended it."""
        return not self.down and not self.running


class ServiceTarget(Target):
    """A process of Archon. If it exits while it starts, because the database is down, it is started again, as by a
    supervisor."""

    def __init__(self, kind: str, name: str, process: ServiceProcess, *valves: Valve) -> None:
        super().__init__(kind, name, valves)
        self.process = process

    async def start(self) -> None:
        async with asyncio.timeout(BACK_WITHIN):
            while True:
                try:
                    address = await self.process.start()
                    break
                except AssertionError:  # it exited: a service that it needs is down
                    await asyncio.sleep(RESTARTED_AFTER)
                except BaseException:
                    await self.process.kill()
                    raise
        self._listens(address)

    def _listens(self, address: str) -> None:
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


class AttachedTarget(ServiceTarget):
    """An agent that is attached: its valves stand before the orchestrators, and it listens nowhere."""

    def _listens(self, address: str) -> None:
        pass


class PostgresTarget(Target):
    """The database, with a valve for each orchestrator."""

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
    def __init__(self, member: EtcdMember, valve: Valve) -> None:
        super().__init__("etcd member", f"etcd {member.name}", [valve])
        self.member = member

    async def start(self) -> None:
        """Starts the member without waiting: while other members are down it cannot answer."""
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
    """Kills the process in whatever state it is, frozen or stopped too."""
    try:
        target.thaw()
        await target.kill()
    except (OSError, subprocess.SubprocessError):
        pass
