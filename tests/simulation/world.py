"""The simulated mesh: agents, a network that delays, doubles and loses, a journal that is slow and fails. What is real
is the engine, the driver, the watchers and the way runs are taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Failure, Want, quantize
from archon_services.orchestrator.journal import Append, MemoryJournal, NewRun, Outcome
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.ports import Delivery, Standing
from archon_services.orchestrator.runs import Runs
from tests.simulation.agents import Execution, Key, SimAgent
from tests.simulation.faults import Dice
from tests.simulation.loop import VirtualLoop

WALL = 1_700_000_000.0


class SimClock:
    """Wall time starts in 2023 and goes on with the loop's."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return quantize(WALL + self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()


class SimJournal(MemoryJournal):
    """Slow, and sometimes fails: before the commit, or after it, which the caller can't tell apart."""

    def __init__(self, dice: Dice) -> None:
        super().__init__()
        self._dice = dice

    async def _around(self, commit: Callable[[], Any]) -> Any:
        await asyncio.sleep(self._dice.delay(0.003))
        if self._dice.fault("journal fails before the commit", 0.01):
            raise Unavailable("the disk is slow today")
        result = await commit()
        if self._dice.fault("journal fails after the commit", 0.01):
            raise Unavailable("the connection died")
        await asyncio.sleep(self._dice.delay(0.002))
        return result

    async def append(self, append: Append) -> Outcome:
        outcome: Outcome = await self._around(lambda: super(SimJournal, self).append(append))
        return outcome

    async def create(self, new: NewRun, first: Append) -> tuple[str, bool]:
        created: tuple[str, bool] = await self._around(lambda: super(SimJournal, self).create(new, first))
        return created


class SimTransport:
    """What one orchestrator process has: it dies with it."""

    def __init__(self, world: World, runs: Runs) -> None:
        self.world = world
        self.runs = runs
        self.dead = False
        self._bound: dict[str, set[Key]] = {}
        self._reserved: dict[str, int] = {}
        self._open: dict[Key, set[str]] = {}
        self._waiting: dict[str, dict[int, Callable[[], None]]] = {}
        self._ticket = 0

    def _room(self, agent: SimAgent) -> int:
        bound = self._bound.get(agent.instance_id, set())
        used = sum(not self._open.get(key) for key in bound) + self._reserved.get(agent.instance_id, 0)
        return agent.capacity - used

    def reserve(self, want: Want) -> str | None:
        fit = [a for a in self.world.agents.values() if a.role == want.role and a.alive and self._room(a) > 0]
        if not fit:
            return None
        best = max(fit, key=lambda agent: (self._room(agent), agent.instance_id))
        self._reserved[best.instance_id] = self._reserved.get(best.instance_id, 0) + 1
        return best.instance_id

    def release(self, instance_id: str) -> None:
        self._reserved[instance_id] = max(0, self._reserved.get(instance_id, 0) - 1)

    def when_free(self, want: Want, wake: Callable[[], None]) -> Callable[[], None]:
        self._ticket += 1
        ticket = self._ticket
        self._waiting.setdefault(want.role, {})[ticket] = wake
        return lambda: self._waiting.get(want.role, {}).pop(ticket, None) and None

    def room_changed(self) -> None:
        """Wakes everybody who waits: more than a real pool does, and never less."""
        for waiting in list(self._waiting.values()):
            for ticket in list(waiting):
                waiting.pop(ticket)()

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        self.release(instance_id)
        self._bound.setdefault(instance_id, set()).add((ref.task_id, ref.attempt))
        self.world.check.assigned(ref, instance_id, task)
        self._send(instance_id, ref, lambda agent: agent.assign(_copy(ref), task))

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: Standing) -> None:
        self._bound.setdefault(instance_id, set()).add((ref.task_id, ref.attempt))
        self._send(instance_id, ref, lambda agent: agent.adopt(_copy(ref)))

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        if frame.HasField("delegate_result"):
            self.world.check.answered(ref, frame.delegate_result)
            self._open.get((ref.task_id, ref.attempt), set()).discard(frame.delegate_result.delegation_id)
        self._send(instance_id, ref, lambda agent: agent.told(_copy(ref), frame))

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None:
        self._send(instance_id, ref, lambda agent: agent.cancel(_copy(ref)))

    def let_go(self, run_id: str) -> None:
        for bound in self._bound.values():
            bound -= {one for one in bound if one[0].startswith(f"{run_id}.")}

    def _send(self, instance_id: str, ref: common_pb2.TaskRef, arrive: Callable[[SimAgent], None]) -> None:
        """A frame goes out. One that is lost breaks the session: the attempt is lost, whatever the agent thinks."""
        dice, agent = self.world.dice, self.world.agents.get(instance_id)
        if agent is None or not agent.alive or dice.fault("frame to an agent lost", 0.02):
            self._later(2.0 + dice.delay(0.2), lambda: self.lose(instance_id, ref))
            return
        wait = max(0.0, agent.frozen_until - self.world.loop.time())
        if wait > 2.0:
            self._later(2.0 + dice.delay(0.2), lambda: self.lose(instance_id, ref))
        for _ in range(2 if dice.fault("frame to an agent doubled", 0.03) else 1):
            self.world.later(wait + dice.delay(0.005), lambda: arrive(agent))

    def lose(self, instance_id: str, ref: common_pb2.TaskRef) -> None:
        """The session says that the attempt is lost, unless it has heard its end."""
        key = (ref.task_id, ref.attempt)
        if key not in self._bound.get(instance_id, ()):
            return
        self._bound[instance_id].discard(key)
        failure = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")
        self.runs.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure)))
        self.room_changed()

    def lose_all(self, instance_id: str) -> None:
        """The instance crashed, or fell silent."""
        for task_id, attempt in list(self._bound.get(instance_id, ())):
            run_id = task_id.split(".")[0]
            self.lose(instance_id, common_pb2.TaskRef(task_id=task_id, run_id=run_id, attempt=attempt))

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self.world.later(seconds, lambda: None if self.dead else what())

    def heard(self, agent: SimAgent, ref: common_pb2.TaskRef, said: Any) -> None:
        """A frame of an agent arrives."""
        if self.dead:
            return
        if isinstance(said, (inp.DelegateIn, inp.CancelDelegationIn, inp.BudgetRequestIn)):
            if (ref.task_id, ref.attempt) not in self._bound.get(agent.instance_id, ()):
                self.world.later(self.world.dice.delay(0.005), lambda: agent.cancel(_copy(ref)))
                return
            if isinstance(said, inp.DelegateIn):
                self._open.setdefault((ref.task_id, ref.attempt), set()).add(said.delegation_id)
            self.runs.deliver(ref.run_id, Delivery(said, _AskReceipt(self, agent, _copy(ref))))
            self.room_changed()
            return
        self._bound.get(agent.instance_id, set()).discard((ref.task_id, ref.attempt))
        receipt = _SimReceipt(self, agent, _copy(ref)) if isinstance(said, inp.ResultIn) else None
        records = (agent_pb2.CallRecord(kind=agent_pb2.RECORD_KIND_MODEL, request_json="{}"),) if receipt else ()
        self.runs.deliver(ref.run_id, Delivery(said, receipt, records))
        self.room_changed()


class _AskReceipt:
    """Of what is answered later, if at all."""

    def __init__(self, transport: SimTransport, agent: SimAgent, ref: common_pb2.TaskRef) -> None:
        self._transport = transport
        self._agent = agent
        self._ref = ref

    def accept(self) -> None:
        pass

    def discard(self, reason: str) -> None:
        world = self._transport.world
        world.later(world.dice.delay(0.005), lambda: self._agent.settled(self._ref))


class _SimReceipt:
    def __init__(self, transport: SimTransport, agent: SimAgent, ref: common_pb2.TaskRef) -> None:
        self._transport = transport
        self._agent = agent
        self._ref = ref

    def accept(self) -> None:
        self._transport.world.check.acked(self._ref)
        self._settle()

    def discard(self, reason: str) -> None:
        self._settle()

    def _settle(self) -> None:
        world = self._transport.world
        if not world.dice.fault("ack lost", 0.05):
            world.later(world.dice.delay(0.005), lambda: self._agent.settled(self._ref))


class World:
    """`check` watches what leaves; it raises where something leaves that isn't durable."""

    def __init__(self, dice: Dice, loop: VirtualLoop, check: Any) -> None:
        self.dice = dice
        self.loop = loop
        self.check = check
        self.clock = SimClock(loop)
        self.journal = SimJournal(dice)
        self.agents: dict[str, SimAgent] = {}
        self.ledger: list[Execution] = []
        self.transport: SimTransport | None = None
        self.runs: Runs | None = None
        self.ownership: Ownership | None = None
        self._names = 0

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.loop.call_later(seconds, what)

    def add_agent(self, role: str, others: tuple[str, ...] = ()) -> None:
        """A new instance registers."""
        self._names += 1
        name = f"{role}-{self._names}"
        capacity = self.dice.random.randint(1, 3)
        self.agents[name] = SimAgent(name, role, capacity, self.dice, self._report, self.ledger, others)
        if self.transport is not None:
            self.transport.room_changed()

    def _report(self, agent: SimAgent, ref: common_pb2.TaskRef, said: object) -> None:
        """A frame of an agent goes out to whoever is the orchestrator when it arrives."""
        again = isinstance(said, (inp.ResultIn, inp.DelegateIn, inp.BudgetRequestIn))
        if self.dice.fault("frame of an agent lost", 0.02) and again:
            return  # it is kept, and sent again
        wait = max(0.0, agent.frozen_until - self.loop.time())
        for _ in range(2 if self.dice.fault("frame of an agent doubled", 0.03) else 1):
            self.later(wait + self.dice.delay(0.005), lambda: self._arrive(agent, ref, said))

    def _arrive(self, agent: SimAgent, ref: common_pb2.TaskRef, said: object) -> None:
        if self.transport is not None:
            self.transport.heard(agent, ref, said)

    def crash_agent(self, name: str) -> None:
        """kill -9; a new instance takes its place a little later."""
        agent = self.agents.pop(name)
        agent.crash()
        if self.transport is not None:
            transport = self.transport
            self.later(0.5 + self.dice.delay(0.5), lambda: transport.lose_all(name))
        self.later(0.5 + self.dice.delay(1.0), lambda: self.add_agent(agent.role, agent.others))

    def freeze_agent(self, name: str) -> None:
        """SIGSTOP for longer than the silence limit, then SIGCONT: a zombie that believes in its tasks."""
        self.agents[name].frozen_until = self.loop.time() + self.dice.random.uniform(2.5, 6.0)
        if self.transport is not None:
            transport = self.transport
            self.later(2.2, lambda: transport.lose_all(name))

    async def start_orchestrator(self) -> None:
        """A new process: it claims every run that is open."""
        number = self.dice.random.getrandbits(32)
        ids = iter(range(1, 1_000_000))
        runs = Runs(
            owner=f"o{number:x}", clock=self.clock, journal=self.journal, new_id=lambda: f"r{number:x}-{next(ids)}"
        )
        self.transport, self.runs = SimTransport(self, runs), runs
        runs.start(self.transport)
        self.ownership = Ownership(
            self.journal,
            runs,
            new_owner=lambda: f"o{self.dice.random.getrandbits(32):x}",
            monotonic=self.clock.monotonic,
            jitter=lambda: self.dice.delay(0.05),
        )
        await self.ownership.start()
        runs.claimed()

    async def crash_orchestrator(self, *, zombie: bool) -> None:
        """kill -9 and a restart. A zombie goes on beside its successor, until it finds that it was deposed."""
        transport, ownership = self.transport, self.ownership
        assert transport is not None and ownership is not None
        if zombie:
            self.later(self.dice.random.uniform(0.2, 3.0), lambda: _spawn(_kill(transport, ownership)))
        else:
            await _kill(transport, ownership)
        self.transport = self.runs = None
        await asyncio.sleep(self.dice.delay(0.3))
        await self.start_orchestrator()


def _spawn(work: Coroutine[Any, Any, None]) -> None:
    asyncio.ensure_future(work)


async def _kill(transport: SimTransport, ownership: Ownership) -> None:
    transport.dead = True
    await ownership.stop()
    await transport.runs.stop()


def _copy(ref: common_pb2.TaskRef) -> common_pb2.TaskRef:
    return common_pb2.TaskRef(task_id=ref.task_id, run_id=ref.run_id, attempt=ref.attempt, epoch=ref.epoch)
