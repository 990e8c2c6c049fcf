"""Agents of the benchmark of scale. `python -m tests.bench.scale_agents KIND ...` serves until SIGTERM and writes its
address to the file BENCH_READY once all its agents are registered.

    idle N    N instances of roles that no run names, each with a server, a lease and a session of its own
    dead N    N registrations whose instances do not answer, half of them of the roles of the pipeline
    hold N    a role whose handler never answers, with room for N tasks
    planner   plans as many steps as the text of its task says, 10 of which may be at work together
    lead      delegates to the role `worker` as often as the text of its task says, at most 64 at once
    worker    answers 1 KB at once
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from socket import socket

import uvloop

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.api.registry.v1.registry_pb2 import Registration
from archon.server import signalled
from tests.bench.drive import ANSWER, ROLES, announce
from tests.fixtures.many_registrations import register_all

AT_ONCE = 64
"""Delegations of one task that are under way together; as many as there are runs in the comparison."""

WIDTH = 10
"""Steps of a plan that may be at work together."""

TASKS_PER_HOLDER = 500
IDLE_ROLES = 10


async def answer(task: TaskContext) -> str:
    """Answers 1 KB."""
    return ANSWER


async def hold(task: TaskContext) -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ANSWER


async def lead(task: TaskContext) -> str:
    """Delegates as often as the text says."""
    left = iter(range(int(task.text)))

    async def delegate() -> None:
        for number in left:
            await task.delegate(f"{number}", role="worker")

    await asyncio.gather(*(delegate() for _ in range(AT_ONCE)))
    return ANSWER


async def plan(task: TaskContext) -> str:
    """Plans chains of steps for the worker, as many as WIDTH, or combines their results."""
    request = task.plan_request
    assert request is not None
    if request.synthesise:
        return ANSWER
    steps = [
        {
            "id": f"s{number}",
            "description": f"Do part {number}.",
            "role": "worker",
            "dependencies": [f"s{number - WIDTH}"] if number >= WIDTH else [],
        }
        for number in range(int(task.text))
    ]
    return json.dumps({"goal": task.text, "subtasks": steps})


def agents(kind: str, number: int) -> list[AgentServer]:
    """Returns the agents of a kind of process. Raises ValueError if there is no such kind."""
    settings = AgentSettings(registry=os.environ["ARCHON_REGISTRY"])
    match kind:
        case "idle":
            roles = [f"idle-{index % IDLE_ROLES}" for index in range(number)]
            return [AgentServer(role, handler=answer, settings=settings) for role in roles]
        case "hold":
            rooms = [min(TASKS_PER_HOLDER, number - start) for start in range(0, number, TASKS_PER_HOLDER)]
            return [AgentServer("hold", max_tasks=room, handler=hold, settings=settings) for room in rooms]
        case "planner":
            return [AgentServer("planner", max_tasks=256, handler=plan, settings=settings)]
        case "lead":
            return [AgentServer("lead", coordinator=True, max_tasks=256, handler=lead, settings=settings)]
        case "worker":
            return [AgentServer("worker", max_tasks=256, handler=answer, settings=settings)]
    raise ValueError(f"unknown kind of agent {kind!r}")


async def register_dead(number: int) -> None:
    """Registers instances at two addresses, of which one refuses connections and the other never answers, and stays
    until SIGTERM."""
    stop = signalled()
    with socket() as refusing, socket() as mute:
        refusing.bind(("127.0.0.1", 0))
        mute.bind(("127.0.0.1", 0))
        mute.listen(4096)
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (refusing, mute)]
        roles = [*ROLES, *(f"dead-{index}" for index in range(len(ROLES)))]
        await register_all(
            os.environ["ARCHON_REGISTRY"],
            (
                Registration(
                    instance_id=f"dead-{index}", role=roles[index % len(roles)], address=addresses[index // 7 % 2]
                )
                for index in range(number)
            ),
        )
        announce("dead")
        await stop.wait()


async def serve(servers: list[AgentServer]) -> None:
    """Serves until SIGTERM."""
    stop = signalled()
    addresses = [await server.start() for server in servers]
    announce(addresses[0])
    await stop.wait()
    await asyncio.gather(*(server.stop(0.0) for server in servers))


def main() -> None:
    """Serves what the arguments name."""
    kind, *number = sys.argv[1:]
    if kind == "dead":
        uvloop.run(register_dead(int(number[0])))
    else:
        uvloop.run(serve(agents(kind, int(number[0]) if number else 1)))


if __name__ == "__main__":
    main()
