"""One seed: a mesh, some runs, faults for a while, then calm until everything has ended; then the validator."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import cast

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Budget, Edge, Submission, Target
from archon_services.orchestrator.ports import Delivery
from tests.simulation.faults import Dice
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.validator import Check, must, validate_run
from tests.simulation.world import World

FAULTS_LAST = 12.0
RUN_TIMEOUT = 60.0
PATIENCE = 180.0


@dataclass
class Outcome:
    """What a seed came to."""

    seed: int
    fired: Counter[str]
    states: Counter[str]
    inputs: int
    virtual_seconds: float


def run_seed(seed: int) -> Outcome:
    """Raises Violation, or whatever broke."""
    return cast(Outcome, run_virtual(_course(seed)))


async def _course(seed: int) -> Outcome:
    loop = cast(VirtualLoop, asyncio.get_running_loop())
    dice, check = Dice(seed), Check()
    world = World(dice, loop, check)
    check.journal = world.journal
    roles, edges = _graph(dice)
    for role in roles:
        for _ in range(dice.random.randint(1, 2)):
            world.add_agent(role)
    for _ in range(dice.random.randint(1, 2)):
        world.add_agent("lead", (*roles, "boss", "lead"))
        world.add_agent("boss", ("lead", *roles))
    await world.start_orchestrator()
    seen: dict[str, str] = {}
    watchers: list[asyncio.Task[None]] = []
    tasks = [
        asyncio.ensure_future(_submitter(world, number, roles, edges, seen, watchers))
        for number in range(dice.random.randint(2, 4))
    ]
    trouble = asyncio.ensure_future(_trouble(world, seen))
    await asyncio.gather(*tasks)
    await trouble
    await _settle(world)
    await asyncio.gather(*watchers)
    states: Counter[str] = Counter()
    rows = await world.journal.runs(tenant="default", limit=1000)
    must("V1", len(rows) == len(seen), f"{len(seen)} were acknowledged, {len(rows)} are there")
    inputs = 0
    for row in rows:
        run = await validate_run(world.journal, row.run_id, world.ledger)
        states[run.state.name] += 1
        inputs += len(await world.journal.inputs(row.run_id))
    parked = sum(len(agent.held) for agent in world.agents.values())
    must("V13", parked == 0, f"{parked} results are still parked")
    return Outcome(seed, dice.fired, states, inputs, loop.time())


def _graph(dice: Dice) -> tuple[tuple[str, ...], tuple[Edge, ...]]:
    roles = tuple("abcdef"[: dice.random.randint(2, 5)])
    edges = tuple(Edge(up, down) for i, up in enumerate(roles) for down in roles[i + 1 :] if dice.random.random() < 0.5)
    return roles, edges


async def _submitter(
    world: World,
    number: int,
    roles: tuple[str, ...],
    edges: tuple[Edge, ...],
    seen: dict[str, str],
    watchers: list[asyncio.Task[None]],
) -> None:
    """Submits until it is acknowledged; sometimes twice with the same id."""
    dice = world.dice
    await asyncio.sleep(dice.random.uniform(0, FAULTS_LAST / 2))
    request_id = f"q{number}"
    twice = dice.random.random() < 0.3
    delegating = dice.random.random() < 0.5
    budget = Budget(dice.random.choice([0, 500, 3000]), 0, dice.random.choice([0, 1, 2]))
    goal = run_pb2.Submitted()
    goal.goal.add(text=f"goal {number}")
    for attempt in range(1000):
        runs = world.runs
        if runs is None:
            await asyncio.sleep(0.1)
            continue
        run_id = runs.new_id()
        wanted = Submission(run_id, "default", request_id, "", "pipeline", roles, edges, RUN_TIMEOUT, goal)
        if delegating:
            targets = tuple(Target(role, "", role in ("lead", "boss")) for role in (*roles, "lead", "boss"))
            wanted = replace(wanted, strategy="agent", roles=("lead",), targets=targets, budget=budget)
        try:
            run_id, _created = await asyncio.wait_for(runs.submit(wanted, b"hash"), 5.0)
        except (ArchonError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        known = seen.setdefault(request_id, run_id)
        must("V1", known == run_id, f"request {request_id} made {known} and {run_id}")
        if attempt == 0 or not any(task.get_name() == run_id for task in watchers):
            watchers.append(asyncio.create_task(_watcher(world, run_id), name=run_id))
        if not twice:
            return
        twice = False


async def _watcher(world: World, run_id: str) -> None:
    """V12: follows, leaves, resumes; sees every durable event once and in order."""
    dice, cursor = world.dice, 0
    row = await world.journal.run(run_id)
    while row is not None and not (row.ended_at and cursor >= row.last_seq):
        runs = world.runs
        if runs is None:
            await asyncio.sleep(0.1)
            continue
        follow = runs.watchers.follow(run_id, cursor)
        try:
            leave = dice.random.randint(1, 8)
            async with asyncio.timeout(5.0):
                async for batch in follow:
                    for event in batch:
                        must("V12", event.seq == cursor + 1, f"saw {event.seq} after {cursor}")
                        cursor = event.seq
                    leave -= 1
                    if leave == 0 or world.runs is not runs:
                        break
        except (ArchonError, TimeoutError):
            pass
        finally:
            await follow.aclose()
        await asyncio.sleep(dice.delay(0.1))
        row = await world.journal.run(run_id)


async def _trouble(world: World, seen: dict[str, str]) -> None:
    dice = world.dice
    while world.loop.time() < FAULTS_LAST:
        await asyncio.sleep(dice.random.uniform(0.1, 1.2))
        names = sorted(world.agents)
        if names and dice.fault("agent killed", 0.12):
            world.crash_agent(dice.random.choice(names))
        elif names and dice.fault("agent frozen", 0.10):
            world.freeze_agent(dice.random.choice(names))
        elif world.runs is not None and dice.fault("orchestrator killed", 0.12):
            await world.crash_orchestrator(zombie=False)
        elif world.runs is not None and dice.fault("orchestrator deposed while it works", 0.08):
            await world.crash_orchestrator(zombie=True)
        elif world.runs is not None and seen and dice.fault("run cancelled", 0.10):
            run_id = dice.random.choice(sorted(seen.values()))
            world.runs.deliver(run_id, Delivery(inp.Cancel("anonymous", "by the simulation")))
    dice.calm = True


async def _settle(world: World) -> None:
    """Faults have ended: everything must come to its end."""
    end = world.loop.time() + PATIENCE
    while world.loop.time() < end:
        if world.check.violation is not None:
            raise world.check.violation
        open_runs = await world.journal.open_runs()
        if not open_runs and not any(agent.held for agent in world.agents.values()):
            return
        await asyncio.sleep(1.0)
    must("V7", False, f"still open after {PATIENCE:g} s of calm: {await world.journal.open_runs()}")
