"""The processes of the demo's agents: started, killed, and stopped at the end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from archon.errors import DeadlineExceeded
from archon.registry import RegistryClient

READY_WITHIN: Final = 30.0
"""Seconds until the agents are registered."""

STOP_WITHIN: Final = 5.0

_PAUSE: Final = 0.05


class AgentProcesses:
    """Processes that serve roles of the demo, by the name of their first role."""

    def __init__(self, registry: str, log: Path, environment: Mapping[str, str]) -> None:
        self._registry = registry
        self._log = log
        self._environment = {**os.environ, **environment, "ARCHON_REGISTRY": registry, "ARCHON_DRAIN": "1"}
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, *roles: str) -> int:
        """Starts a process that serves the roles. Returns its pid."""
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "archon_services.demo.agents", *roles),
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which stops them
            )
        self._running[roles[0]] = process
        return process.pid

    async def kill(self, role: str) -> int:
        """Kills a process with SIGKILL. Returns its pid."""
        process = self._running.pop(role)
        process.kill()
        await process.wait()
        return process.pid

    async def registered(self, *roles: str) -> None:
        """Waits until an instance of each role is registered. Raises DeadlineExceeded after READY_WITHIN seconds."""
        try:
            async with asyncio.timeout(READY_WITHIN), RegistryClient(self._registry) as client:
                while True:
                    if set(roles) <= {instance.role for instance in await client.list_instances()}:
                        return
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            message = f"the agents of the demo were not ready within {READY_WITHIN:g} s; their log is {self._log}"
            raise DeadlineExceeded(message) from None

    async def stop(self) -> None:
        """Stops all processes; kills those that do not end in time."""
        for process in self._running.values():
            if process.returncode is None:
                process.terminate()
        waits = [asyncio.create_task(process.wait()) for process in self._running.values()]
        if waits:
            await asyncio.wait(waits, timeout=STOP_WITHIN)
        for process in self._running.values():
            if process.returncode is None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def agent_processes(registry: str, log: Path, environment: Mapping[str, str]) -> AsyncIterator[AgentProcesses]:
    """Yields processes of agents, none started yet, and stops them at the end."""
    processes = AgentProcesses(registry, log, environment)
    try:
        yield processes
    finally:
        await processes.stop()
