"""The ScheduleService: decodes requests, calls one interface, encodes responses."""

from __future__ import annotations

from typing import Any, Final

from archon import context as call
from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.api.orchestrator.v1 import schedule_service_pb2_grpc
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.api.schedules import ScheduleCommands
from archon_services.orchestrator.convert.schedule import fire_to_proto, schedule_to_proto
from archon_services.orchestrator.schedules.schedule import Schedule

SCHEDULE_SERVICE: Final = "archon.api.orchestrator.v1.ScheduleService"

MAX_PAGE: Final = 100
"""Schedules of a page: each is read with its requests."""


class ScheduleServicer(schedule_service_pb2_grpc.ScheduleServiceServicer):
    """Serves the schedules of the caller's tenant."""

    def __init__(self, commands: ScheduleCommands) -> None:
        self._commands = commands

    def _message(self, schedule: Schedule, *, details: bool = True) -> pb.Schedule:
        return schedule_to_proto(schedule, self._commands.store.now(), details=details)

    async def CreateSchedule(self, request: pb.CreateScheduleRequest, context: Any) -> pb.CreateScheduleResponse:
        return pb.CreateScheduleResponse(schedule=self._message(await self._commands.create(request)))

    async def GetSchedule(self, request: pb.GetScheduleRequest, context: Any) -> pb.GetScheduleResponse:
        return pb.GetScheduleResponse(schedule=self._message(await self._commands.get(request.name)))

    async def ListSchedules(self, request: pb.ListSchedulesRequest, context: Any) -> pb.ListSchedulesResponse:
        after = read_token(request.page_token, "schedules", like="") or ""
        size = min(MAX_PAGE, page_size(request.page_size))
        schedules = await self._commands.store.page(call.current().tenant, after, size + 1)
        out = pb.ListSchedulesResponse()
        out.schedules.extend(self._message(schedule, details=False) for schedule in schedules[:size])
        if len(schedules) > size:
            out.next_page_token = make_token(schedules[size - 1].name, "schedules")
        return out

    async def UpdateSchedule(self, request: pb.UpdateScheduleRequest, context: Any) -> pb.UpdateScheduleResponse:
        return pb.UpdateScheduleResponse(schedule=self._message(await self._commands.update(request)))

    async def PauseSchedule(self, request: pb.PauseScheduleRequest, context: Any) -> pb.PauseScheduleResponse:
        return pb.PauseScheduleResponse(schedule=self._message(await self._commands.pause(request)))

    async def ResumeSchedule(self, request: pb.ResumeScheduleRequest, context: Any) -> pb.ResumeScheduleResponse:
        return pb.ResumeScheduleResponse(schedule=self._message(await self._commands.resume(request)))

    async def TriggerSchedule(self, request: pb.TriggerScheduleRequest, context: Any) -> pb.TriggerScheduleResponse:
        fires = await self._commands.trigger(request)
        return pb.TriggerScheduleResponse(fires=[fire_to_proto(fire) for fire in fires])

    async def DeleteSchedule(self, request: pb.DeleteScheduleRequest, context: Any) -> pb.DeleteScheduleResponse:
        await self._commands.delete(request)
        return pb.DeleteScheduleResponse()

    async def ListFires(self, request: pb.ListFiresRequest, context: Any) -> pb.ListFiresResponse:
        name = (await self._commands.get(request.name)).name
        before = read_token(request.page_token, "fires", name, like=0) or 0
        size = page_size(request.page_size)
        fires = await self._commands.store.fires(call.current().tenant, name, before, size + 1)
        out = pb.ListFiresResponse(fires=[fire_to_proto(fire) for fire in fires[:size]])
        if len(fires) > size:
            out.next_page_token = make_token(fires[size - 1].number, "fires", name)
        return out
