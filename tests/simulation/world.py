"""The simulated mesh: replicas of the orchestrator, agents, one journal, and the faults that can hit them."""

from __future__ import annotations

import asyncio
from itertools import count

from archon.errors import ArchonError, Unavailable
from archon.registry import Registration
from archon_services.orchestrator.runs.manager import Runs
from tests.simulation.agents import SimAgent
from tests.simulation.check import Check
from tests.simulation.faults import Dice
from tests.simulation.leaving import Leaving
from tests.simulation.loop import PROCESS, VirtualLoop
from tests.simulation.messages import Exchanges
from tests.simulation.network import Network
from tests.simulation.replica import Replica
from tests.simulation.store import WALL, SharedStore
from tests.simulation.work import MemoryService


class World:
    """A simulated mesh. `check` receives all that is stored and sent."""

    def __init__(
        self,
        dice: Dice,
        loop: VirtualLoop,
        *,
        stateful: bool = False,
        plans: bool = False,
        people: bool = False,
        alignment: bool = False,
        joins: bool = False,
        messages: bool = False,
        auctions: bool = False,
        work: bool = False,
    ) -> None:
        self.dice = dice
        self.stateful = stateful
        self.plans = plans
        self.people = people
        self.alignment = alignment
        self.joins = joins
        self.messages = messages
        self.auctions = auctions
        self.work = work
        self.exchanges = Exchanges()
        self.memory = MemoryService(dice, loop)
        self.loop = loop
        self.check = Check(loop)
        self.store = SharedStore(self.check)
        self.network = Network(dice, loop, Leaving(self.check))
        self.registered: dict[str, Registration] = {}
        self.replicas = self.network.replicas
        self.agents = self.network.agents
        self.troubled_at = 0.0
        """The time of the last fault of a replica or the journal, in virtual seconds."""

        self._ids, self._names, self._owners = count(1), count(1), count(1)
        self._jumped: dict[str, float] = {}
        """The error of the wall clock by process, in seconds."""

        self._wrong: dict[int, float] = {}
        """The error of the wall clock by slot, in seconds."""

    def new_id(self) -> str:
        """Returns a new run id."""
        return f"r{next(self._ids)}"

    def new_owner(self) -> str:
        """Returns a new incarnation id."""
        return f"o{next(self._owners)}"

    def wall(self) -> float:
        """Returns the wall clock of the calling process's machine, in seconds."""
        process = PROCESS.get()
        return WALL + self.loop.now + (self._jumped.get(process.name, 0.0) if process is not None else 0.0)

    def jump(self, replica: Replica, seconds: float) -> None:
        """Sets the wall clock of a replica's machine wrong, also for later processes in its slot."""
        self._jumped[replica.process.name] = self._wrong[replica.slot] = seconds

    def boots(self, replica: Replica) -> None:
        """Gives a new process the wall clock of its slot's machine."""
        self._jumped[replica.process.name] = self._wrong.get(replica.slot, 0.0)

    def at(self, address: str) -> Replica:
        """Returns the replica at an address. Raises Unavailable if it does not answer."""
        for replica in self.replicas.values():
            if replica.name == address and replica.up:
                return replica
        raise Unavailable(f"no replica answers at {address}")

    @property
    def serving(self) -> list[Replica]:
        """The replicas that answer callers."""
        return [replica for replica in self.replicas.values() if replica.up]

    @property
    def runs(self) -> Runs:
        """The runs of the first replica."""
        return self.replicas[0].runs

    def add_agent(self, role: str, others: tuple[str, ...] = ()) -> SimAgent:
        """Starts and registers a new instance."""
        agent = SimAgent(self, f"{role}-{next(self._names)}", role, others)
        self.agents[agent.instance_id] = agent
        self.register(agent)
        return agent

    def register(self, agent: SimAgent) -> None:
        """Registers an instance; all replicas learn of it after a delay."""
        if self.registered.get(agent.instance_id) is None:
            self.registered[agent.instance_id] = agent.server.registration
            self._tell()

    def unregister(self, agent: SimAgent) -> None:
        """Removes an instance whose lease has expired."""
        if self.registered.pop(agent.instance_id, None) is not None:
            self._tell()

    def _tell(self) -> None:
        for replica in self.replicas.values():
            replica.process.later(self.dice.delay(0.02), self._update, replica)

    def _update(self, replica: Replica) -> None:
        if replica.serves:
            gone = [instance_id for instance_id in replica.pool._sessions if instance_id not in self.registered]
            replica.pool.update(self.registered.values(), gone)

    def kill_agent(self, agent: SimAgent, *, silently: bool) -> None:
        """Kills an agent, or its machine if `silently`; another instance replaces it after a delay."""
        del self.agents[agent.instance_id]
        agent.process.kill()
        for wire in self.network.wires:
            if wire.agent is agent and not silently:
                wire.died(agent)
        self.loop.call_later(1.0 + self.dice.delay(1.0), self.unregister, agent)
        self.loop.call_later(0.5 + self.dice.delay(0.5), self.add_agent, agent.role, agent.others)

    async def stop_agents(self, until: float, times: int) -> None:
        """Stops random agents as SIGTERM does: they drain for a moment, then end. Other instances replace them."""
        for _ in range(times):
            await asyncio.sleep(self.dice.random.uniform(0.0, 2 * until / times))
            agents = [agent for agent in self.agents.values() if not agent.process.halted]
            if not agents:
                continue
            agent = self.dice.random.choice(agents)
            self.dice.fired["agent stopped on purpose"] += 1
            agent.process.later(0.0, agent.drain)
            self.loop.call_later(self.dice.delay(0.02), self.unregister, agent)
            await asyncio.sleep(self.dice.random.uniform(0.0, 0.6))
            if self.agents.get(agent.instance_id) is agent:
                self.kill_agent(agent, silently=False)

    async def start_replica(self, slot: int) -> Replica:
        """Starts a new process in a slot; retries until the journal accepts it."""
        while True:
            self.troubled_at = self.loop.now
            replica = Replica(self, slot, f"replica-{slot}-{next(self._names)}")
            self.replicas[slot] = replica
            try:
                await replica.ask(replica.start(), within=20.0)
            except ArchonError:
                replica.process.kill()
                self._close(replica)
                await asyncio.sleep(0.5)
                continue
            if not replica.process.dead:
                replica.process.later(0.0, self._update, replica)
                return replica
            await asyncio.sleep(0.1)

    def _close(self, replica: Replica) -> None:
        for wire in list(self.network.wires):
            if wire.pair[0] == replica.name:
                wire.died(replica)
                self.network.wires.remove(wire)

    async def kill_replica(self, slot: int) -> None:
        """Kills the replica in a slot and starts another after a delay."""
        self.troubled_at = self.loop.now
        replica = self.replicas[slot]
        replica.serves = False
        replica.process.kill()
        self._close(replica)
        await asyncio.sleep(0.2 + self.dice.random.random() * self.dice.random.choice([1.0, 8.0]))
        await self.start_replica(slot)

    async def freeze_replica(self, slot: int) -> None:
        """Halts and continues a replica, at times for longer than its lease: it may still believe that it owns its
        runs."""
        self.troubled_at = self.loop.now
        replica = self.replicas[slot]
        replica.process.halt()
        await asyncio.sleep(self.dice.random.choice([1.0, 4.0, 7.0]) * (0.5 + self.dice.random.random()))
        if not replica.process.dead:
            replica.process.go_on()
        self.troubled_at = self.loop.now

    async def restart_replica(self, slot: int) -> None:
        """Stops the replica in a slot gracefully and starts another."""
        self.troubled_at = self.loop.now
        replica = self.replicas[slot]
        try:
            await replica.ask(replica.stop(), within=10.0)
        except ArchonError:
            pass
        replica.process.kill()
        self._close(replica)
        await self.start_replica(slot)
