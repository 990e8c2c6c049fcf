"""A session with one instance, over a sequence of streams.

A broken stream does not lose its attempts: if the next one opens within the resume window, the instance is asked for
them. A silent instance loses them at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from archon import status
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.background import BackgroundLoop
from archon.errors import ArchonError, FrameTooLarge, MessageTooLarge, UnknownFrame, WrongInstance
from archon.frames import OutgoingFrame
from archon.registry import Registration
from archon.security.peer import ORCHESTRATOR, agent
from archon.telemetry import metrics
from archon_services.common.tenants import role_key
from archon_services.orchestrator.ports import AttemptStatus, Inbox
from archon_services.orchestrator.sessions.attempt_channel import Key
from archon_services.orchestrator.sessions.attempts import Attempts
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.dials import Dials, Place, Turn
from archon_services.orchestrator.sessions.heartbeat import Limits, Silent
from archon_services.orchestrator.sessions.in_flight import InFlight, ProcessBytes
from archon_services.orchestrator.sessions.inbound import Resolve
from archon_services.orchestrator.sessions.message_rate import MessageRate
from archon_services.orchestrator.sessions.stream import Stream
from archon_services.orchestrator.track_records.tally import Tally

__all__ = ["Limits", "Session"]

_log = logging.getLogger(__name__)

MIN_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 0.5
"""Seconds between two streams, while the attempts of a broken one may be resumed."""

MAX_REDIAL: Final = 30.0
"""Seconds between two streams to an instance that has not answered for longer."""


class Session:
    """Keeps a stream to one instance open, and holds its attempts.

    `room_changed` is called with the session whenever a slot may be free, `unneeded` with the id of an instance that is
    no longer registered when its stream has ended, `run_held` as in Attempts. `may_send` tells whether frames about
    tasks may be sent. `dials` bounds the dials of all sessions, `process_bytes` counts their bytes in flight.
    `connection_changed` is called with the session when `connected` changes.
    """

    def __init__(
        self,
        *,
        orchestrator_id: str,
        instance: Registration,
        inbox: Inbox,
        room_changed: Callable[[Session], None],
        unneeded: Callable[[str], None],
        resolve: Resolve,
        may_send: Callable[[], bool],
        limits: Limits,
        process_bytes: ProcessBytes | None = None,
        dials: Dials | None = None,
        connection_changed: Callable[[Session], None] = lambda session: None,
        run_held: Callable[[str, bool], None] = lambda run_id, held: None,
    ) -> None:
        self.instance = instance
        self.instance_id = instance.instance_id
        self.role = role = instance.role
        self.role_key = role_key(instance.tenant, role)
        self.registered = True
        self.reserved = 0
        self.factor = 1.0
        """Factor by which its record makes its load count less or more in a placement."""

        self.record: Tally | None = None
        """The record that the factor follows from."""

        self.placed = 0
        """The placement of its role by which it received its last task, while the records of the role differ."""

        self.draining = False
        self.leaving = False
        """True once the instance has announced that it stops: it loses no attempts from then on, it gives them back."""

        self._connected = False
        self._credit = CreditWindow(self.changed, self._room_to_continue)
        self._in_flight = InFlight(process_bytes or ProcessBytes())
        self._attempts = Attempts(
            self.instance_id,
            role,
            inbox,
            self._send,
            self._credit,
            self._halve_window,
            resolve,
            self._in_flight,
            run_held,
        )
        self._orchestrator_id = orchestrator_id
        self._room_changed = room_changed
        self._unneeded = unneeded
        self._may_send = may_send
        self._limits = limits
        self._dials = dials or Dials()
        self._connection_changed = connection_changed
        self._answered = False
        """True once the instance has answered Open."""

        self._place: Place | None = None
        self._redial_now = asyncio.Event()
        self._rate = MessageRate()
        self._window = 0
        self._stream: Stream | None = None
        self._fresh = False
        self._loop = BackgroundLoop(f"session with {self.instance_id}", self._run, backoff_max=1.0)

    def start(self) -> None:
        """Keeps a stream open in the background, until `close`."""
        self._loop.start()

    async def close(self) -> None:
        """Ends the stream. The attempts are neither stopped nor lost: the journal has them. Idempotent."""
        await self._loop.close(timeout=2.0)
        self._in_flight.close()

    @property
    def connected(self) -> bool:
        """Whether the instance has answered on the current stream."""
        return self._connected

    @connected.setter
    def connected(self, connected: bool) -> None:
        if connected != self._connected:
            self._connected = connected
            self._connection_changed(self)

    @property
    def room(self) -> int:
        """The number of free slots."""
        return self._window - self._credit.in_flight - self.reserved if self._connected else 0

    @property
    def used(self) -> int:
        """The number of used slots."""
        return self._credit.in_flight + self.reserved

    def _room_to_continue(self) -> int:
        """The free slots for attempts that continue: a draining instance finishes its attempts."""
        return 1 if self.draining else self.room

    @property
    def load(self) -> float:
        """The used part of the slots, from 0 (idle) to 1 (full)."""
        return (self._credit.in_flight + self.reserved) / self._window if self._window else 1.0

    @property
    def idle(self) -> bool:
        """True if it holds no attempts."""
        return not len(self._attempts)

    def has_feature(self, name: str) -> bool:
        """Whether both sides support a feature; False before the first stream has opened."""
        return self._attempts.has_feature(name)

    @property
    def runs(self) -> Iterable[str]:
        """The ids of the runs that its attempts belong to."""
        return self._attempts.runs

    @property
    def stale(self) -> OrderedDict[Key, common_pb2.TaskRef]:
        """The attempts that the instance has to stop when it reconnects."""
        return self._attempts.stale

    def assign(self, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        self._attempts.assign(ref, role, task)
        self._hurry()

    def adopt(self, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        self._attempts.adopt(ref, role, standing, connected=self.connected)
        self._hurry()

    def tell(self, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        self._attempts.tell(ref, frame)

    def cancel(self, ref: common_pb2.TaskRef, reason: str) -> None:
        self._attempts.cancel(ref, reason, connected=self.connected)

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        self._attempts.release_run(run_id, over=over)
        self.changed()

    def lose_all(self, error: ArchonError) -> None:
        self._attempts.lose_all(error, on_purpose=self.leaving)

    def changed(self) -> None:
        """Gives slots that may be free to attempts that wait to continue, then to new ones."""
        self._attempts.send_released()
        self._room_changed(self)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        broken_at = loop.time()
        backoff = MIN_BACKOFF
        failed = 0
        while True:
            try:
                await self._serve(failed)
            except asyncio.CancelledError:
                raise
            except Exception as raised:  # noqa: BLE001 - no error of a stream may leave its attempts hanging
                failed += 1
                if self.connected:
                    broken_at, backoff, failed = loop.time(), MIN_BACKOFF, 0
                self._broke(status.as_error(raised), resumable=loop.time() - broken_at <= self._limits.resume_window)
                if not self.registered:
                    self._unneeded(self.instance_id)
                    return
            if await self._pause(backoff * random.uniform(0.7, 1.0)):
                backoff, failed = MIN_BACKOFF, 0
            resumable = loop.time() - broken_at <= self._limits.resume_window
            backoff = min(MAX_BACKOFF if resumable else MAX_REDIAL, backoff * 1.5)

    async def _serve(self, failures: int) -> None:
        """Dials the instance and runs a stream until it ends; raises the reason."""
        instance, turn = self.instance, Turn(self._answered, failures)
        address = instance.dialled_at
        if failures or not self._answered:
            await self._dials.greet(address, turn, self._limits.open_timeout)
        self._place = place = await self._dials.take(turn)
        self._stream = stream = Stream(
            orchestrator_id=self._orchestrator_id,
            instance_id=self.instance_id,
            role=self.role,
            peer=agent(self.role, instance.tenant) if instance.address else ORCHESTRATOR,
            limits=self._limits,
            busy=lambda: not self.idle,
            on_ready=self._ready,
            on_frame=self._frame,
            may_send=self._may_send,
            in_flight=self._in_flight,
            on_full=self._attempts.store_records,
            rate=self._rate,
        )
        try:
            await stream.serve(address, fresh=self._fresh)
        finally:
            place.end()

    def _broke(self, error: ArchonError, *, resumable: bool) -> None:
        """The stream has ended, or was not opened. Without `resumable` its attempts are lost."""
        if self.connected:
            _log.info("session with %s broke: %s", self.instance_id, error)
        self.connected = False
        self._fresh = isinstance(error, Silent)
        gone = isinstance(error, (Silent, WrongInstance)) or not self.registered
        if isinstance(error, MessageTooLarge):
            self._attempts.fail_all(FrameTooLarge(f"a message of the instance is too large: {error.message}"))
        if gone or not resumable:
            self.lose_all(error)

    def redial(self) -> None:
        """Opens the next stream without waiting: the instance has registered anew."""
        self._redial_now.set()

    async def _pause(self, seconds: float) -> bool:
        """Waits before the next stream; returns True at once if the instance has registered anew."""
        try:
            async with asyncio.timeout(seconds):
                await self._redial_now.wait()
        except TimeoutError:
            return False
        self._redial_now.clear()
        return True

    def _hurry(self) -> None:
        if self._stream is not None:
            self._stream.hurry()

    def _send(self, frame: OutgoingFrame | session_pb2.OrchestratorFrame) -> None:
        if self._connected and self._stream is not None:
            self._stream.queue.put(frame)

    def _halve_window(self) -> None:
        self._window //= 2  # until the next credit

    def _set_credit(self, max_tasks: int, max_waiting: int) -> None:
        self._window, self._credit.max_waiting, self.draining = max_tasks, max_waiting, max_tasks == 0

    def _ready(self, ready: session_pb2.Ready) -> None:
        self.connected = self._answered = True
        if self._place is not None:
            self._place.give_back()
        self._set_credit(ready.max_tasks, ready.max_waiting)
        self._attempts.opened(ready)
        self.changed()

    def _frame(self, frame: session_pb2.AgentFrame, size: int) -> None:
        try:
            if frame.HasField("task"):
                self._attempts.frame(frame, size)
            else:
                self._session_frame(frame)
        except ArchonError as error:
            if (recorder := metrics.recorder()) is not None:
                recorder.add(metrics.FRAMES_REFUSED, (error.reason,))
            reply = session_pb2.OrchestratorFrame(failure=status.to_failure(error))
            if frame.HasField("task"):
                reply.task.CopyFrom(frame.task)
            self._send(reply)

    def _session_frame(self, frame: session_pb2.AgentFrame) -> None:
        match frame.WhichOneof("frame"):
            case "credit":
                self._set_credit(frame.credit.max_tasks, frame.credit.max_waiting)
                self.changed()
            case "drain":
                self._window, self.draining, self.leaving = 0, True, True
                self.changed()
            case "failure":
                _log.warning("%s refused a frame: %s", self.instance_id, frame.failure.message)
            case arm:
                raise UnknownFrame(f"unknown frame: {arm or 'no known field is set'}")
