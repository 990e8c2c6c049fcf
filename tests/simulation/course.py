"""The course of one seed: a mesh of one to three replicas, some runs, faults for a while, then calm until all runs
end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import cast

from archon_mesh.engine.events import Rejected
from archon_mesh.engine.fold.attempts import is_given_back
from archon_mesh.engine.types import Edge
from tests.simulation.clients import Clients
from tests.simulation.conversations import validate_conversations
from tests.simulation.faults import Dice
from tests.simulation.leases import lease_course
from tests.simulation.local import Player, local_course
from tests.simulation.local_people import Asking
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.messages import validate_messages
from tests.simulation.monitor import Monitor
from tests.simulation.patched import machine
from tests.simulation.people import validate_people
from tests.simulation.plans import validate_plans
from tests.simulation.trouble import Trouble
from tests.simulation.validator import must, validate_run
from tests.simulation.work import validate_work
from tests.simulation.world import World

FAULTS_LAST = 10.0
PATIENCE = 90.0


@dataclass
class Outcome:
    """The result of a seed. `inputs` is the number of stored inputs; `fired` counts faults and their consequences."""

    seed: int
    fired: Counter[str]
    states: Counter[str]
    inputs: int
    virtual_seconds: float


def run_seed(
    seed: int,
    *,
    stateful: bool = False,
    plans: bool = False,
    people: bool = False,
    alignment: bool = False,
    joins: bool = False,
    messages: bool = False,
    auctions: bool = False,
    work: bool = False,
    forks: int = 0,
    stops: int = 0,
    local: bool = False,
    leases: bool = False,
) -> Outcome:
    """Plays a seed. `stateful`: all roles are stateful, and runs share a few sessions. `forks`: how often a run is
    forked; `stops`: how often an agent is stopped on purpose. `plans`: most runs have a plan. `people`: runs have
    rules by which people are asked. `alignment`: planners are asked whether plans still lead to their goals. `joins`: steps
    have quorums, delays and decisions. `messages`: agents exchange messages. `auctions`: agents bid for steps,
    and steps have times. `work`: agents take items of work lists. `local`: there is no mesh; plans are
    executed in processes with journals of their own, and with `people` ask them and have budgets. Raises Violation, or the error of a component that failed."""
    if leases:
        return cast(Outcome, run_virtual(_leases(seed)))
    if local:
        return cast(Outcome, run_virtual(_local(seed, people=people)))
    options = {"stateful": stateful, "plans": plans, "people": people, "alignment": alignment, "joins": joins}
    options |= {"messages": messages, "auctions": auctions, "work": work}
    return cast(Outcome, run_virtual(_course(seed, forks, stops, options)))


async def _course(seed: int, forks: int, stops: int, options: dict[str, bool]) -> Outcome:
    loop, dice = cast(VirtualLoop, asyncio.get_running_loop()), Dice(seed)
    world = World(dice, loop, **options)
    async with machine(dice.random, world.network.stream, world.wall, world.check.executed, world.check.driver_failed):
        inputs, states = await _mesh(world, dice, forks, stops)
    return Outcome(seed, dice.fired, states, inputs, loop.now)


async def _local(seed: int, *, people: bool) -> Outcome:
    loop, dice = cast(VirtualLoop, asyncio.get_running_loop()), Dice(seed)
    inputs, states = await local_course(dice, FAULTS_LAST, Asking if people else Player)
    return Outcome(seed, dice.fired, states, inputs, loop.now)


async def _leases(seed: int) -> Outcome:
    loop, dice = cast(VirtualLoop, asyncio.get_running_loop()), Dice(seed)
    inputs, states = await lease_course(seed, dice.fired, FAULTS_LAST)
    return Outcome(seed, dice.fired, states, inputs, loop.now)


async def _mesh(world: World, dice: Dice, forks: int, stops: int) -> tuple[int, Counter[str]]:
    replicas = dice.random.choice([1, 2, 2, 3])
    roles, edges = _graph(dice)
    for role in roles:
        for _ in range(dice.random.randint(1, 2)):
            world.add_agent(role)
    world.add_agent("lead", (*roles, "boss", "lead"))
    world.add_agent("boss", ("lead", *roles))
    if world.plans:
        world.add_agent("planner")
        world.add_agent("planner")
    await asyncio.gather(*(world.start_replica(slot) for slot in range(replicas)))
    clients = Clients(world, roles, edges)
    submits = [clients.submit(number, FAULTS_LAST * 0.7) for number in range(dice.random.randint(14, 22))]
    submits += [clients.fork(number, FAULTS_LAST) for number in range(forks)]
    if stops:
        submits.append(world.stop_agents(FAULTS_LAST, stops))
    if world.plans:
        submits.append(clients.edit(FAULTS_LAST))
    if world.people:
        submits.append(clients.answer_late(FAULTS_LAST))
    background = [asyncio.create_task(loop_work) for loop_work in (Monitor(world).watch(), clients.answer())]
    work = asyncio.gather(*submits, clients.bother(FAULTS_LAST), Trouble(world, replicas).last(FAULTS_LAST))
    while not work.done():
        await asyncio.wait([work], timeout=0.5)
        _raise(world, background)
    work.result()
    await _come_to_rest(world, background, clients)
    states: Counter[str] = Counter()
    for run_id in world.check.books:
        run = await validate_run(world.store, run_id, world.check)
        states[run.state.name] += 1
        late = run.failure is not None and run.failure.reason == "RUN_TIMEOUT"
        short = run.submission is not None and run.submission.timeout < 10
        must("V7", short or not late, f"run {run_id} did not end before its timeout")
    validate_conversations(world)
    validate_people(world)
    validate_plans(world)
    validate_messages(world)
    validate_work(world)
    for book in world.check.books.values():
        dice.fired.update(
            "attempt given back" for event in book.facts if isinstance(event, Rejected) and is_given_back(event.failure)
        )
    dice.fired["newer answer sent"] += world.network.leaving.updates
    must("V1", set(clients.acknowledged.values()) <= set(world.check.books), "an acknowledged run is lost")
    return world.check.inputs, states


def _graph(dice: Dice) -> tuple[tuple[str, ...], tuple[Edge, ...]]:
    roles = tuple("abcd"[: dice.random.randint(2, 4)])
    edges = tuple(
        Edge(up, down, dice.random.randint(1, 3))
        for i, up in enumerate(roles)
        for down in roles[i + 1 :]
        if dice.random.random() < 0.5
    )
    return roles, edges


def _raise(world: World, background: list[asyncio.Task[None]]) -> None:
    if world.check.violation is not None:
        raise world.check.violation
    for task in background:
        if task.done():
            task.result()


async def _come_to_rest(world: World, background: list[asyncio.Task[None]], clients: Clients) -> None:
    """Waits after the last fault until all runs have ended and the mesh is at rest. Raises Violation if it is not."""
    end = world.loop.now + PATIENCE
    while world.loop.now < end and (why := _unrest(world, clients)):
        _raise(world, background)
        await asyncio.sleep(0.5)
    _raise(world, background)
    must(
        "V7", not (left := [name for name, b in world.check.books.items() if not b.state.ended]), f"still open: {left}"
    )
    unseen = [run_id for run_id, task in clients.watching.items() if not task.done()]
    must("V12", not unseen, f"watchers of {unseen} never saw the end")
    for task in clients.watching.values():
        task.result()
    must("V13", not (why := _unrest(world, clients)), why)


def _unrest(world: World, clients: Clients) -> str:
    """Returns what is not at rest (V13), or an empty string."""
    if any(not book.state.ended for book in world.check.books.values()):
        return "a run has not ended"
    if not all(task.done() for task in clients.watching.values()):
        return "a watcher has not ended"
    for agent in world.agents.values():
        if parked := [attempt.ref.task_id for attempt in agent.server.attempts]:
            return f"{agent.instance_id} still holds {parked}"
    for command in world.store._commands.values():
        if world.store._owner_of(command.run_id) in world.store._living:
            return f"in the inbox: {command}"
    for replica in world.replicas.values():
        if replica.runs._drivers:
            return f"{replica} still holds {list(replica.runs._drivers)}"
        for session in replica.pool._sessions.values():
            slots = session._credit
            if slots.in_flight or slots.waiting or session.reserved or slots._held:
                return f"{replica} counts {slots.in_flight}+{slots.waiting}+{session.reserved} at {session.instance_id}"
    return ""
