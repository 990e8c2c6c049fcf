"""All sessions: one per registered instance.

While the registry cannot be reached, its last report stays valid. An instance that is no longer registered keeps its
session while the stream is connected and it holds attempts.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon.frames import BREAKPOINTS
from archon.registry import Registration
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Failure, Requirement
from archon_services.common.tenants import role_key, role_of
from archon_services.orchestrator.ports import AttemptStatus, Delivery, Inbox, Slot, Transport
from archon_services.orchestrator.sessions.attempt_channel import Key, key_of
from archon_services.orchestrator.sessions.dials import Dials
from archon_services.orchestrator.sessions.in_flight import ProcessBytes
from archon_services.orchestrator.sessions.pending_adoptions import Adoption, PendingAdoptions
from archon_services.orchestrator.sessions.record_factors import RecordFactors
from archon_services.orchestrator.sessions.role_index import RoleIndex, fits
from archon_services.orchestrator.sessions.session import Limits, Session
from archon_services.orchestrator.sessions.tenant_transport import TenantTransport
from archon_services.orchestrator.sessions.waiting_list import WaitingList
from archon_services.orchestrator.track_records.factor import vote_weight
from archon_services.orchestrator.track_records.records import TrackRecords

MAX_DEPARTED: Final = 1_000


@dataclass(slots=True)
class RoleCensus:
    """The instances of a role with a session, by their state, and the slots of those that are connected."""

    connected: int = 0
    draining: int = 0
    unreachable: int = 0
    used: int = 0
    free: int = 0


class SessionPool:
    """Implements ports.Transport over gRPC.

    `may_send` tells whether this process still holds its lease; it is checked before frames about tasks are sent.
    """

    def __init__(
        self,
        *,
        orchestrator_id: str,
        inbox: Inbox,
        limits: Limits | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_send = may_send
        self._orchestrator_id = orchestrator_id
        self._inbox = inbox
        self._limits = limits or Limits()
        self._process_bytes = ProcessBytes()
        self._dials = Dials()
        self._sessions: dict[str, Session] = {}
        self._roles = RoleIndex()
        self._factors = RecordFactors(self._roles)
        self._holders: dict[str, dict[str, Session]] = {}
        """By run: the sessions that hold attempts of it, by instance id."""
        self._waiting = WaitingList()
        self._closing: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._departed: OrderedDict[str, OrderedDict[Key, common_pb2.TaskRef]] = OrderedDict()
        """Stale attempts of removed instances: one that was only frozen returns, and has to stop them."""
        self._left: OrderedDict[str, None] = OrderedDict()
        """Removed instances that had announced that they stop."""
        self._adoptions = PendingAdoptions()

    def update(self, changed: Iterable[Registration], removed: Iterable[str] = ()) -> None:
        """Creates and removes sessions: `changed` are the instances that are registered now or have registered anew,
        `removed` the ids of those that are no longer registered."""
        for instance in changed:
            session = self._sessions.get(instance.instance_id)
            if session is None:
                self._add(instance)
            else:
                returned, session.registered = not session.registered, True
                if self._roles.replace(session, instance):
                    session.changed()
                    session.redial()
                elif returned:
                    session.redial()
        for instance_id in removed:
            session = self._sessions.get(instance_id)
            if session is not None and session.registered:
                session.registered = False
                self._call_later(self._limits.missed, self._still_missed, instance_id)
                if not self.alive(instance_id):
                    self._remove_if_unused(instance_id)

    def _still_missed(self, instance_id: str) -> None:
        session = self._sessions.get(instance_id)
        if session is not None and not session.registered:
            self._remove_if_unused(instance_id)
            if instance_id in self._sessions:
                self._call_later(self._limits.missed, self._still_missed, instance_id)

    def _remove_if_unused(self, instance_id: str) -> None:
        session = self._sessions[instance_id]
        if session.idle or not session.connected:
            self._remove(instance_id)

    def _call_later(self, seconds: float, callback: Callable[[str], None], instance_id: str) -> None:
        def call() -> None:
            self._timers.discard(handle)
            callback(instance_id)

        handle = asyncio.get_running_loop().call_later(seconds, call)
        self._timers.add(handle)

    def _add(self, instance: Registration) -> None:
        instance_id = instance.instance_id
        session = Session(
            orchestrator_id=self._orchestrator_id,
            instance=instance,
            inbox=self._inbox,
            room_changed=self._room_changed,
            unneeded=self._unneeded,
            resolve=partial(self._resolve, instance.tenant),
            may_send=self._may_send,
            limits=self._limits,
            process_bytes=self._process_bytes,
            dials=self._dials,
            connection_changed=self._roles.connection_changed,
            run_held=lambda run_id, held: self._run_held(session, run_id, held),
        )
        self._sessions[instance_id] = session
        self._roles.add(session)
        self._factors.due(session.role_key)
        session.stale.update(self._departed.pop(instance_id, {}))
        for adoption in self._adoptions.take(instance_id):
            session.adopt(adoption.ref, adoption.role, adoption.standing)
            for frame in adoption.frames:
                session.tell(adoption.ref, frame)
        session.start()

    def _unneeded(self, instance_id: str) -> None:
        if instance_id in self._sessions:
            self._remove(instance_id)

    def _remove(self, instance_id: str) -> None:
        session = self._sessions.pop(instance_id)
        self._roles.remove(session)
        self._factors.due(session.role_key)
        session.lose_all(Unavailable(f"instance {instance_id} is gone", reason="INSTANCE_LOST"))
        for run_id in session.runs:  # of attempts that have a result which is not durable yet
            self._drop_holder(session, run_id)
        self._depart(instance_id, session.stale)
        if session.leaving:
            self._left[instance_id] = None
            if len(self._left) > MAX_DEPARTED:
                self._left.popitem(last=False)
        task = asyncio.create_task(session.close(), name=f"close-{instance_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _depart(self, instance_id: str, stale: OrderedDict[Key, common_pb2.TaskRef]) -> None:
        stale.update(self._departed.pop(instance_id, {}))
        self._departed[instance_id] = stale  # shared with the session: its losses become durable later
        if len(self._departed) > MAX_DEPARTED:
            self._departed.popitem(last=False)

    def _run_held(self, session: Session, run_id: str, held: bool) -> None:
        if not held:
            self._drop_holder(session, run_id)
        elif self._sessions.get(session.instance_id) is session:
            if (holders := self._holders.get(run_id)) is None:
                self._holders[run_id] = {session.instance_id: session}
            else:
                holders[session.instance_id] = session

    def _drop_holder(self, session: Session, run_id: str) -> None:
        holders = self._holders.get(run_id)
        if holders is not None and holders.get(session.instance_id) is session:
            del holders[session.instance_id]
            if not holders:
                del self._holders[run_id]

    async def close(self) -> None:
        """Ends all sessions without losing attempts. Idempotent."""
        for handle in self._timers:
            handle.cancel()
        await asyncio.gather(*(session.close() for session in self._sessions.values()), *self._closing)
        self._sessions.clear()
        self._roles.clear()
        self._holders.clear()

    def weigh(self, records: TrackRecords) -> None:
        """Gives placement the records as they are now, of some roles at each call."""
        self._factors.update(records)

    def census(self) -> dict[str, RoleCensus]:
        """Counts instances and slots by role. Any thread may call it."""
        roles: dict[str, RoleCensus] = {}
        for session in list(self._sessions.values()):
            role = roles.setdefault(session.role_key, RoleCensus())
            if not session.connected:
                role.unreachable += 1
                continue
            role.draining += session.draining
            role.connected += not session.draining
            role.used += session.used
            role.free += max(0, session.room)
        return roles

    def waiting_tasks(self) -> dict[str, int]:
        """Counts the tasks that wait for a free slot by role, with 0 for the other roles with an instance. Any thread
        may call it."""
        roles = dict.fromkeys((session.role_key for session in list(self._sessions.values())), 0)
        return roles | self._waiting.sizes()

    def _resolve(self, tenant: str, role: str, capability: str) -> tuple[str, ...]:
        """Returns the roles of a tenant with this name, or with the capability."""
        return tuple(map(role_of, self._roles.resolve(tenant, role_key(tenant, role), capability)))

    # ports.Transport: its roles are keys of roles, so that those of several tenants are apart

    def of_tenant(self, tenant: str) -> Transport:
        """Returns the instances of one tenant."""
        return TenantTransport(self, tenant)

    def standing(self, want: Requirement) -> tuple[int, int]:
        """How many instances with these properties are registered, and how many of them are connected."""
        return self._roles.standing(want)

    def stateful(self, role: str) -> bool:
        return self._roles.stateful(role)

    def message_types(self, role: str) -> Mapping[str, str]:
        return self._roles.message_types(role)

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        found = self._roles.choose(want, avoid, prefer)
        if found is None:
            return None
        found.session.reserved += 1
        return Slot(found.session.instance_id, found.choice)

    def expected_seconds(self, role: str) -> float:
        return self._factors.p95.get(role, 0.0)

    def holds_breakpoints(self, instance_id: str) -> bool:
        session = self._sessions.get(instance_id)
        return session is not None and session.has_feature(BREAKPOINTS)

    def record_weight(self, role: str, instance_id: str) -> float:
        session = self._sessions.get(instance_id)
        return vote_weight(session.record) if session is not None and session.role_key == role else 1.0

    def release(self, instance_id: str) -> None:
        session = self._sessions.get(instance_id)
        if session is not None and session.reserved:
            session.reserved -= 1
            session.changed()

    def when_free(self, want: Requirement, run_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._waiting.add(want, run_id, wake)

    def _room_changed(self, session: Session) -> None:
        """Wakes tasks that wait for a slot, as many as this session has free slots."""
        self._waiting.wake(session.role_key, lambda want: fits(session.instance, want), session.room)

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        session = self._sessions.get(instance_id)
        if session is None:
            self._deliver_lost(instance_id, ref)
            return
        session.reserved = max(0, session.reserved - 1)
        session.assign(ref, role, task)

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        # The instance is asked as soon as there is a stream. Without one within the resume window, the attempt is lost.
        session = self._sessions.get(instance_id)
        if session is not None:
            session.adopt(ref, role, standing)
        else:
            self._adoptions.add(instance_id, Adoption(ref, role, standing))
        if session is None or not session.connected:
            self._call_later(self._limits.resume_window, self._resume_window_over, instance_id)

    def _resume_window_over(self, instance_id: str) -> None:
        for adoption in self._adoptions.take(instance_id):
            self._deliver_lost(instance_id, adoption.ref, on_purpose=adoption.standing.released)
        session = self._sessions.get(instance_id)
        if session is not None and not session.connected:
            session.lose_all(Unavailable(f"instance {instance_id} cannot be reached", reason="INSTANCE_LOST"))

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        # A frame for an instance that is gone is dropped: its attempt is lost, or its next session resumes it.
        session = self._sessions.get(instance_id)
        if session is not None:
            session.tell(ref, frame)
        else:
            self._adoptions.tell(instance_id, ref, frame)

    def alive(self, instance_id: str) -> bool:
        """Whether the instance's session is connected and accepts tasks."""
        session = self._sessions.get(instance_id)
        return session is not None and session.connected and not session.draining

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        for session in list(self._holders.get(run_id, {}).values()):
            session.release_run(run_id, over=over)
        for instance_id, ref in self._adoptions.release_run(run_id):
            if over:
                self._depart(instance_id, OrderedDict({key_of(ref): ref}))

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None:
        # An instance without a session receives the order when it reconnects.
        session = self._sessions.get(instance_id)
        if session is None:
            self._adoptions.cancel(instance_id, ref)
            self._depart(instance_id, OrderedDict({key_of(ref): ref}))
            self._deliver_lost(instance_id, ref)
        else:
            session.cancel(ref, reason)

    def _deliver_lost(self, instance_id: str, ref: common_pb2.TaskRef, *, on_purpose: bool = False) -> None:
        on_purpose = on_purpose or instance_id in self._left
        failure = Failure(
            "UNAVAILABLE", "INSTANCE_LOST", f"instance {instance_id} is gone", (("instance_id", instance_id),)
        )
        self._inbox.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure, on_purpose)))
