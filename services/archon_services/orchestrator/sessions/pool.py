"""All sessions: one for every instance that the registry names. While the registry can't be heard the last that it said
serves; an instance that it no longer names keeps its session while that lives and work is bound to it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon.registry import Registration
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Failure, Requirement
from archon_services.orchestrator.ports import AttemptStatus, Delivery, Inbox
from archon_services.orchestrator.sessions.attempt_channel import Key, key_of
from archon_services.orchestrator.sessions.matching import fits
from archon_services.orchestrator.sessions.pending_adoptions import Adoption, PendingAdoptions
from archon_services.orchestrator.sessions.session import Limits, Session

MAX_DEPARTED: Final = 1_000


class SessionPool:
    """The driver's Transport over gRPC."""

    def __init__(
        self,
        *,
        orchestrator_id: str,
        inbox: Inbox,
        limits: Limits | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_send`: see Ownership; it is asked where frames about tasks leave."""
        self._may_send = may_send
        self._orchestrator_id = orchestrator_id
        self._inbox = inbox
        self._limits = limits or Limits()
        self._sessions: dict[str, Session] = {}
        self._waiting: dict[Requirement, OrderedDict[int, Callable[[], None]]] = {}
        self._tickets = count(1)
        self._closing: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._departed: OrderedDict[str, OrderedDict[Key, common_pb2.TaskRef]] = OrderedDict()
        """Instances that went with attempts: one that was only frozen comes back, and must hear that they are over."""
        self._unclaimed = PendingAdoptions()

    def update(self, instances: Iterable[Registration]) -> None:
        """The instances that live now, all of them: sessions are made and ended by the difference."""
        named = {instance.instance_id: instance for instance in instances}
        for instance_id, instance in named.items():
            session = self._sessions.get(instance_id)
            if session is None:
                self._add(instance)
            else:
                session.registered, session.instance = True, instance
        for instance_id, session in list(self._sessions.items()):
            if instance_id not in named:
                if session.registered:
                    session.registered = False
                    self._later(self._limits.missed, self._still_missed, instance_id)
                if not self.alive(instance_id):
                    self._drop_idle(instance_id)

    def _still_missed(self, instance_id: str) -> None:
        session = self._sessions.get(instance_id)
        if session is not None and not session.registered:
            self._drop_idle(instance_id)
            if instance_id in self._sessions:
                self._later(self._limits.missed, self._still_missed, instance_id)

    def _drop_idle(self, instance_id: str) -> None:
        session = self._sessions[instance_id]
        if session.idle or not session.connected:
            self._remove(instance_id)

    def _later(self, seconds: float, what: Callable[[str], None], instance_id: str) -> None:
        loop = asyncio.get_running_loop()
        self._timers = {handle for handle in self._timers if handle.when() > loop.time()}
        self._timers.add(loop.call_later(seconds, what, instance_id))

    def _add(self, instance: Registration) -> None:
        session = Session(
            orchestrator_id=self._orchestrator_id,
            instance=instance,
            inbox=self._inbox,
            room_changed=self._room_changed,
            unneeded=self._unneeded,
            resolve=self.resolve,
            may_send=self._may_send,
            limits=self._limits,
        )
        self._sessions[instance.instance_id] = session
        session.stale.update(self._departed.pop(instance.instance_id, {}))
        for one in self._unclaimed.take(instance.instance_id):
            session.adopt(one.ref, one.role, one.standing)
            for frame in one.frames:
                session.tell(one.ref, frame)
        session.start()

    def _unneeded(self, instance_id: str) -> None:
        if instance_id in self._sessions:
            self._remove(instance_id)

    def _remove(self, instance_id: str) -> None:
        session = self._sessions.pop(instance_id)
        session.lose_all(Unavailable(f"instance {instance_id} is gone", reason="INSTANCE_LOST"))
        self._depart(instance_id, session.stale)
        task = asyncio.create_task(session.close(), name=f"close-{instance_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _depart(self, instance_id: str, stale: OrderedDict[Key, common_pb2.TaskRef]) -> None:
        stale.update(self._departed.pop(instance_id, {}))
        self._departed[instance_id] = stale  # the same that its session had: losses become durable after it
        if len(self._departed) > MAX_DEPARTED:
            self._departed.popitem(last=False)

    async def close(self) -> None:
        """Ends all sessions; nothing is lost by that. Idempotent."""
        for handle in self._timers:
            handle.cancel()
        await asyncio.gather(*(session.close() for session in self._sessions.values()), *self._closing)
        self._sessions.clear()

    # ports.Transport

    def stateful(self, role: str) -> bool:
        """See ports.Transport. Of those that have a session, registered or not."""
        return any(one.instance.stateful for one in self._sessions.values() if one.instance.role == role)

    def reserve(self, want: Requirement) -> str | None:
        """See ports.Transport."""
        fit = [session for session in self._sessions.values() if session.room > 0 and fits(session.instance, want)]
        if not fit:
            return None
        best = min(fit, key=lambda session: (not session.registered, session.load, session.instance_id))
        best.reserved += 1
        return best.instance_id

    def release(self, instance_id: str) -> None:
        """See ports.Transport."""
        session = self._sessions.get(instance_id)
        if session is not None and session.reserved:
            session.reserved -= 1
            session.changed()

    def when_free(self, want: Requirement, wake: Callable[[], None]) -> Callable[[], None]:
        """See ports.Transport. First come, first woken."""
        ticket = next(self._tickets)
        self._waiting.setdefault(want, OrderedDict())[ticket] = wake
        return lambda: self._call_off(want, ticket)

    def _call_off(self, want: Requirement, ticket: int) -> None:
        waiting = self._waiting.get(want)
        if waiting is not None and waiting.pop(ticket, None) is not None and not waiting:
            self._waiting.pop(want, None)

    def _room_changed(self, role: str) -> None:
        for want, waiting in list(self._waiting.items()):
            if want.role != role:
                continue
            room = sum(max(0, session.room) for session in self._sessions.values() if fits(session.instance, want))
            for _ in range(min(room, len(waiting))):
                _, wake = waiting.popitem(last=False)
                wake()
            if not waiting:
                self._waiting.pop(want, None)

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """See ports.Transport."""
        session = self._sessions.get(instance_id)
        if session is None:
            self._gone(instance_id, ref)
            return
        session.reserved = max(0, session.reserved - 1)
        session.assign(ref, role, task)

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        """See ports.Transport. It is asked for as soon as there is a stream; where there is none within the resume
        window the attempt is lost."""
        session = self._sessions.get(instance_id)
        if session is not None:
            session.adopt(ref, role, standing)
        else:
            self._unclaimed.add(instance_id, Adoption(ref, role, standing))
        if session is None or not session.connected:
            self._later(self._limits.resume_window, self._too_late, instance_id)

    def _too_late(self, instance_id: str) -> None:
        for one in self._unclaimed.take(instance_id):
            self._gone(instance_id, one.ref)
        session = self._sessions.get(instance_id)
        if session is not None and not session.connected:
            session.lose_all(Unavailable(f"instance {instance_id} can't be reached", reason="INSTANCE_LOST"))

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """See ports.Transport. Whoever is gone is told nothing: its attempt is lost, or its session says so."""
        session = self._sessions.get(instance_id)
        if session is not None:
            session.tell(ref, frame)
        else:
            self._unclaimed.tell(instance_id, ref, frame)

    def alive(self, instance_id: str) -> bool:
        """Whether its session goes on and takes tasks."""
        session = self._sessions.get(instance_id)
        return session is not None and session.connected and not session.draining

    def resolve(self, role: str, capability: str) -> tuple[str, ...]:
        """The role, or those of which an instance has the capability, where somebody plays it now."""
        found = {
            session.role
            for session in self._sessions.values()
            if session.role == role
            or (capability and any(one.id == capability for one in session.instance.capabilities))
        }
        return tuple(sorted(found))

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        """See ports.Transport."""
        for session in self._sessions.values():
            session.release_run(run_id, over=over)
        for instance_id, ref in self._unclaimed.release_run(run_id):
            if over:
                self._depart(instance_id, OrderedDict({key_of(ref): ref}))

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None:
        """See ports.Transport. Whoever isn't there hears it on coming back."""
        session = self._sessions.get(instance_id)
        if session is None:
            self._unclaimed.call_off(instance_id, ref)
            self._depart(instance_id, OrderedDict({key_of(ref): ref}))
            self._gone(instance_id, ref)
        else:
            session.cancel(ref, reason)

    def _gone(self, instance_id: str, ref: common_pb2.TaskRef) -> None:
        failure = Failure(
            "UNAVAILABLE", "INSTANCE_LOST", f"instance {instance_id} is gone", (("instance_id", instance_id),)
        )
        self._inbox.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure)))
