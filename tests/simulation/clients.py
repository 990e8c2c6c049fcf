"""Who calls the mesh: submits, watches, cancels, pauses, answers. Each call goes to whichever replica answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError
from archon_mesh.core.run.types import Budget, Edge, SessionContextRef, Submission, Target
from tests.simulation.check import Check, must
from tests.simulation.replica import Batch, Replica
from tests.simulation.world import World

RUN_TIMEOUT = 120.0
SHORT_TIMEOUT = 4.0
SESSIONS = 4


class Clients:
    """`acknowledged`: the run of each request that was answered."""

    def __init__(self, world: World, roles: tuple[str, ...], edges: tuple[Edge, ...]) -> None:
        self.acknowledged: dict[str, str] = {}
        self.watching: dict[str, asyncio.Task[None]] = {}
        self._world = world
        self._roles = roles
        self._edges = edges

    def _replica(self) -> Replica | None:
        serving = self._world.serving
        return self._world.dice.random.choice(serving) if serving else None

    def _wanted(self, number: int) -> Submission:
        random, roles = self._world.dice.random, self._roles
        goal = run_pb2.Submitted()
        goal.goal.add(text=f"goal {number}")
        timeout = SHORT_TIMEOUT if self._world.dice.fault("run of a short time", 0.04) else RUN_TIMEOUT
        wanted = Submission("", "default", f"q{number}", "", "pipeline", roles, self._edges, timeout, goal)
        if self._world.stateful:
            wanted = replace(wanted, session_id=f"t{number % SESSIONS}")
        elif number % 3 == 0:
            wanted = _in_a_session(wanted, goal, number)
        if random.random() < 0.4:
            return wanted
        targets = tuple(Target(role, "", role in ("lead", "boss")) for role in (*roles, "lead", "boss"))
        budget = Budget(random.choice([0, 500, 3000]), 0, random.choice([0, 1, 2]))
        return replace(wanted, strategy="agent", roles=("lead",), targets=targets, budget=budget)

    async def submit(self, number: int, latest: float) -> None:
        """Asks until it is answered; at times on two replicas at once."""
        dice = self._world.dice
        await asyncio.sleep(dice.random.uniform(0, latest))
        wanted = self._wanted(number)
        twice = dice.fault("submitted at two replicas at once", 0.25)
        await asyncio.gather(*(self._submit(wanted) for _ in range(2 if twice else 1)))

    async def _submit(self, wanted: Submission) -> None:
        world = self._world
        while True:
            replica = self._replica()
            try:
                if replica is None:
                    await asyncio.sleep(0.2)
                    continue
                asked = replica.runs.submit(replace(wanted, run_id=world.new_id()), b"hash")
                run_id, _ = await replica.ask(asked)
            except ArchonError:
                await asyncio.sleep(0.2)
                continue
            must("V5", run_id in world.check.books, f"{run_id} was acknowledged before it was durable")
            if world.dice.fault("answer to a submit lost", 0.05):
                continue
            known = self.acknowledged.setdefault(wanted.request_id, run_id)
            must("V1", known == run_id, f"request {wanted.request_id} made {known} and {run_id}")
            if run_id not in self.watching:
                self.watching[run_id] = asyncio.create_task(self._watch(run_id))
            return

    async def _watch(self, run_id: str) -> None:
        """V12: follows, leaves, and resumes on another replica, until it has seen the last event."""
        world, cursor = self._world, 0
        book = world.check.books[run_id]
        while not (book.state.ended and cursor == len(book.events)):
            replica = self._replica()
            if replica is None:
                await asyncio.sleep(0.3)
                continue
            look = _Look(world.check, run_id, cursor, world.dice.random.randint(2, 12))
            end = replica.watch(run_id, cursor, look.told)
            await asyncio.wait([look.over], timeout=6.0)
            look.left = 0
            end()
            cursor = look.cursor
            await asyncio.sleep(0.05)

    async def bother(self, until: float) -> None:
        """Cancels, pauses and resumes runs."""
        world, dice = self._world, self._world.dice
        while world.loop.now < until:
            await asyncio.sleep(dice.random.uniform(0.2, 1.5))
            replica, runs = self._replica(), sorted(self.acknowledged.values())
            if replica is None or not runs:
                continue
            run_id, orders = dice.random.choice(runs), replica.commands.control
            if dice.fault("run cancelled", 0.08):
                await self._order(replica, run_id, orders.cancel, "by the simulation")
            elif dice.fault("run paused", 0.08):
                await self._order(replica, run_id, orders.pause)

    async def answer(self) -> None:
        """People answer, and whoever paused a run resumes it; at the latest once faults have ended."""
        world, dice = self._world, self._world.dice
        while True:
            await asyncio.sleep(dice.random.uniform(0.3, 1.0))
            for run_id, book in list(world.check.books.items()):
                state = book.state
                asking = [task for task in state.tasks.values() if task.question]
                if state.ended or not (state.paused or asking) or not (dice.calm or dice.random.random() < 0.4):
                    continue
                if (replica := self._replica()) is None:
                    continue
                if state.paused:
                    await self._order(replica, run_id, replica.commands.control.resume)
                for task in asking:
                    if task.question:
                        request = pb.RespondRequest(run_id=run_id, input_id=task.question)
                        request.parts.add(text=f"answer to {task.question}")
                        await self._order(replica, run_id, replica.commands.control.respond, request)
                        dice.fired["question answered"] += 1

    async def _order(self, replica: Replica, run_id: str, order: Any, *arguments: Any) -> None:
        async def work() -> None:
            row = await replica.commands.row(run_id)
            if not replica.runs.holds(run_id):
                self._world.dice.fired["order at a replica that isn't the owner"] += 1
            await order(row, *arguments)

        try:
            await replica.ask(work())
        except ArchonError:
            pass


class _Look:
    """One watch, until it has been told `left` times. `over` is done when it is over, `cursor` how far it came."""

    def __init__(self, check: Check, run_id: str, cursor: int, left: int) -> None:
        self.cursor = cursor
        self.left = left
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._check = check
        self._run_id = run_id

    def told(self, batch: Batch | None) -> None:
        """A message of the watch; None: it has ended."""
        if self.left and batch is not None:
            self.cursor = self._check.shown(self._run_id, self.cursor, batch)
            self.left -= 1
        if (not self.left or batch is None) and not self.over.done():
            self.over.set_result(None)


def _in_a_session(wanted: Submission, goal: run_pb2.Submitted, number: int) -> Submission:
    """One that was told what its session knew, for the last of its roles."""
    known = goal.session_context.add(readers=[wanted.roles[-1]])
    known.item.ref.scope, known.item.ref.role, known.item.ref.version = f"s{number}", "elder", number + 1
    known.item.parts.add(text=f"what the elder said, {number}")
    outside = (SessionContextRef("elder", number + 1, (wanted.roles[-1],)),)
    return replace(wanted, session_id=f"s{number}", session_context=outside)
