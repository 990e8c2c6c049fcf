"""One attempt that an instance holds: its frame channel, and its state in the session."""

from __future__ import annotations

from typing import Protocol

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.frames import Channel
from archon_services.orchestrator.sessions.in_flight import InFlight

Key = tuple[str, int]
"""Task id and attempt number."""


def key_of(ref: common_pb2.TaskRef) -> Key:
    return ref.task_id, ref.attempt


class Timer(Protocol):
    """A call that is made later unless it is cancelled."""

    def cancel(self) -> None: ...


class AttemptChannel:
    """The frames of an attempt. A frame of the instance is acked only when its event is durable."""

    def __init__(self, ref: common_pb2.TaskRef, role: str, in_flight: InFlight) -> None:
        self.channel: Channel[session_pb2.OrchestratorFrame] = Channel(ref, ack_at_once=False)
        self.ref = self.channel.ref
        """Of the reference only the epoch changes."""
        self.key: Key = key_of(ref)
        self.run_id = ref.run_id
        self.role = role
        self.records: list[agent_pb2.CallRecord] = []
        """Calls that came ahead of a frame that is stored."""
        self.record_bytes = 0
        self.records_timer: Timer | None = None
        """Has the records stored if no such frame comes soon."""
        self.held = 0
        """Bytes of its frames that are not durable yet, and count as in flight."""
        self.unclaimed = 0
        """The part of `held` that no receipt releases yet."""
        self._in_flight = in_flight
        self.concluded = False
        """True after the result or reject: the attempt no longer uses credit."""
        self.sent = 0
        """Messages to other agents that it has sent on this stream's attempt."""
        self.outstanding: set[str] = set()
        """Ids of the delegations that have no answer yet."""
        self.waiting = False
        """True while the attempt only waits for its delegations and uses no slot."""
        self.adopting = False
        """True for an attempt of an earlier owner, until its agent reports how many frames it has applied."""
        self.released = False
        """True if the earlier owner stopped on purpose."""
        self.offered = False
        """True for a parked result that the agent offers unasked; if it is not accepted, it is offered again."""

    @classmethod
    def of_offer(cls, frame: session_pb2.AgentFrame, role: str, in_flight: InFlight) -> AttemptChannel:
        """Creates the channel from the first frame of an offered result."""
        attempt = cls(frame.task, role, in_flight)
        attempt.offered = attempt.concluded = True
        attempt.channel.received = max(0, frame.sequence - 1)
        return attempt

    def charge(self, size: int) -> None:
        """Counts a frame as in flight; the receipt that is made next releases it."""
        self.held += size
        self.unclaimed += size
        self._in_flight.add(size)

    @property
    def in_part(self) -> bool:
        """True as long as no frame of it is on its way to the journal."""
        return self.held == self.unclaimed

    def claim(self) -> int:
        """Returns the bytes that a new receipt is to release."""
        size, self.unclaimed = self.unclaimed, 0
        return size

    def release(self, size: int) -> None:
        """Frames have become durable, or were dropped."""
        if size > self.held:
            size = self.held
        if size:
            self.held -= size
            self._in_flight.release(size)

    def take_records(self) -> tuple[agent_pb2.CallRecord, ...]:
        """Returns the records that came ahead of a frame; the attempt keeps none of them."""
        if self.records_timer is not None:
            self.records_timer.cancel()
            self.records_timer = None
        if not self.records:
            return ()
        records, self.records, self.record_bytes = tuple(self.records), [], 0
        return records

    def offered_again(self, sequence: int) -> bool:
        """Whether the offer begins anew with the frame of this sequence number: it may have come in part, and the
        instance offers the frames not acked by then, from an earlier frame on or a later one."""
        return self.offered and sequence > self.channel.applied and sequence != self.channel.received + 1
