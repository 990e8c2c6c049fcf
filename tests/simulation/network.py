"""The network between replicas and agents: streams that delay, double, break, and go silent one way or both.

A session's own code runs at both ends. What is simulated is the stream between them, and the beat: it is looked at
twice a second who could have heard whom, instead of sending it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from archon import status
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_services.orchestrator.sessions.stream import Stream
from tests.simulation.faults import Dice
from tests.simulation.leaving import Leaving
from tests.simulation.loop import PROCESS, VirtualLoop

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent
    from tests.simulation.replica import Replica

BEAT = 0.5
SLIP = 0.5
SILENCE = 2.0
Pair = tuple[str, str]


class Network:
    """`cut_down` and `cut_up`: since when nothing gets from a replica to an agent, and back."""

    def __init__(self, dice: Dice, loop: VirtualLoop, leaving: Leaving) -> None:
        self.dice = dice
        self.loop = loop
        self.leaving = leaving
        self.agents: dict[str, SimAgent] = {}
        self.replicas: dict[int, Replica] = {}
        self.wires: list[Wire] = []
        self.cut_down: dict[Pair, float] = {}
        self.cut_up: dict[Pair, float] = {}

    def stream(self, **arguments: Any) -> SimStream:
        """What a session makes its streams with."""
        process = PROCESS.get()
        replica = next(one for one in self.replicas.values() if one.process is process)
        return SimStream(self, replica, **arguments)

    def cut(self, pair: Pair, *, down: bool, up: bool) -> None:
        """Nothing passes any more; what is sent waits."""
        if down:
            self.cut_down.setdefault(pair, self.loop.now)
        if up:
            self.cut_up.setdefault(pair, self.loop.now)
        for wire in self.wires:
            if wire.pair == pair and down:
                wire.session._heard = self.loop.now

    def heal(self, pair: Pair) -> None:
        """What waited is delivered now."""
        self.cut_down.pop(pair, None)
        self.cut_up.pop(pair, None)
        for wire in list(self.wires):
            if wire.pair == pair:
                wire.healed()

    def mute_since(self, pair: Pair, agent: SimAgent) -> float | None:
        """Since when a replica hears nothing of an agent; None: it hears."""
        if pair not in self.cut_down and pair not in self.cut_up:
            return agent.process.halted_at if agent.process.halted else None
        times = [one[pair] for one in (self.cut_down, self.cut_up) if pair in one]
        if agent.process.halted:
            times.append(agent.process.halted_at)
        return min(times)


class SimStream(Stream):
    """The orchestrator's end."""

    def __init__(self, network: Network, replica: Replica, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._network = network
        self._replica = replica
        self.wire: Wire | None = None

    async def serve(self, address: str, *, fresh: bool) -> None:
        network, replica = self._network, self._replica
        await asyncio.sleep(network.dice.delay(0.002))
        agent = network.agents.get(address)
        if agent is None or agent.process.dead:
            raise Unavailable(f"{address} refuses connections")
        if network.mute_since((replica.name, address), agent) is not None:
            await asyncio.sleep(self._limits.open_timeout)
            raise Unavailable(f"{self._instance_id} didn't answer Open")
        self.wire = wire = Wire(network, replica, agent, self)
        writer = asyncio.create_task(self._write(wire))
        try:
            await wire.ended
        finally:
            self.queue.close()
            writer.cancel()
            wire.hang_up()
        raise self._ended or Unavailable(f"{self._instance_id} ended the session")

    async def _write(self, wire: Wire) -> None:
        async for message in self._requests():
            for frame in agent_service_pb2.SessionRequest.FromString(message).frames:
                self._network.leaving.left(self._replica.view.lease_end, self._replica, self._instance_id, frame)
            wire.to_agent(message)
        if self._ended is not None:
            wire.broken(self._ended)

    def beat(self, since: float) -> None:
        """The silence limit; and a beat, where it would carry or call for something. `since`: nothing is counted from
        before."""
        wire = self.wire
        if wire is None or wire.ended.done():
            return
        mute = wire.mute_since
        if mute is not None and self._network.loop.now - max(mute, since, wire.began) > SILENCE:
            wire.broken(self._silence())
            return
        waits = len(self.queue) or any(
            held.channel.ack_owed and held.session is wire.session for held in wire.agent.server.attempts
        )
        if waits:
            self.queue.put(session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=1)))


class Wire:
    """One stream: both directions, each in order. `ended` is what its orchestrator finds out at last."""

    def __init__(self, network: Network, replica: Replica, agent: SimAgent, stream: SimStream) -> None:
        self._network = network
        self._replica = replica
        self.agent = agent
        self._stream = stream
        self.pair = (replica.name, agent.instance_id)
        self.began = network.loop.now
        self.ended: asyncio.Future[None] = network.loop.create_future()
        self.session = agent.server.stream_began()
        self.session._heard = float("inf")  # it is looked at who could have been heard
        self._writer = agent.process.start(self._write())
        self._gone_at: float | None = None
        self._waiting_down: list[bytes] = []
        self._waiting_up: list[bytes] = []
        self._last_down = self._last_up = 0.0
        network.wires.append(self)

    async def _write(self) -> None:
        """The agent's end, as its servicer has it."""
        session = self.session
        try:
            while message := await session.queue.batch():
                for frame in agent_service_pb2.SessionResponse.FromString(message).frames:
                    self._network.leaving.said(frame)
                self.to_replica(message)
            error: ArchonError | None = session.error
            if session.queue.overflowed:
                error = ResourceExhausted("the orchestrator doesn't read what it is sent", retry_delay=1.0)
            self._replica.process.later(self._delay(), self.broken, error)
        finally:
            self._gone_at = self._network.loop.now if self._gone_at is None else self._gone_at
            self.agent.server.stream_ended(session)

    def _delay(self) -> float:
        return self._network.dice.delay(0.003)

    @property
    def mute_since(self) -> float | None:
        """As the network's; nor does anything come once the agent has found that it is over."""
        times = [self._network.mute_since(self.pair, self.agent), self._gone_at]
        return min((one for one in times if one is not None), default=None)

    @property
    def quiet_since(self) -> float:
        """When the last message arrives: a stop waits for the answer to what was asked before it, where a stream is new."""
        return max(self._last_down, self._last_up)

    def to_agent(self, message: bytes) -> None:
        """It arrives after all that was sent before; where it is lost the stream is, too."""
        network = self._network
        if self._gone_at is not None or self.ended.done():
            return
        if network.dice.fault("stream to an agent lost", 0.004):
            self._reset()
        elif self.pair in network.cut_down:
            self._waiting_down.append(message)
        else:
            self._last_down = max(self._last_down, network.loop.now + self._delay())
            self._at(self._last_down, self.agent, self._at_agent, message)
            if self.session.orchestrator_id and network.dice.fault("message to an agent doubled", 0.01):
                self._at(self._last_down + network.dice.random.random(), self.agent, self._at_agent, message)

    def to_replica(self, message: bytes) -> None:
        """As `to_agent`, the other way."""
        network = self._network
        if self._gone_at is not None or self.ended.done():
            return
        if network.dice.fault("stream of an agent lost", 0.004):
            self._reset()
        elif self.pair in network.cut_up:
            self._waiting_up.append(message)
        else:
            self._last_up = max(self._last_up, network.loop.now + self._delay())
            self._at(self._last_up, self._replica, self._at_replica, message)
            if self._stream._ready and network.dice.fault("message of an agent doubled", 0.01):
                self._at(self._last_up + network.dice.random.random(), self._replica, self._at_replica, message)

    def _at(self, when: float, where: SimAgent | Replica, what: Any, message: bytes) -> None:
        self._network.loop.call_at(when, what, message, context=where.process.context)

    def healed(self) -> None:
        """The network is whole again."""
        self.session._heard = float("inf")
        down, self._waiting_down = self._waiting_down, []
        up, self._waiting_up = self._waiting_up, []
        for message in down:
            self.to_agent(message)
        for message in up:
            self.to_replica(message)

    def _at_agent(self, message: bytes) -> None:
        if self._gone_at is not None or self.session.queue.closed:
            return
        try:
            for frame in agent_service_pb2.SessionRequest.FromString(message).frames:
                self.agent.hears(self.session, frame)
        except ArchonError as error:
            self.session.end(error)

    def _at_replica(self, message: bytes) -> None:
        if not self.ended.done():
            self._stream._message(message)

    def broken(self, error: BaseException | None) -> None:
        """The orchestrator finds that it is over."""
        if not self.ended.done():
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(status.as_error(error))

    def _reset(self) -> None:
        """The connection breaks: both ends find out, each in its time."""
        self._replica.process.later(self._delay(), self.broken, Unavailable("the connection was reset"))
        self.agent.process.later(self._delay(), self.hang_up_there)

    def died(self, whose: SimAgent | Replica) -> None:
        """The machine closes the connections of a process that died."""
        if whose is self.agent:
            self._replica.process.later(self._delay(), self.broken, Unavailable("the connection was reset"))
        else:
            self.agent.process.later(self._delay(), self.hang_up_there)

    def hang_up(self) -> None:
        """The orchestrator has closed it; the agent hears of it where it can hear."""
        if self in self._network.wires:
            self._network.wires.remove(self)
        if self.pair not in self._network.cut_down:
            self.agent.process.later(self._delay(), self.hang_up_there)
        else:
            self.agent.process.later(10.0 + self._delay(), self.hang_up_there)

    def hang_up_there(self) -> None:
        """The agent finds that it is over."""
        if self._gone_at is None:
            self._gone_at = self._network.loop.now
            self.session.queue.close()
            self._writer.cancel()
