"""Agents of the simulated mesh: they hold tasks, work for a while, park results until they are acked, refuse old
epochs, and crash with everything they had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Amount, Failure, TaskState
from tests.simulation.faults import Dice

TASK_TIME = 60.0
Key = tuple[str, int]
Report = Callable[["SimAgent", common_pb2.TaskRef, object], None]


@dataclass
class Held:
    """One attempt at an agent."""

    ref: common_pb2.TaskRef
    context: tuple[str, ...]
    granted: int | None = None
    """Tokens that it may spend; None: no limit."""
    end: float = 0.0
    work: asyncio.Task[None] | None = None
    result: inp.ResultIn | None = None
    asked: dict[str, asyncio.Future[Any]] = field(default_factory=dict)
    """Delegations and requests without an answer."""

    @property
    def waiting(self) -> bool:
        return any(name.startswith("d") for name in self.asked)


@dataclass
class Execution:
    """A line of the agents' ledger: an attempt whose work was finished."""

    task_id: str
    attempt: int
    instance_id: str
    context: tuple[str, ...]


@dataclass
class SimAgent:
    """`report` brings what it says to whoever is its orchestrator now."""

    instance_id: str
    role: str
    capacity: int
    dice: Dice
    report: Report
    ledger: list[Execution]
    others: tuple[str, ...] = ()
    """The roles that it delegates to."""
    alive: bool = True
    frozen_until: float = 0.0
    held: dict[Key, Held] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    over: set[Key] = field(default_factory=set)

    def _admit(self, ref: common_pb2.TaskRef) -> bool:
        highest = self.epochs.get(ref.run_id, 0)
        if ref.epoch < highest:
            self.dice.fired["stale epoch refused"] += 1
            return False
        self.epochs[ref.run_id] = ref.epoch
        return True

    def assign(self, ref: common_pb2.TaskRef, task: agent_pb2.AssignTask) -> None:
        """A task arrives, perhaps for the second time."""
        key = (ref.task_id, ref.attempt)
        if not self.alive or not self._admit(ref) or key in self.held or key in self.over:
            return
        working = sum(held.result is None and not held.waiting for held in self.held.values())
        if working >= self.capacity or self.dice.fault("reject", 0.03):
            full = Failure("RESOURCE_EXHAUSTED", "NO_CAPACITY", "no room", retry_delay=0.1)
            self.report(self, ref, inp.RejectIn(ref.task_id, ref.attempt, full, 0.1))
            return
        context = tuple(part.text for item in task.context for part in item.parts)
        granted = task.budget.max_tokens if task.HasField("budget") else None
        held = self.held[key] = Held(ref, context, granted, asyncio.get_running_loop().time() + TASK_TIME)
        held.work = asyncio.ensure_future(self._work(held))

    async def _work(self, held: Held) -> None:
        ref = held.ref
        await asyncio.sleep(self.dice.delay(0.4))
        answers = await self._have_others_do(held) if self.others else []
        text = f"{self.role}<{'|'.join([*held.context, *answers])}>"
        payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
        payload.output.add(text=text)
        state, failure = TaskState.COMPLETED, None
        if self.dice.fault("agent's own failure", 0.01):
            state, failure = TaskState.FAILED, Failure("INTERNAL", "INTERNAL", "it broke")
        self.ledger.append(Execution(ref.task_id, ref.attempt, self.instance_id, held.context))
        spent = Amount(await self._spend(held))
        payload.usage.output_tokens = spent.tokens
        self._finish(held, inp.ResultIn(ref.task_id, ref.attempt, state, payload, failure, True, 1, spent))

    async def _spend(self, held: Held) -> int:
        """Reserves before it spends."""
        wanted = self.dice.random.randint(0, 300)
        if held.granted is None:
            return wanted
        if wanted > held.granted:
            ref = held.ref
            request = inp.BudgetRequestIn(ref.task_id, ref.attempt, "b1", 0, Amount(wanted - held.granted))
            held.granted += await self._ask(held, "b1", request)
        return min(wanted, held.granted)

    async def _have_others_do(self, held: Held) -> list[str]:
        """Some parts for other roles: one by one or at once; now and then it doesn't wait for what it asked."""
        random, asking = self.dice.random, []
        for number in range(1, random.randint(0, 3) + 1):
            role = random.choice(self.others)
            key = f"k{number}" if random.random() < 0.5 else ""
            timeout = random.choice([60.0, 60.0, 0.5])
            said = inp.DelegateIn(
                held.ref.task_id,
                held.ref.attempt,
                f"d{number}",
                number,
                role,
                True,
                f"to {role}",
                _asked(role),
                memo_key=key,
                timeout=timeout,
            )
            asking.append(asyncio.ensure_future(self._ask(held, f"d{number}", said)))
            if random.random() < 0.5:
                await asking[-1]
        if asking and self.dice.fault("left without waiting", 0.05):
            held.asked.clear()
            return []
        if asking and not asking[-1].done() and self.dice.fault("delegation cancelled", 0.1):
            number = len(asking)
            held.asked.pop(f"d{number}", None)
            asking.pop().cancel()
            cancelled = inp.CancelDelegationIn(held.ref.task_id, held.ref.attempt, f"d{number}", number)
            self.report(self, held.ref, cancelled)
        return [answer for answer in await asyncio.gather(*asking) if answer]

    async def _ask(self, held: Held, name: str, said: Any) -> Any:
        """Says it again until it is answered, or the task's time is over."""
        held.asked[name] = answer = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        while self.alive and not answer.done() and name in held.asked and loop.time() < held.end:
            self.report(self, held.ref, said)
            await asyncio.wait([answer], timeout=1.0 + self.dice.delay(0.5))
        held.asked.pop(name, None)
        return answer.result() if answer.done() else (0 if name.startswith("b") else "")

    def told(self, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """An answer arrives, perhaps for the second time."""
        held = self.held.get((ref.task_id, ref.attempt))
        if not self.alive or not self._admit(ref) or held is None:
            return
        if frame.HasField("delegate_result"):
            answer = held.asked.get(frame.delegate_result.delegation_id)
            result = frame.delegate_result.result
            value: Any = result.output[0].text if result.output else result.failure.message or "nothing"
        else:
            answer, value = held.asked.get(frame.budget_grant.request_id), frame.budget_grant.budget.max_tokens
        if answer is not None and not answer.done():
            answer.set_result(value)

    def _finish(self, held: Held, result: inp.ResultIn) -> None:
        held.result = result
        asyncio.ensure_future(self._offer(held))

    async def _offer(self, held: Held) -> None:
        """Says it again until it is acked."""
        while self.alive and self.held.get((held.ref.task_id, held.ref.attempt)) is held:
            assert held.result is not None
            self.report(self, held.ref, held.result)
            await asyncio.sleep(1.0 + self.dice.delay(0.5))

    def settled(self, ref: common_pb2.TaskRef) -> None:
        """The result was acked, or didn't count."""
        self.over.add((ref.task_id, ref.attempt))
        held = self.held.pop((ref.task_id, ref.attempt), None)
        if held is not None and held.work is not None:
            held.work.cancel()
            held.asked.clear()

    def cancel(self, ref: common_pb2.TaskRef) -> None:
        """Stop working."""
        held = self.held.get((ref.task_id, ref.attempt))
        if not self.alive or not self._admit(ref) or held is None or held.result is not None:
            return
        assert held.work is not None
        held.work.cancel()
        held.asked.clear()
        self._finish(held, inp.ResultIn(ref.task_id, ref.attempt, TaskState.CANCELED, agent_pb2.TaskResult()))

    def adopt(self, ref: common_pb2.TaskRef) -> None:
        """A new epoch, or a new stream, asks for an attempt."""
        if not self.alive or not self._admit(ref):
            return
        held = self.held.get((ref.task_id, ref.attempt))
        if held is None:
            gone = Failure("NOT_FOUND", "NOT_HELD", "not held")
            self.report(self, ref, inp.LostIn(ref.task_id, ref.attempt, gone))
        else:
            held.ref.epoch = ref.epoch

    def crash(self) -> None:
        """Everything it had is gone."""
        self.alive = False
        for held in self.held.values():
            if held.work is not None:
                held.work.cancel()
        self.held.clear()


def _asked(role: str) -> run_pb2.Delegated:
    asked = run_pb2.Delegated()
    asked.input.add(text=f"a part for {role}")
    return asked
