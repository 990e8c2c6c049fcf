"""What a session knows of one attempt that its instance holds."""

from __future__ import annotations

from collections.abc import Callable

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.frames import Channel

Key = tuple[str, int]


def key_of(ref: common_pb2.TaskRef) -> Key:
    """(task, attempt)."""
    return ref.task_id, ref.attempt


class Binding:
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

    @property
    def ref(self) -> common_pb2.TaskRef:
        return self.channel.ref


class FrameReceipt:
    """Waits for the append that a frame caused; then the agent may forget the frame, and `done` is called."""

    def __init__(
        self,
        binding: Binding,
        sequence: int,
        send: Callable[[session_pb2.OrchestratorFrame], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._binding = binding
        self._sequence = sequence
        self._send = send
        self._done = done

    def accept(self) -> None:
        """The event is durable: an ack."""
        self._binding.channel.apply(self._sequence)
        self._send(self._binding.channel.stamp(session_pb2.OrchestratorFrame(), sequenced=False))
        self._done()

    def discard(self, reason: str) -> None:
        """The result didn't count: an ack that says so."""
        self._binding.channel.apply(self._sequence)
        name = "ERROR_REASON_" + reason
        known = name in failure_pb2.ErrorReason.keys()  # noqa: SIM118 - an enum wrapper, no dict
        told = session_pb2.Discarded(
            reason=failure_pb2.ErrorReason.Value(name) if known else failure_pb2.ERROR_REASON_ABORTED,
            message=f"the result of attempt {self._binding.ref.attempt} came too late",
        )
        self._send(self._binding.channel.stamp(session_pb2.OrchestratorFrame(discarded=told), sequenced=False))
        self._done()
