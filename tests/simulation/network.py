"""The network between replicas and agents: streams that delay, double, break, and go silent one way or both.

The real session code runs at both ends. Simulated are the stream between them and the heartbeat: instead of sending
it, the network checks twice a second which end could have received it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from archon import status
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_services.orchestrator.sessions.heartbeat import Silent
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
    """All streams. `cut_down` and `cut_up`: the time since which no message passes from a replica to an agent, and
    back."""

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
        """Creates a stream for a session of the current process."""
        process = PROCESS.get()
        replica = next(replica for replica in self.replicas.values() if replica.process is process)
        return SimStream(self, replica, **arguments)

    def cut(self, pair: Pair, *, down: bool, up: bool) -> None:
        """Cuts the connection in one or both directions: messages wait."""
        if down:
            self.cut_down.setdefault(pair, self.loop.now)
        if up:
            self.cut_up.setdefault(pair, self.loop.now)
        for wire in self.wires:
            if wire.pair == pair and down:
                wire.session._heard = self.loop.now

    def heal(self, pair: Pair) -> None:
        """Heals the connection and delivers the messages that waited."""
        self.cut_down.pop(pair, None)
        self.cut_up.pop(pair, None)
        for wire in list(self.wires):
            if wire.pair == pair:
                wire.healed()

    def mute_since(self, pair: Pair, agent: SimAgent) -> float | None:
        """Returns the time since which a replica receives nothing from an agent, or None if it does."""
        if pair not in self.cut_down and pair not in self.cut_up:
            return agent.process.halted_at if agent.process.halted else None
        times = [cuts[pair] for cuts in (self.cut_down, self.cut_up) if pair in cuts]
        if agent.process.halted:
            times.append(agent.process.halted_at)
        return min(times)


class SimStream(Stream):
    """The orchestrator's end of a stream."""

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
            raise Unavailable(f"{self._instance_id} did not answer Open")
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
        """Applies the silence limit, counted from `since` at the earliest, and sends a heartbeat if it would carry a
        frame or an acknowledgement."""
        wire = self.wire
        if wire is None or wire.ended.done():
            return
        mute = wire.mute_since
        if mute is not None and self._network.loop.now - max(mute, since, wire.began) > SILENCE:
            wire.broken(Silent(f"{self._instance_id} was silent for {SILENCE:g} s"))
            return
        waits = len(self.queue) or any(
            attempt.channel.ack_owed and attempt.session is wire.session for attempt in wire.agent.server.attempts
        )
        if waits:
            self.queue.put(session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=1)))


class Wire:
    """A stream: each direction keeps its order. `ended` has the result that its orchestrator receives."""

    def __init__(self, network: Network, replica: Replica, agent: SimAgent, stream: SimStream) -> None:
        self._network = network
        self._replica = replica
        self.agent = agent
        self._stream = stream
        self.pair = (replica.name, agent.instance_id)
        self.began = network.loop.now
        self.ended: asyncio.Future[None] = network.loop.create_future()
        self.session = agent.server.stream_began()
        self.session._heard = float("inf")  # the network applies the silence limit instead
        self._writer = agent.process.start(self._write())
        self._gone_at: float | None = None
        self._waiting_down: list[bytes] = []
        self._waiting_up: list[bytes] = []
        self._last_down = self._last_up = 0.0
        network.wires.append(self)

    async def _write(self) -> None:
        """Sends the agent's frames, as its servicer does."""
        session = self.session
        try:
            while message := await session.queue.batch():
                for frame in agent_service_pb2.SessionResponse.FromString(message).frames:
                    self._network.leaving.sent(frame)
                self.to_replica(message)
            error: ArchonError | None = session.error
            if session.queue.overflowed:
                error = ResourceExhausted("the orchestrator does not read its messages", retry_delay=1.0)
            self._replica.process.later(self._delay(), self.broken, error)
        finally:
            self._gone_at = self._network.loop.now if self._gone_at is None else self._gone_at
            self.agent.server.stream_ended(session)

    def _delay(self) -> float:
        return self._network.dice.delay(0.003)

    @property
    def mute_since(self) -> float | None:
        """The time since which the replica receives nothing on this stream, because of the network or because the agent
        has ended it."""
        times = [self._network.mute_since(self.pair, self.agent), self._gone_at]
        return min((time for time in times if time is not None), default=None)

    @property
    def quiet_since(self) -> float:
        """The time at which the last message arrives: on a new stream a stop waits for the replies to earlier
        messages."""
        return max(self._last_down, self._last_up)

    def to_agent(self, message: bytes) -> None:
        """Delivers a message after all earlier ones. If it is lost the stream is lost too."""
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
        """Delivers a message to the replica, like `to_agent`."""
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
        """Sends the messages that waited for the network."""
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
                self.agent.receive(self.session, frame)
        except ArchonError as error:
            self.session.end(error)

    def _at_replica(self, message: bytes) -> None:
        if not self.ended.done():
            self._stream._message(message)

    def broken(self, error: BaseException | None) -> None:
        """Ends the stream for the orchestrator."""
        if not self.ended.done():
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(status.as_error(error))

    def _reset(self) -> None:
        """Breaks the connection; each end notices after its own delay."""
        self._replica.process.later(self._delay(), self.broken, Unavailable("the connection was reset"))
        self.agent.process.later(self._delay(), self.hang_up_there)

    def died(self, whose: SimAgent | Replica) -> None:
        """Closes the connection of a process that died; the other end notices."""
        if whose is self.agent:
            self._replica.process.later(self._delay(), self.broken, Unavailable("the connection was reset"))
        else:
            self.agent.process.later(self._delay(), self.hang_up_there)

    def hang_up(self) -> None:
        """Closes the stream for the orchestrator; the agent notices when it can be reached."""
        if self in self._network.wires:
            self._network.wires.remove(self)
        if self.pair not in self._network.cut_down:
            self.agent.process.later(self._delay(), self.hang_up_there)
        else:
            self.agent.process.later(10.0 + self._delay(), self.hang_up_there)

    def hang_up_there(self) -> None:
        """Ends the stream for the agent."""
        if self._gone_at is None:
            self._gone_at = self._network.loop.now
            self.session.queue.close()
            self._writer.cancel()
