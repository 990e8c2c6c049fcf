"""Agents of the simulated mesh. Sessions, attempt tables and task contexts are the SDK's code; only the work is
simulated. Agents freeze, die, and are replaced by new instances."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archon.agent import AgentServer, Question
from archon.agent.session import AgentSession
from archon.agent.settings import AgentSettings
from archon.agent.task import TaskContext
from archon.agent.values import Answer, Item
from archon.api.agent.v1 import session_pb2
from archon.errors import ArchonError, BudgetExhausted, InvalidArgument
from archon.propagation import PropagationPolicy
from archon.types import Bid, Usage
from archon_services.orchestrator.ownership.lease import LEASE
from tests.simulation.auctions import bid_at_random
from tests.simulation.check import Execution
from tests.simulation.conversations import turn_of
from tests.simulation.loop import Process
from tests.simulation.messages import exchange
from tests.simulation.people import timed_question
from tests.simulation.plans import failing, output_of, reply_of
from tests.simulation.work import serve

if TYPE_CHECKING:
    from tests.simulation.world import World

SETTINGS = AgentSettings()
LEFT_OPEN = 300
"""One in so many attempts ends with a question open that it has asked."""


class SimAgent:
    """An agent process. `others` are the roles that it delegates to."""

    def __init__(self, world: World, name: str, role: str, others: tuple[str, ...] = ()) -> None:
        self.instance_id = name
        self.role = role
        self.others = others
        self.process = Process(name, world.loop)
        self._world = world
        self._dice = world.dice
        self._highest: dict[str, int] = {}
        self._most = 0
        self.server = AgentServer(
            role,
            max_tasks=world.dice.random.randint(1, 3),
            max_waiting=4,
            handler=self._work,
            settings=SETTINGS,
            coordinator=bool(others),
            stateful=world.stateful,
        )
        self.server.bid(self._bid)
        self.server.attempts.shared = world.memory
        self.server.instance_id = name
        self.server.registration = replace(self.server.registration, instance_id=name, address=name)
        self.process.start(self.server._sweep())

    def receive(self, session: AgentSession, frame: session_pb2.OrchestratorFrame) -> None:
        """Delivers a frame to the session. V8: a frame of a lower epoch changes nothing."""
        if frame.HasField("assign_task"):
            self._most = max(self.server.attempts.capacity, len(self.server._sessions))
        ref, highest = frame.task, self._highest.get(frame.task.run_id, 0)
        if not ref.task_id or ref.epoch >= highest:
            if ref.task_id:
                self._highest[ref.run_id] = ref.epoch
            session._decoded(frame)
            return
        self._dice.fired["frame of a lower epoch refused"] += 1
        before = self._standing(ref.task_id)
        session._decoded(frame)
        after = self._standing(ref.task_id)
        self._world.check.must(
            "V8", before == after, f"{ref.task_id} at {self.instance_id} was {before}, after epoch {ref.epoch} {after}"
        )

    def _standing(self, task_id: str) -> Any:
        attempt = self.server.attempts.newest(task_id)
        if attempt is None:
            return None
        channel = attempt.channel
        return (
            attempt.ref.attempt,
            attempt.ref.epoch,
            id(attempt.session),
            attempt._halted,
            channel.received,
            len(channel.unacked()),
        )

    async def _work(self, task: TaskContext) -> object:
        """Executes a task at random: waits, delegates, spends, asks a person. Adds a line to the ledger at its end."""
        dice = self._dice
        running = [
            attempt
            for attempt in self.server.attempts.running
            if attempt.working and attempt._halted is None and not (attempt._work and attempt._work.done())
        ]
        may_wait = bool(self.others) or self._world.messages  # a task that waited continues without a free slot
        bounded = may_wait or len(running) <= self._most
        self._world.check.must("V13", bounded, f"{len(running)} of {self._most} tasks at {self.instance_id}")
        await asyncio.sleep(dice.delay(0.25, "slow work"))
        task.write(f"{self.role} begins. ")
        if not task.checkpoint and dice.random.random() < 0.3:
            _call(task, 0)
            task.save(b"half")
            await asyncio.sleep(dice.delay(0.05, "slow work"))
        if self._world.people and not task.inputs and dice.fault("person asked under terms", 0.06):
            return timed_question(dice)
        if not task.inputs and dice.fault("person asked", 0.06):
            return Question("which one?", checkpoint=b"asked")
        if dice.random.random() < 0.3:
            dice.fired["item published"] += 1
            task.publish(Item(f"{task.task_id} publishes", dice.random.choice(list(PropagationPolicy))))
            await asyncio.sleep(dice.delay(0.05, "slow work"))
        if dice.fault("person asked meanwhile", 0.05):
            answer = await task.ask("and now?")
            expected = f"answer to {task.task_id}/a1"
            submission = self._world.check.books[task.run_id].state.submission
            is_fork = submission is not None and bool(submission.parent_run_id)  # it may have the answer of its source
            right = answer.removesuffix(", late") == expected or (is_fork and answer.partition("/")[2].startswith("a1"))
            self._world.check.must("V8", right, f"{task.task_id} received {answer!r}, not {expected!r}")
        elif (
            int(self._world.loop.now * 1e6) % LEFT_OPEN == 0 and not dice.calm
        ):  # draws nothing: seeds stay as they are
            dice.fired["question left open"] += 1
            asking = asyncio.ensure_future(task.ask("and if?"))
            await asyncio.sleep(0.05)
            asking.cancel()
        if self._world.messages and task.plan_request is None:
            await exchange(task, self._world, ("a", "b", "lead", "boss"))
        if self._world.work and task.plan_request is None and task.run_id != task.task_id:
            await serve(task, self._world)
        answers = await self._delegate(task) if self.others else []
        await self._spend(task)
        self._world.check.ledger[task.run_id].append(Execution(task.task_id, task.attempt, self.instance_id))
        if dice.fault("agent's own failure", 0.01):
            raise RuntimeError("it broke")
        if failing(task, dice):
            raise InvalidArgument("the step cannot be done")
        task.write("And ends.")
        if task.plan_request is not None:
            return Answer(reply_of(task, dice, joins=self._world.joins, auctions=self._world.auctions))
        text = f"{self.role}{task.input_text}<{'|'.join([*(item.text for item in task.context), *answers])}>"
        items = [Item(f"{policy} of {task.task_id}", policy) for policy in task.publish_policies]
        return Answer(output_of(task, dice, text), new_history=turn_of(task) if task.remembers else None, items=items)

    async def _bid(self, task: TaskContext) -> Bid | None:
        await asyncio.sleep(self._dice.delay(0.05, "slow work"))
        self._world.check.ledger[task.run_id].append(Execution(task.task_id, task.attempt, self.instance_id))
        return await bid_at_random(task, self._dice)

    async def _spend(self, task: TaskContext) -> None:
        """Reserves before it spends."""
        tokens = self._dice.random.randint(0, 300)
        try:
            await task.reserve(tokens=tokens)
        except BudgetExhausted:
            return
        _call(task, tokens)

    async def _delegate(self, task: TaskContext) -> list[str]:
        """Delegates up to three parts, sequentially or concurrently; at times cancels one or does not wait for them."""
        random, delegations = self._dice.random, []
        for number in range(1, random.randint(0, 3) + 1):
            role = random.choice(self.others)
            key = f"k{number}" if random.random() < 0.5 else ""
            timeout = random.choice([60.0, 60.0, 0.5])
            delegation = task.delegate(f"to {role}", role=role, memo_key=key, timeout=timeout)
            delegations.append(asyncio.ensure_future(delegation))
            if random.random() < 0.5:
                await asyncio.wait(delegations[-1:])
        if delegations and self._dice.fault("left without waiting", 0.05):
            return []
        if delegations and not delegations[-1].done() and self._dice.fault("delegation cancelled", 0.1):
            delegations.pop().cancel()
        answers = await asyncio.gather(*delegations, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, (ArchonError, asyncio.CancelledError)):
                raise answer
        return [answer.text for answer in answers if not isinstance(answer, BaseException)]

    def drain(self) -> None:
        """Begins to drain, as on SIGTERM."""
        self.server._draining = True
        for session in self.server._sessions:
            session.drain()
        self.server._credit()

    def freeze(self) -> None:
        """Stops the process for longer than the silence limit, at times longer than its registration's lease, then
        continues it."""
        for_ = self._dice.random.uniform(2.2, 6.0)
        self.process.halt()
        self._world.loop.call_later(LEASE + 0.5, self._expire)
        self._world.loop.call_later(for_, self._thaw)

    def _expire(self) -> None:
        if self.process.halted:
            self._world.unregister(self)

    def _thaw(self) -> None:
        if not self.process.dead:
            self.process.go_on()
            self._world.register(self)


def _call(task: TaskContext, tokens: int) -> None:
    """Records a model call, and tool calls before it."""
    for _ in range(tokens % 4):
        task.record_tool_call("t", {}, {}, started=0.0, seconds=0.1)
    usage = Usage(output_tokens=tokens)
    task.record_model_call("m", {}, {}, started=0.0, seconds=0.1, usage=usage)
