"""`archon demo`: a run that survives the kill of its agent and of its orchestrator."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.commands.up import start_detached
from archon_services.cli.contexts import find_home
from archon_services.cli.options import OrchestratorOption
from archon_services.cli.target.mesh import Target, connecting, find_registry, orchestrator_flag, target_or_none
from archon_services.cli.target.temporary_mesh import running_or_own_mesh
from archon_services.local_mesh import SERVICES, Home, MeshOptions, live_state

if TYPE_CHECKING:
    from archon.api.orchestrator.v1 import run_pb2
    from archon.client import Client
    from archon.types import Run
    from archon_services.demo.processes import AgentProcesses

GOAL: Final = "Orders fail since this afternoon. What do the failed ones have in common?"
TIMEOUT: Final = 60.0
"""Seconds that the run may take."""

BACK_WITHIN: Final = 30.0
"""Seconds until an orchestrator that was killed answers again."""

KILLED_AFTER: Final = 4
"""Causes that the analyst has examined and saved before it is killed."""

_PAUSE: Final = 0.05


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the mesh running afterwards.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run three agents over a log, kill one of them and then the orchestrator, and get the answer all the same.

    The agents need no model and no network: they find by counting why orders of a shop have failed. Uses the mesh in
    ARCHON_HOME, whose orchestrator it kills; if none is running, starts a temporary one.
    """
    home = find_home()
    if keep and target_or_none(orchestrator, home) is None:
        start_detached(home, MeshOptions())
    stays = target_or_none(orchestrator, home) is not None
    asyncio.run(_demo(home, orchestrator, stays=stays))


async def _demo(home: Home, orchestrator: str, *, stays: bool) -> None:
    began = time.monotonic()
    async with running_or_own_mesh(orchestrator, options=MeshOptions(only=SERVICES)) as (target, signals):
        registry = find_registry("")
        run = await signals.guard(_play(home, target, registry, began))
    flag = orchestrator_flag(orchestrator)
    first = "" if stays else "archon up --detach; "
    print(f"\nWhere its time went:  {first}archon trace {run.run_id[:12]}{flag}")
    print("An agent of your own: docs/tutorial.md, ten minutes")


async def _play(home: Home, target: Target, registry: str, began: float) -> Run:
    from archon.client import Client, answer_text
    from archon_services.demo.processes import agent_processes

    log = home.root / "demo-agents.log"
    async with AsyncExitStack() as stack:
        agents = await stack.enter_async_context(agent_processes(registry, log, _membership(home, registry)))
        await agents.start("reader", "reporter")
        await agents.start("analyst")
        await agents.registered("reader", "analyst", "reporter")
        print(f"The services and three agents are ready after {time.monotonic() - began:.1f} s.\n", flush=True)
        stack.enter_context(connecting("orchestrator", target.orchestrator))
        client = await stack.enter_async_context(Client(target.orchestrator))
        run = await _run(client, agents)
        answer = answer_text(run)
        print(f"\n{answer}\n", flush=True)
        if (killed := await _kill_orchestrator(home, target, client, run)) is not None:
            again, line = killed
            same = "the same answer" if answer_text(again) == answer else "another answer"
            attempts = ", ".join(f"{task.role} {task.attempt}" for task in again.tasks)
            print(f"{line}\nIts journal has {same}; attempts: {attempts}.")
        return run


def _membership(home: Home, registry: str) -> dict[str, str]:
    """Returns the variable that makes agents members of the mesh of this machine, if the registry is its own."""
    from archon.mesh_id import VARIABLE

    state, mesh_id = live_state(home), home.mesh_id()
    return {VARIABLE: mesh_id} if state is not None and state.registry == registry and mesh_id else {}


async def _run(client: Client, agents: AgentProcesses) -> Run:
    """Submits the run and follows it; kills the analyst in the middle of its work. Raises the failure of the run."""
    from archon.status import from_failure
    from archon.types import Part, TaskState

    log = files("archon_services.demo").joinpath("checkout.log").read_text(encoding="utf-8")
    parts = [Part(text=GOAL), Part(text=log, filename="checkout.log")]
    roles = ("reader", "analyst", "reporter")
    print(f"Goal: {GOAL}\n      checkout.log, {log.count(chr(10))} lines")
    handle = await client.submit(parts, roles=roles, timeout=TIMEOUT)
    story = _Story(agents)
    async for event in handle.events():
        await story.tell(event.proto)
    run = await client.get(handle.run_id)
    if run.state is not TaskState.COMPLETED:
        raise from_failure(run.proto.failure)
    return run


class _Story:
    """Prints the progress of the run, and kills the analyst once it has saved a part of its work."""

    def __init__(self, agents: AgentProcesses) -> None:
        from archon_services.demo.incident import CANDIDATES

        self._agents = agents
        self._began = time.monotonic()
        self._saved = 0
        self._task_roles: dict[str, str] = {}
        self._does = {
            "reader": "reads the log",
            "analyst": f"examines {len(CANDIDATES)} possible causes, one after the other",
            "reporter": "writes the report",
        }

    async def tell(self, event: run_pb2.RunEvent) -> None:
        """Prints a line about the event, if it is worth one."""
        if event.HasField("dispatched"):
            role = event.dispatched.role
            self._task_roles[event.task.task_id] = role
            again = f"goes on in another process: {self._saved} causes are examined already"
            self._print(role, self._does[role] if event.task.attempt == 1 else again)
        elif event.HasField("checkpoint"):
            self._saved += 1
            if self._saved == KILLED_AFTER and event.task.attempt == 1:
                pid = await self._agents.kill("analyst")
                self._print("analyst", f"kill -9 {pid}: its process is dead")
                await self._agents.start("analyst")
        elif event.HasField("result"):
            self._print(self._task_roles.get(event.task.task_id, ""), "has answered")

    def _print(self, role: str, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.2f} s  {role:<8}  {text}", flush=True)


async def _kill_orchestrator(home: Home, target: Target, client: Client, run: Run) -> tuple[Run, str] | None:
    """Kills the orchestrator of the mesh on this machine. Returns the run as the next process has it, and a report;
    None if the orchestrator is not one of this machine's mesh."""
    from archon.errors import ArchonError

    state = live_state(home)
    if state is None or state.address("orchestrator") != target.orchestrator:
        return None
    pid = state.process("orchestrator").pid
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    while True:
        try:
            again = await client.get(run.run_id)
            break
        except ArchonError:
            if time.monotonic() - began > BACK_WITHIN:
                raise
            await asyncio.sleep(_PAUSE)
    return again, f"kill -9 {pid}: the orchestrator is dead, and back after {time.monotonic() - began:.1f} s."
