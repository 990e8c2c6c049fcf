"""Submits the runs of schedules, with the rights that the owner of the schedule has at that time."""

from __future__ import annotations

from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import (
    AlreadyExists,
    ArchonError,
    InvalidArgument,
    PermissionDenied,
    RunExpired,
    Unauthenticated,
    Unimplemented,
    UnknownRun,
)
from archon.schedules import FIRE_KEY, SCHEDULE_KEY
from archon.security.authenticator import Authenticator
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.trigger_owner import calls_of, check_owner
from archon_services.orchestrator.schedules.schedule import Fire, Schedule

KEYS: Final = (SCHEDULE_KEY, FIRE_KEY)

TIMEOUT: Final = 10.0
"""Seconds for a submit."""

FINAL: Final = (InvalidArgument, PermissionDenied, Unauthenticated, AlreadyExists, Unimplemented, RunExpired)
"""Errors of a submit that cannot succeed later."""


class ScheduledRuns:
    """Raises Archon's errors. `callers` knows who may submit runs."""

    def __init__(self, commands: Commands, callers: Authenticator) -> None:
        self._commands = commands
        self._callers = callers

    async def submit(self, schedule: Schedule, fire: Fire) -> str:
        """Returns the id of the run of a fire, which is durable. Raises PermissionDenied and TokenRevoked if the owner
        may submit no runs any more, and the errors of a submit."""
        request = pb.SubmitRunRequest.FromString(fire.request)
        request.request_id = schedule.run_request_id(fire.fire_id)
        request.metadata[SCHEDULE_KEY], request.metadata[FIRE_KEY] = schedule.name, fire.fire_id
        with context.serving(calls_of(schedule.owner, schedule.tenant)), context.deadline(TIMEOUT):
            check_owner(self._callers, schedule.owner, schedule.tenant, "schedule")
            run_id, _ = await self._commands.submit(request)
        return run_id

    def is_final(self, error: ArchonError) -> bool:
        """Returns whether a refused submit cannot succeed later."""
        return isinstance(error, FINAL)

    async def cancel(self, schedule: Schedule, run_id: str) -> None:
        """Requests that a run be cancelled; one that has ended or is unknown is left unchanged."""
        with context.serving(calls_of(schedule.owner, schedule.tenant)), context.deadline(TIMEOUT):
            try:
                row = await self._commands.row(run_id)
            except UnknownRun:
                return
            await self._commands.control.cancel(row, f"the schedule {schedule.name} fires again")
