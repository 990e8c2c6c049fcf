"""The mesh on this machine: starts its processes, knows when it is ready, keeps it so, and ends it in order."""

from __future__ import annotations

import asyncio
import os
import shutil
from itertools import groupby
from types import TracebackType
from typing import Final

from archon.errors import ArchonError
from archon_services.local_mesh.child import Child
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.plan import Plan
from archon_services.local_mesh.ready import etcd_answers, orchestrator_answers, registered_addresses
from archon_services.local_mesh.state import MeshState, Phase, write_state

START_TIMEOUT: Final = 60.0
GRACE: Final = 5.0
"""Seconds for a process to end after SIGTERM, before SIGKILL."""

_LOOK: Final = 0.03


class Supervisor:
    """Runs the processes of a plan. Hold the home's lock around it (`Home.hold`) and use it as a context manager, from
    the main thread: the system ends the processes when the thread that started them ends.

    New logs are begun at once.
    """

    def __init__(self, home: Home, plan: Plan) -> None:
        self.home = home
        self.plan = plan
        self._phase: Phase = "starting"
        self._error = ""
        self._news = asyncio.Event()
        self._children = {spec.name: Child(spec, home, self._news.set, restarts=plan.restarts) for spec in plan.specs}
        self._writer: asyncio.Task[None] | None = None
        self._stopped: asyncio.Task[None] | None = None
        for name in self._children:
            _rotate(home, name)

    async def __aenter__(self) -> Supervisor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def state(self) -> MeshState:
        """As it stands."""
        return MeshState(
            phase=self._phase,
            pid=os.getpid(),
            home=str(self.home.root),
            processes=tuple(child.state for child in self._children.values()),
            notes=self.plan.notes,
            error=self._error,
            etcd=self.plan.etcd,
            registry=self.plan.registry,
        )

    def child(self, name: str) -> Child | None:
        """One process by its name."""
        return self._children.get(name)

    async def start(self, timeout: float = START_TIMEOUT) -> None:
        """Starts all processes at once and returns when runs can be submitted: all healthy, all agents registered.
        Raises StartFailed where one can't start, or it takes longer than `timeout` seconds."""
        try:
            write_state(self.home, self.state())
            self._writer = asyncio.create_task(self._write(), name="state.json")
            if self.plan.etcd and "etcd" not in self._children and self.plan.etcd != "memory":
                await etcd_answers(self.plan.etcd)
            for child in self._children.values():
                await child.start()
            async with asyncio.timeout(timeout):
                await self._healthy()
                await self._registered()
                if "orchestrator" in self._children:
                    await orchestrator_answers(self._children["orchestrator"].state.address)
        except TimeoutError:
            raise self._failed(f"the mesh isn't ready after {timeout:g} s: {self._unready()}") from None
        except ArchonError as error:
            raise self._failed(str(error)) from error
        self._enter("ready")

    async def stop(self, grace: float = GRACE) -> None:
        """Ends all processes: agents, then orchestrator, memory, registry, etcd. Idempotent."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(grace), name="stop")
        await asyncio.shield(self._stopped)

    def kill(self) -> None:
        """Ends all processes at once, by SIGKILL; `stop` then has nothing to wait for."""
        for child in self._children.values():
            child.kill()

    async def _stop(self, grace: float) -> None:
        if self._phase != "failed":
            self._enter("stopping")
        children = sorted(self._children.values(), key=lambda child: child.spec.rank)
        for _, group in groupby(children, key=lambda child: child.spec.rank):
            await asyncio.gather(*(child.stop(grace) for child in group))
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        if self._phase == "failed":
            write_state(self.home, self.state())  # whoever waits for the mesh reads why
        else:
            self.home.state_file.unlink(missing_ok=True)

    async def _healthy(self) -> None:
        while True:
            states = [child.state for child in self._children.values()]
            for state in states:
                if state.condition == "failed":
                    child = self._children[state.name]
                    raise StartFailed(
                        f"{state.name} {state.detail}; the end of {self.home.log_file(state.name)}:\n{child.log_end()}"
                    )
            if all(state.condition == "healthy" for state in states):
                return
            self._news.clear()
            await self._news.wait()

    async def _registered(self) -> None:
        agents = {name for name, child in self._children.items() if child.spec.kind == "agent"}
        while agents:
            known = await registered_addresses(self.plan.registry)
            if all(self._children[name].state.address in known for name in agents):
                return
            await asyncio.sleep(_LOOK)
            await self._healthy()

    def _unready(self) -> str:
        unready = [child for child in self._children.values() if child.state.condition != "healthy"]
        if not unready:
            return f"not all agents are in the registry at {self.plan.registry}"
        names = ", ".join(f"{child.spec.name} ({child.state.condition})" for child in unready)
        return f"{names}; the end of {self.home.log_file(unready[0].spec.name)}:\n{unready[0].log_end()}"

    def _failed(self, message: str) -> StartFailed:
        self._error = message
        self._enter("failed")
        return StartFailed(message)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        write_state(self.home, self.state())
        self._news.set()

    async def _write(self) -> None:
        """Keeps state.json up to date; changes that come at once are written once."""
        written = self.state()
        while True:
            await asyncio.sleep(_LOOK)
            if (state := self.state()) != written:
                write_state(self.home, state)
                written = state


def _rotate(home: Home, name: str) -> None:
    """Each mesh begins new logs; those of the one before stay beside them."""
    log = home.log_file(name)
    if log.exists():
        shutil.move(log, log.with_suffix(".old.log"))
