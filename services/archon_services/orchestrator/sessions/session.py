"""A session with one instance, over as many streams as it takes. Losing a stream is not losing its tasks: within the
resume window they are adopted on the next one. Silence loses them at once."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from archon import status
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, UnknownFrame, WrongInstance
from archon.frames import OutgoingFrame
from archon.registry import Registration
from archon_services.orchestrator.ports import AttemptStatus, Inbox
from archon_services.orchestrator.sessions.attempt_channel import Key
from archon_services.orchestrator.sessions.attempts import Attempts
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.inbound import Resolve
from archon_services.orchestrator.sessions.stream import Limits, Silent, Stream

__all__ = ["Limits", "Session"]

_log = logging.getLogger(__name__)

MAX_BACKOFF: Final = 0.5


class Session:
    """`room_changed` is called whenever there may be room for a task, `unneeded` when the stream of an instance that is
    no longer registered has ended."""

    def __init__(
        self,
        *,
        orchestrator_id: str,
        instance: Registration,
        inbox: Inbox,
        room_changed: Callable[[str], None],
        unneeded: Callable[[str], None],
        resolve: Resolve,
        may_send: Callable[[], bool],
        limits: Limits,
    ) -> None:
        self.instance = instance
        self.instance_id = instance.instance_id
        self.role = role = instance.role
        self.registered = True
        self.reserved = 0
        self.connected = False
        self.draining = False
        self._slots = CreditWindow(self.changed, self._room_to_go_on)
        self._attempts = Attempts(role, inbox, self._send, self._slots, self._halve, resolve)
        self._orchestrator_id = orchestrator_id
        self._room_changed = room_changed
        self._unneeded = unneeded
        self._may_send = may_send
        self._limits = limits
        self._window = 0
        self._stream: Stream | None = None
        self._fresh = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keeps a stream up in the background until `close`."""
        self._task = asyncio.create_task(self._run(), name=f"session-{self.instance_id}")

    async def close(self) -> None:
        """Ends the stream. What is bound is left as it is: the journal knows it. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)

    @property
    def room(self) -> int:
        """How many more tasks it takes now."""
        return self._window - self._slots.in_flight - self.reserved if self.connected else 0

    def _room_to_go_on(self) -> int:
        """As `room`; but an instance that takes nothing new finishes what it has."""
        return 1 if self.draining else self.room

    @property
    def load(self) -> float:
        """0 where idle, 1 where full."""
        return (self._slots.in_flight + self.reserved) / self._window if self._window else 1.0

    @property
    def idle(self) -> bool:
        """True where nothing is bound to it."""
        return not len(self._attempts)

    def assign(self, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """See Attempts."""
        self._attempts.assign(ref, role, task)

    def adopt(self, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        """See Attempts."""
        self._attempts.adopt(ref, role, standing, connected=self.connected)

    def tell(self, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """See Attempts."""
        self._attempts.tell(ref, frame)

    def changed(self) -> None:
        """There may be room: for those that wait to go on, then for new ones."""
        self._attempts.go_on()
        self._room_changed(self.role)

    def cancel(self, ref: common_pb2.TaskRef, reason: str) -> None:
        """See Attempts."""
        self._attempts.cancel(ref, reason, connected=self.connected)

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        """See Attempts."""
        self._attempts.release_run(run_id, over=over)
        self.changed()

    @property
    def stale(self) -> OrderedDict[Key, common_pb2.TaskRef]:
        """See Attempts."""
        return self._attempts.stale

    def lose_all(self, error: ArchonError) -> None:
        """See Attempts."""
        self._attempts.lose_all(error)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        broken_at = loop.time()
        backoff = 0.1
        while True:
            self._stream = stream = Stream(
                orchestrator_id=self._orchestrator_id,
                instance_id=self.instance_id,
                limits=self._limits,
                on_ready=self._ready,
                on_frame=self._frame,
                may_send=self._may_send,
            )
            try:
                await stream.serve(self.instance.address, fresh=self._fresh)
            except asyncio.CancelledError:
                raise
            except Exception as raised:  # noqa: BLE001 - whatever breaks a stream, its tasks must not hang
                error = status.as_error(raised)
                if self.connected:
                    broken_at, backoff = loop.time(), 0.1
                    _log.info("session with %s broke: %s", self.instance_id, error)
                self.connected = False
                self._fresh = isinstance(error, Silent)
                gone = isinstance(error, (Silent, WrongInstance)) or not self.registered
                if gone or loop.time() - broken_at > self._limits.resume_window:
                    self.lose_all(error)
                if not self.registered:
                    self._unneeded(self.instance_id)
                    return
            await asyncio.sleep(backoff * random.uniform(0.7, 1.0))
            backoff = min(MAX_BACKOFF, backoff * 1.5)

    def _send(self, frame: OutgoingFrame | session_pb2.OrchestratorFrame) -> None:
        if self.connected and self._stream is not None:
            self._stream.queue.put(frame)

    def _halve(self) -> None:
        self._window //= 2  # until the next credit

    def _granted(self, max_tasks: int, max_waiting: int) -> None:
        self._window, self._slots.max_waiting, self.draining = max_tasks, max_waiting, max_tasks == 0

    def _ready(self, ready: session_pb2.Ready) -> None:
        self.connected = True
        self._granted(ready.max_tasks, ready.max_waiting)
        self._attempts.opened(ready)
        self.changed()

    def _frame(self, frame: session_pb2.AgentFrame) -> None:
        try:
            if frame.HasField("task"):
                self._attempts.frame(frame)
            else:
                self._session_frame(frame)
        except ArchonError as error:
            told = session_pb2.OrchestratorFrame(failure=status.to_failure(error))
            if frame.HasField("task"):
                told.task.CopyFrom(frame.task)
            self._send(told)

    def _session_frame(self, frame: session_pb2.AgentFrame) -> None:
        match frame.WhichOneof("frame"):
            case "credit":
                self._granted(frame.credit.max_tasks, frame.credit.max_waiting)
                self.changed()
            case "drain":
                self._window, self.draining = 0, True
                self.changed()
            case "failure":
                _log.warning("%s refused something: %s", self.instance_id, frame.failure.message)
            case arm:
                raise UnknownFrame(f"this orchestrator doesn't know the frame {arm or 'of this number'}")
