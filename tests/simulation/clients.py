"""Callers of the mesh: they submit, watch, cancel, pause and answer. Each call goes to a random replica that serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError
from archon_mesh.engine.types import Budget, Edge, SessionContextRef, Submission, Target
from tests.simulation import people
from tests.simulation.check import Book, Check, must
from tests.simulation.plans import planned_submission, random_edit
from tests.simulation.replica import Batch, Replica
from tests.simulation.world import World

RUN_TIMEOUT = 120.0
SHORT_TIMEOUT = 4.0
SESSIONS = 4


class Clients:
    """Calls the mesh at random. `acknowledged` maps each answered request id to its run."""

    def __init__(self, world: World, roles: tuple[str, ...], edges: tuple[Edge, ...]) -> None:
        self.acknowledged: dict[str, str] = {}
        self.watching: dict[str, asyncio.Task[None]] = {}
        self._world = world
        self._roles = roles
        self._edges = edges

    def _replica(self) -> Replica | None:
        serving = self._world.serving
        return self._world.dice.random.choice(serving) if serving else None

    def _submission(self, number: int) -> Submission:
        random, roles = self._world.dice.random, self._roles
        goal = run_pb2.Submitted()
        goal.goal.add(text=f"goal {number}")
        timeout = SHORT_TIMEOUT if self._world.dice.fault("run of a short time", 0.04) else RUN_TIMEOUT
        if self._world.plans and random.random() < 0.8:
            submission = planned_submission(number, roles, timeout)
            return self._with_rules(replace(submission, check_alignment=self._world.alignment))
        submission = Submission("", "default", f"q{number}", "", "pipeline", roles, self._edges, timeout, goal)
        submission = self._with_rules(submission)
        if self._world.stateful:
            submission = replace(submission, session_id=f"t{number % SESSIONS}")
        elif number % 3 == 0:
            submission = _in_a_session(submission, goal, number)
        if random.random() < 0.4:
            return submission
        targets = tuple(Target(role, "", role in ("lead", "boss")) for role in (*roles, "lead", "boss"))
        budget = Budget(random.choice([0, 500, 3000]), 0, random.choice([0, 1, 2]))
        return replace(submission, strategy="agent", roles=("lead",), targets=targets, budget=budget)

    def _with_rules(self, submission: Submission) -> Submission:
        rules = people.random_rules(self._world.dice.random) if self._world.people else ()
        return replace(submission, rules=rules)

    async def submit(self, number: int, latest: float) -> None:
        """Submits a run until it is acknowledged, at times to two replicas concurrently."""
        dice = self._world.dice
        await asyncio.sleep(dice.random.uniform(0, latest))
        submission = self._submission(number)
        twice = dice.fault("submitted at two replicas at once", 0.25)
        await asyncio.gather(*(self._submit(submission) for _ in range(2 if twice else 1)))

    async def fork(self, number: int, latest: float) -> None:
        """Forks a random run from a random event, at any replica, until the fork is acknowledged. Checks that it has
        the source's answers."""
        world, random = self._world, self._world.dice.random
        await asyncio.sleep(random.uniform(latest / 4, latest))
        while not world.check.books:  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.2)
        run_id, source = random.choice(sorted(world.check.books.items(), key=lambda item: item[0]))
        after_seq = random.choice([0, random.randint(1, len(source.protos))])
        request = pb.ForkRunRequest(request_id=f"f{number}", run_id=run_id, after_seq=after_seq)
        forked = await self._until_acknowledged(request.request_id, lambda replica: replica.commands.fork(request))
        self._check_fork(world.check.books[forked], source)

    def _check_fork(self, fork: Book, source: Book) -> None:
        submitted = fork.state.submission
        must("V1", submitted is not None and submitted.parent_run_id == source.protos[0].run_id, "another parent")
        results = [proto for proto in fork.protos if proto.HasField("result") and not proto.task.attempt]
        self._world.dice.fired["answer reused by a fork"] += len(results)
        for proto in results:
            if proto.result.HasField("resolution"):
                continue  # a rule may have decided anew
            step_id = fork.state.tasks[proto.task.task_id].step_id
            outputs = [
                source.protos[task.result_seq - 1].result.output
                for task in source.state.tasks.values()
                if task.result_seq and (task.role, task.step_id) == (proto.result.role, step_id)
            ]
            must("V11", proto.result.output in outputs, f"{proto.run_id} reuses another answer of {proto.result.role}")

    async def _submit(self, submission: Submission) -> None:
        def submit(replica: Replica) -> Coroutine[Any, Any, tuple[str, bool]]:
            return replica.runs.submit(replace(submission, run_id=self._world.new_id()), b"hash")

        await self._until_acknowledged(submission.request_id, submit)

    async def _until_acknowledged(
        self, request_id: str, create: Callable[[Replica], Coroutine[Any, Any, tuple[str, bool]]]
    ) -> str:
        """Creates a run with this request id, again and again until that is acknowledged. Returns its id."""
        world = self._world
        while True:
            replica = self._replica()
            try:
                if replica is None:
                    await asyncio.sleep(0.2)
                    continue
                run_id: str = (await replica.ask(create(replica)))[0]
            except ArchonError:
                await asyncio.sleep(0.2)
                continue
            must("V5", run_id in world.check.books, f"{run_id} was acknowledged before it was durable")
            if world.dice.fault("answer to a submit lost", 0.05):
                continue
            known = self.acknowledged.setdefault(request_id, run_id)
            must("V1", known == run_id, f"request {request_id} made {known} and {run_id}")
            if run_id not in self.watching:
                self.watching[run_id] = asyncio.create_task(self._watch(run_id))
            return run_id

    async def _watch(self, run_id: str) -> None:
        """Follows the run, leaves, and resumes on another replica until the last event has arrived. Checks V12."""
        world, cursor = self._world, 0
        book = world.check.books[run_id]
        while not (book.state.ended and cursor == len(book.events)):
            replica = self._replica()
            if replica is None:
                await asyncio.sleep(0.3)
                continue
            look = _Look(world.check, run_id, cursor, world.dice.random.randint(2, 12))
            end = replica.watch(run_id, cursor, look.receive)
            await asyncio.wait([look.over], timeout=6.0)
            look.left = 0
            end()
            cursor = look.cursor
            await asyncio.sleep(0.05)

    async def bother(self, until: float) -> None:
        """Cancels and pauses random runs."""
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

    async def edit(self, until: float) -> None:
        """Edits the plans of random runs."""
        world, random = self._world, self._world.dice.random
        while world.loop.now < until:
            await asyncio.sleep(random.uniform(0.1, 0.5))
            replica, runs = self._replica(), sorted(self.acknowledged.values())
            if replica is None or not runs:
                continue
            run_id = random.choice(runs)
            if (request := random_edit(random, world.check.books[run_id], run_id)) is not None:
                await self._order(replica, run_id, replica.commands.plans.edit, request)

    async def answer(self) -> None:
        """Answers questions and resumes paused runs, at the latest when faults have ended."""
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
                    for identity, request in people.answers(dice, state, task, run_id) if task.question else ():
                        respond = replica.commands.control.respond
                        await self._order(replica, run_id, respond, request, identity=identity)
                        dice.fired["question answered"] += 1

    async def answer_late(self, until: float) -> None:
        """Answers questions that are closed."""
        world, random = self._world, self._world.dice.random
        while world.loop.now < until:
            await asyncio.sleep(random.uniform(0.2, 1.0))
            replica, runs = self._replica(), sorted(self.acknowledged.values())
            if replica is None or not runs:
                continue
            run_id = random.choice(runs)
            if (request := people.late_answer(random, world.check.books[run_id], run_id)) is not None:
                world.dice.fired["late answer"] += 1
                await self._order(replica, run_id, replica.commands.control.respond, request)

    async def _order(self, replica: Replica, run_id: str, order: Any, *arguments: Any, identity: str = "") -> None:
        async def work() -> None:
            if identity:
                context.enter(replace(context.current(), identity=identity))
            row = await replica.commands.row(run_id)
            if not replica.runs.holds(run_id):
                self._world.dice.fired["order at a replica that is not the owner"] += 1
            await order(row, *arguments)

        try:
            await replica.ask(work())
        except ArchonError:
            pass


class _Look:
    """A watch that ends after `left` messages. `over` is done when it has ended; `cursor` is the last event."""

    def __init__(self, check: Check, run_id: str, cursor: int, left: int) -> None:
        self.cursor = cursor
        self.left = left
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._check = check
        self._run_id = run_id

    def receive(self, batch: Batch | None) -> None:
        """Handles a message of the watch, or its end if `batch` is None."""
        if self.left and batch is not None:
            self.cursor = self._check.shown(self._run_id, self.cursor, batch)
            self.left -= 1
        if (not self.left or batch is None) and not self.over.done():
            self.over.set_result(None)


def _in_a_session(submission: Submission, goal: run_pb2.Submitted, number: int) -> Submission:
    """Returns the submission with an item of its session's memory, which its last role receives."""
    known = goal.session_context.add(readers=[submission.roles[-1]])
    known.item.ref.scope, known.item.ref.role, known.item.ref.version = f"s{number}", "elder", number + 1
    known.item.parts.add(text=f"answer of the elder {number}")
    outside = (SessionContextRef("elder", number + 1, (submission.roles[-1],)),)
    return replace(submission, session_id=f"s{number}", session_context=outside)
