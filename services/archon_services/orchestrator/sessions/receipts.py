"""Receipts of frames about an attempt: the agent hears of its frame once the append that it caused is durable."""

from __future__ import annotations

from collections.abc import Callable

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.frames import SUPERSEDED, OutgoingFrame, orchestrator_content
from archon_services.orchestrator.sessions.attempt_channel import AttemptChannel


class FrameReceipt:
    """Acks a frame of an attempt once the append that it caused is durable, then calls `done` with the attempt."""

    __slots__ = ("_attempt", "_done", "_send", "_sequence", "size")

    def __init__(
        self,
        attempt: AttemptChannel,
        sequence: int,
        send: Callable[[OutgoingFrame], None],
        done: Callable[[AttemptChannel], None] = lambda attempt: None,
    ) -> None:
        self._attempt = attempt
        self._sequence = sequence
        self._send = send
        self._done = done
        self.size = attempt.claim()
        """Bytes of the frames that it releases."""

    def accept(self, epoch: int = 0) -> None:
        self._ack(b"", epoch)

    def discard(self, reason: str, epoch: int = 0) -> None:
        name = "ERROR_REASON_" + reason
        known = name in failure_pb2.ErrorReason.keys()  # noqa: SIM118 - an enum wrapper, no dict
        discarded = session_pb2.Discarded(
            reason=failure_pb2.ErrorReason.Value(name) if known else failure_pb2.ERROR_REASON_ABORTED,
            message=f"the result of attempt {self._attempt.ref.attempt} came too late",
        )
        self._ack(orchestrator_content("discarded", discarded), epoch)

    def _ack(self, content: bytes, epoch: int) -> None:
        # An offered result carries the epoch of its dispatch, which may be lower than the owner's.
        attempt = self._attempt
        if epoch > attempt.ref.epoch:
            attempt.ref.epoch = epoch
        attempt.channel.apply(self._sequence)
        attempt.release(self.size)
        self._send(attempt.channel.stamp(content, sequenced=False))
        self._done(attempt)


class StopReceipt:
    """Orders an attempt that this session does not hold to stop, if its frame is discarded: nothing will answer it."""

    def __init__(self, ref: common_pb2.TaskRef, cancel: Callable[[common_pb2.TaskRef, str], None]) -> None:
        self._ref = ref
        self._cancel = cancel

    def accept(self, epoch: int = 0) -> None:
        """Does nothing: the owner of the run answers."""

    def discard(self, reason: str, epoch: int = 0) -> None:
        self._ref.epoch = max(self._ref.epoch, epoch)
        self._cancel(self._ref, "the run is over" if reason == "UNKNOWN_RUN" else SUPERSEDED)


class LossReceipt:
    """Orders a lost attempt to stop, once the loss is durable or the run is over."""

    def __init__(self, ref: common_pb2.TaskRef, stop: Callable[[common_pb2.TaskRef], None]) -> None:
        self._ref = ref
        self._stop = stop

    def accept(self, epoch: int = 0) -> None:
        self._ref.epoch = max(self._ref.epoch, epoch)
        self._stop(self._ref)

    def discard(self, reason: str, epoch: int = 0) -> None:
        self.accept(epoch)
