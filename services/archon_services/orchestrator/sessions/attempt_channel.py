"""What a session knows of one attempt that its instance holds."""

from __future__ import annotations

from collections.abc import Callable

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.frames import Channel, OutgoingFrame, orchestrator_content

Key = tuple[str, int]


def key_of(ref: common_pb2.TaskRef) -> Key:
    """(task, attempt)."""
    return ref.task_id, ref.attempt


class AttemptChannel:
    """Frames of the instance are applied when their event is durable: only then are they acked."""

    def __init__(self, ref: common_pb2.TaskRef, role: str) -> None:
        self.channel: Channel[session_pb2.OrchestratorFrame] = Channel(ref, ack_at_once=False)
        self.role = role
        self.records: list[agent_pb2.CallRecord] = []
        self.concluded = False
        """True once a result or reject came: it counts against no window any more."""
        self.outstanding: set[str] = set()
        """Delegations that it has no answer to yet."""
        self.waiting = False
        """True while it only waits for them."""
        self.unknown = False
        """True for an attempt of an earlier owner until its agent says how many frames it has taken."""

        self.offered = False
        """True for a parked result that nobody here asked for: where nothing comes of it, it is offered again."""

    @property
    def ref(self) -> common_pb2.TaskRef:
        return self.channel.ref

    @classmethod
    def of_offer(cls, frame: session_pb2.AgentFrame, role: str) -> AttemptChannel:
        """For the first frame of what an agent offers."""
        binding = cls(frame.task, role)
        binding.offered = binding.concluded = True
        binding.channel.received = max(0, frame.sequence - 1)
        return binding

    def offered_again(self, sequence: int) -> bool:
        """Whether an offer begins anew with this frame."""
        return self.offered and self.channel.applied < sequence <= self.channel.received


class FrameReceipt:
    """Waits for the append that a frame caused; then the agent may forget the frame, and `done` is called."""

    def __init__(
        self,
        binding: AttemptChannel,
        sequence: int,
        send: Callable[[OutgoingFrame], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._binding = binding
        self._sequence = sequence
        self._send = send
        self._done = done

    def accept(self, epoch: int = 0) -> None:
        """The event is durable: an ack."""
        self._speak_as(epoch)
        self._binding.channel.apply(self._sequence)
        self._send(self._binding.channel.stamp(b"", sequenced=False))
        self._done()

    def discard(self, reason: str, epoch: int = 0) -> None:
        """The result didn't count: an ack that says so."""
        self._speak_as(epoch)
        self._binding.channel.apply(self._sequence)
        name = "ERROR_REASON_" + reason
        known = name in failure_pb2.ErrorReason.keys()  # noqa: SIM118 - an enum wrapper, no dict
        told = session_pb2.Discarded(
            reason=failure_pb2.ErrorReason.Value(name) if known else failure_pb2.ERROR_REASON_ABORTED,
            message=f"the result of attempt {self._binding.ref.attempt} came too late",
        )
        self._send(self._binding.channel.stamp(orchestrator_content("discarded", told), sequenced=False))
        self._done()

    def _speak_as(self, epoch: int) -> None:
        """Of a result that nobody asked for the agent names the epoch that it was given the task in."""
        self._binding.ref.epoch = max(self._binding.ref.epoch, epoch)


class StopReceipt:
    """Of what an attempt says or asks that isn't bound here: where nobody will answer it is told to stop."""

    def __init__(self, ref: common_pb2.TaskRef, cancel: Callable[[common_pb2.TaskRef, str], None]) -> None:
        self._ref = ref
        self._cancel = cancel

    def accept(self, epoch: int = 0) -> None:
        """Its owner answers."""

    def discard(self, reason: str, epoch: int = 0) -> None:
        """It is over."""
        self._ref.epoch = max(self._ref.epoch, epoch)
        self._cancel(self._ref, "superseded")


class LossReceipt:
    """Of an attempt that is lost: once that is durable, or its run is over, its instance is to stop it."""

    def __init__(self, ref: common_pb2.TaskRef, stop: Callable[[common_pb2.TaskRef], None]) -> None:
        self._ref = ref
        self._stop = stop

    def accept(self, epoch: int = 0) -> None:
        """It is."""
        self._ref.epoch = max(self._ref.epoch, epoch)
        self._stop(self._ref)

    def discard(self, reason: str, epoch: int = 0) -> None:
        """Its run is over."""
        self.accept(epoch)
