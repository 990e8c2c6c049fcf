"""The commands about schedules. Schedules of other tenants do not exist here."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from archon import context
from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.errors import AlreadyExists, FieldViolation, ResourceExhausted, ScheduleChanged
from archon.wire import to_seconds
from archon_services.orchestrator.api.schedule_validation import (
    MAX_REQUEST_ID,
    NAME,
    check_note,
    check_schedule,
    check_violations,
)
from archon_services.orchestrator.api.trigger_owner import caller
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.convert.field_mask import checked_paths, masked
from archon_services.orchestrator.convert.schedule import definition_from_proto, definition_to_proto, etag_of
from archon_services.orchestrator.schedules.codec import KIND
from archon_services.orchestrator.schedules.decision import MAX_CATCH_UP, Decision
from archon_services.orchestrator.schedules.schedule import MAX_WAITING, Fire, FireState, Overlap, Schedule
from archon_services.orchestrator.schedules.store import ScheduleStore
from archon_services.orchestrator.schedules.times import time_text, times_between

MAX_SCHEDULES: Final = 1_000
"""Schedules of a tenant."""

CHANGEABLE: Final = ("times", "run", "policies", "note")
"""The fields of a schedule that an update changes."""

_Asked = tuple[str, float]
"""The id of a fire, and the time that it is for."""


class ScheduleCommands:
    """Raises Archon's errors."""

    def __init__(self, store: ScheduleStore, audit: AuditRecord) -> None:
        self.store = store
        self._audit = audit

    async def create(self, request: pb.CreateScheduleRequest) -> Schedule:
        """Creates a schedule, or returns the one of the same request. Raises InvalidArgument, AlreadyExists,
        ResourceExhausted and the errors of the journal."""
        given, tenant, now = request.schedule, context.current().tenant, self.store.now()
        if len(request.request_id) > MAX_REQUEST_ID:
            check_violations([FieldViolation("request_id", f"longer than {MAX_REQUEST_ID} characters")])
        check_schedule(given, now)
        schedule = Schedule(
            tenant,
            given.name,
            uuid.uuid4().hex[:16],
            owner=caller(),
            created=now,
            updated=now,
            cursor=now,
            **definition_from_proto(given),
            request_id=request.request_id,
            paused=given.paused,
            pause_reason=given.pause_reason if given.paused else "",
        )
        if await self.store.journal.trigger_count(tenant, KIND) >= MAX_SCHEDULES:
            raise ResourceExhausted(f"the tenant has {MAX_SCHEDULES:,} schedules: remove some")
        if not await self.store.add(schedule):
            present = await self.store.get(tenant, given.name)
            if not request.request_id or present.request_id != request.request_id:
                raise AlreadyExists(f"there is a schedule {given.name!r} already", metadata={"schedule": given.name})
            return present
        await self._noted("schedule.create", schedule.name)
        return schedule

    async def get(self, name: str) -> Schedule:
        """Returns a schedule. Raises UnknownSchedule."""
        return await self.store.get(context.current().tenant, _storable(name))

    async def update(self, request: pb.UpdateScheduleRequest) -> Schedule:
        """Changes the fields of the mask. Raises UnknownSchedule, ScheduleChanged and InvalidArgument."""
        given, owner = request.schedule, caller()
        paths = checked_paths(request.update_mask, given, CHANGEABLE)

        def change(decision: Decision) -> None:
            schedule = decision.schedule
            _check_etag(schedule, request.etag)
            if not paths:
                return
            changed = masked(definition_to_proto(schedule), given, paths)
            check_schedule(changed, decision.now, before=schedule.times)
            decision.redefine(
                **definition_from_proto(changed), owner=owner, updated=decision.now, version=schedule.version + 1
            )

        return await self._changed(given.name, change, "schedule.update", fields=", ".join(paths))

    async def pause(self, request: pb.PauseScheduleRequest) -> Schedule:
        """Pauses a schedule. Raises UnknownSchedule and InvalidArgument."""
        check_note("reason", request.reason)

        def change(decision: Decision) -> None:
            if not decision.schedule.paused:
                decision.edit(
                    lambda schedule: _edited(schedule, decision.now, paused=True, pause_reason=request.reason)
                )

        return await self._changed(request.name, change, "schedule.pause")

    async def resume(self, request: pb.ResumeScheduleRequest) -> Schedule:
        """Resumes a schedule from now on. Raises UnknownSchedule."""

        def change(decision: Decision) -> None:
            if decision.schedule.paused:
                fields: dict[str, Any] = {"paused": False, "pause_reason": "", "cursor": decision.now}
                decision.edit(lambda schedule: _edited(schedule, decision.now, **fields))

        return await self._changed(request.name, change, "schedule.resume")

    async def trigger(self, request: pb.TriggerScheduleRequest) -> list[Fire]:
        """Fires now, or for each time of a range that has no run. Raises UnknownSchedule, InvalidArgument and
        ResourceExhausted."""
        if len(request.request_id) > MAX_REQUEST_ID:
            check_violations([FieldViolation("request_id", f"longer than {MAX_REQUEST_ID} characters")])
        if request.overlap not in pb.OverlapPolicy.values():
            check_violations([FieldViolation("overlap", "is no policy of this orchestrator")])
        tenant, name = context.current().tenant, _storable(request.name)
        schedule = await self.store.get(tenant, name)
        if request.HasField("start"):
            asked = self._range(schedule, request)
        else:
            asked = [(f"trigger/{request.request_id or uuid.uuid4().hex[:12]}", self.store.now())]
        stored = await self.store.fires_by_id(tenant, name, [fire_id for fire_id, _ in asked])
        is_range = request.HasField("start")
        # A request that came before is not executed again; of a range, the times that have no run are.
        done = {fire.fire_id for fire in stored if not is_range or fire.run_id}
        given = Overlap(request.overlap) if request.overlap else Overlap.BUFFER_ALL if is_range else None
        identity = context.current().identity

        def change(decision: Decision) -> list[str]:
            wanted = _wanted(decision, asked if not is_range else _passed(decision, asked), done)
            if len(decision.fires_in(FireState.WAITING)) + len(wanted) > MAX_WAITING:
                raise ResourceExhausted(f"at most {MAX_WAITING:,} fires of a schedule wait", retry_delay=60.0)
            overlap = given or decision.schedule.policies.overlap
            return [decision.trigger(fire_id, at, overlap, identity).fire_id for fire_id, at in wanted]

        decision, fire_ids = await self.store.change(tenant, name, change)
        if fire_ids:
            await self._noted("schedule.trigger", name, fires=len(fire_ids))
        if not is_range and not fire_ids:
            return [fire for fire in decision.schedule.open_fires if fire.fire_id == asked[0][0]] or stored
        return [fire for fire in decision.fires if fire.fire_id in set(fire_ids)]

    def _range(self, schedule: Schedule, request: pb.TriggerScheduleRequest) -> list[_Asked]:
        now = self.store.now()
        start = to_seconds(request.start)
        end = min(to_seconds(request.end), now) if request.HasField("end") else now
        found, more = times_between(schedule.times, start - 1e-6, end, MAX_CATCH_UP)
        if more:
            check_violations([FieldViolation("start", f"more than {MAX_CATCH_UP:,} times up to the end of the range")])
        if not found:
            check_violations([FieldViolation("start", "the schedule has no time in the range that has passed")])
        return [(time_text(planned), planned) for planned in found]

    async def delete(self, request: pb.DeleteScheduleRequest) -> None:
        """Deletes a schedule. Raises UnknownSchedule and ScheduleChanged."""
        name = _storable(request.name)
        await self.store.delete(context.current().tenant, name, lambda schedule: _check_etag(schedule, request.etag))
        await self._noted("schedule.delete", name)

    async def _changed(self, name: str, change: Callable[[Decision], None], action: str, **details: Any) -> Schedule:
        decision, _ = await self.store.change(context.current().tenant, _storable(name), change)
        if decision.schedule.version != decision.before.version:
            await self._noted(action, name, **details)
        return decision.schedule

    async def _noted(self, action: str, name: str, **details: Any) -> None:
        await self._audit.add(self._audit.row(action, target=name, details=details))


def _edited(schedule: Schedule, now: float, **fields: Any) -> Schedule:
    return replace(schedule, updated=now, version=schedule.version + 1, **fields)


def _wanted(decision: Decision, asked: list[_Asked], done: set[str]) -> list[_Asked]:
    present = {fire.fire_id for fire in decision.schedule.open_fires} | done
    return [each for each in asked if each[0] not in present]


def _passed(decision: Decision, asked: list[_Asked]) -> list[_Asked]:
    """Returns the times that the schedule does not fire by itself any more."""
    schedule = decision.schedule
    fires = not (schedule.paused or schedule.ended)
    return [(fire_id, at) for fire_id, at in asked if not fires or at <= schedule.cursor]


def _storable(name: str) -> str:
    """Returns the name, empty if no schedule can have it: a store takes no such text."""
    return name if NAME.fullmatch(name) else ""


def _check_etag(schedule: Schedule, etag: str) -> None:
    if etag and etag != etag_of(schedule):
        raise ScheduleChanged(
            f"the schedule {schedule.name} was changed since: its etag is {etag_of(schedule)}",
            metadata={"schedule": schedule.name, "etag": etag_of(schedule)},
        )
