"""A long outage of one service of a small mesh, with runs that begin before, during and after it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.client import RunHandle
from archon.memory import MemoryGraphClient
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import hold

ROLES = {"requirements": [], "designer": ["requirements"], "implementer": ["requirements", "designer"]}
SESSION = "session"
TTL = 3.0
"""Seconds of the lease of an agent."""


class Crew:
    """Agents of the SDK in the test's process, which the outage does not hit. A goal with a gate waits in its first
    role until the gate is opened."""

    def __init__(self, registry: str) -> None:
        self.agents: dict[str, AgentServer] = {}
        self.begun: list[tuple[str, str, int]] = []
        self._registry = registry
        self._gates: dict[str, asyncio.Event] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Crew:
        for role, depends_on in ROLES.items():
            await self.join(role, depends_on)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for gate in self._gates.values():
            gate.set()
        await self._stack.aclose()

    async def join(self, role: str, depends_on: list[str]) -> AgentServer:
        """Starts an agent. Returns when it is registered, or after ten seconds of failed attempts."""
        settings = AgentSettings(registry=self._registry, ttl=TTL)
        agent = AgentServer(role, depends_on=depends_on, handler=self._work, settings=settings)
        self.agents[role] = await self._stack.enter_async_context(agent)
        return agent

    @property
    def renewed(self) -> list[float]:
        """The time of each agent's last answered renewal, on the monotonic clock."""
        return [agent._handle.renewed if agent._handle else 0.0 for agent in self.agents.values()]

    def hold(self, goal: str) -> asyncio.Event:
        """Returns the gate of a goal, which it creates the first time."""
        return self._gates.setdefault(goal, asyncio.Event())

    async def _work(self, task: TaskContext) -> str:
        self.begun.append((task.role, task.text, task.attempt))
        if gate := self._gates.get(task.text):
            await gate.wait()
        return f"{task.role} on {task.text}"


class Outage:
    """A service of a mesh that is killed or frozen, and comes back at the same address."""

    def __init__(self, mesh: ProcessMesh, etcd: EtcdProcess, service: str, how: str) -> None:
        self._mesh = mesh
        self._etcd = etcd
        self._service = service
        self._how = how

    async def begin(self) -> None:
        """Kills or freezes the service."""
        match self._service, self._how:
            case "etcd", "killed":
                await asyncio.to_thread(self._etcd.kill)
            case "etcd", _:
                self._etcd.freeze()
            case _, "killed":
                await self._process.kill()
            case _:
                self._process.send(signal.SIGSTOP)

    async def end(self) -> None:
        """Restarts or thaws the service."""
        match self._service, self._how:
            case "etcd", "killed":
                await asyncio.to_thread(self._etcd.start)
            case "etcd", _:
                self._etcd.thaw()
            case _, "killed":
                await self._process.start()
            case _:
                self._process.send(signal.SIGCONT)

    @property
    def _process(self) -> ServiceProcess:
        return self._mesh.memory if self._service == "memory" else self._mesh.registry

    def calls(self, memory: MemoryGraphClient) -> list[tuple[float, Callable[[], Awaitable[object]]]]:
        """Returns calls that need the service, each with its time limit in seconds."""
        if self._service == "memory":
            return [
                (2.0, lambda: memory.pull_for("designer", timeout=2.0)),
                (2.0, lambda: memory.publish("stranger", "x", timeout=2.0)),
            ]
        directory = self._mesh.directory
        return [
            (6.0, lambda: directory.list_instances()),
            (6.0, lambda: directory.pin_edges([("a", "b")])),
            (2.0, lambda: directory.resolve("designer", timeout=2.0)),
        ]


class Pulse:
    """Submits runs of all roles one after another in one session. `stop` raises if a run does not complete."""

    def __init__(self, mesh: ProcessMesh) -> None:
        self.completed = 0
        self.goal = ""
        self._mesh = mesh
        self._stopping = False
        self._task = asyncio.create_task(self._beat(), name="pulse")

    async def _beat(self) -> None:
        while not self._stopping:
            self.goal = f"number {self.completed + 1}"
            handle = await self._mesh.client.submit(self.goal, roles=list(ROLES), session_id=SESSION, wait=30)
            check_completed(handle, self.goal)
            self.completed += 1
            await hold(0.15)

    def check(self) -> None:
        """Raises the error of a failed run, if there is one."""
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Stops after the current run. Raises the error of a failed run."""
        self._stopping = True
        await self._task

    async def abandon(self) -> None:
        """Cancels the current run without checking it, after a test that has failed."""
        self._task.cancel()
        await asyncio.wait([self._task])


def check_completed(handle: RunHandle, goal: str) -> None:
    """Asserts that the whole pipeline completed with the first attempt of each role."""
    run = handle.run
    answers = [part.text for answer in run.answers for part in answer.parts]
    assert answers == [f"implementer on {goal}"], run
    assert [task.attempt for task in run.tasks] == [1, 1, 1]


async def started(home: Path, etcd: EtcdProcess, stack: AsyncExitStack) -> ProcessMesh:
    """Starts a mesh that the stack stops, frozen or not."""
    mesh = ProcessMesh(home, etcd.address)
    await mesh.start()
    stack.push_async_callback(mesh.stop)
    stack.callback(mesh.memory.thaw)
    stack.callback(mesh.registry.thaw)
    return mesh
