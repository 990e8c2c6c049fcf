"""Agents of the simulated mesh: they hold tasks, work for a while, park results until they are acked, refuse old
epochs, and crash with everything they had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Failure, TaskState
from tests.simulation.faults import Dice

Key = tuple[str, int]
Report = Callable[["SimAgent", common_pb2.TaskRef, object], None]


@dataclass
class Held:
    """One attempt at an agent."""

    ref: common_pb2.TaskRef
    context: tuple[str, ...]
    work: asyncio.Task[None] | None = None
    result: inp.ResultIn | None = None


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
        working = sum(held.result is None for held in self.held.values())
        if working >= self.capacity or self.dice.fault("reject", 0.03):
            full = Failure("RESOURCE_EXHAUSTED", "NO_CAPACITY", "no room", retry_delay=0.1)
            self.report(self, ref, inp.RejectIn(ref.task_id, ref.attempt, full, 0.1))
            return
        context = tuple(part.text for item in task.context for part in item.parts)
        held = self.held[key] = Held(ref, context)
        held.work = asyncio.ensure_future(self._work(held))

    async def _work(self, held: Held) -> None:
        ref = held.ref
        await asyncio.sleep(self.dice.delay(0.4))
        text = f"{self.role}<{'|'.join(held.context)}>"
        payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
        payload.output.add(text=text)
        state, failure = TaskState.COMPLETED, None
        if self.dice.fault("agent's own failure", 0.01):
            state, failure = TaskState.FAILED, Failure("INTERNAL", "INTERNAL", "it broke")
        self.ledger.append(Execution(ref.task_id, ref.attempt, self.instance_id, held.context))
        self._finish(held, inp.ResultIn(ref.task_id, ref.attempt, state, payload, failure, True, 1))

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
        self.held.pop((ref.task_id, ref.attempt), None)

    def cancel(self, ref: common_pb2.TaskRef) -> None:
        """Stop working."""
        held = self.held.get((ref.task_id, ref.attempt))
        if not self.alive or not self._admit(ref) or held is None or held.result is not None:
            return
        assert held.work is not None
        held.work.cancel()
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
