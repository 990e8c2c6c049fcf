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
from archon.principal import Kind, Principal
from archon.schedules import FIRE_KEY, SCHEDULE_KEY
from archon.security.authenticator import Authenticator
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.schedules.schedule import Fire, Owner, Schedule

SUBMIT: Final = "/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"

KEYS: Final = (SCHEDULE_KEY, FIRE_KEY)

TIMEOUT: Final = 10.0
"""Seconds for a submit."""

_SERVICE: Final = Principal(Kind.SERVICE, "orchestrator")
_FINAL: Final = (InvalidArgument, PermissionDenied, Unauthenticated, AlreadyExists, Unimplemented, RunExpired)


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
        with context.serving(_calls_of(schedule)), context.deadline(TIMEOUT):
            self._check(schedule.owner, schedule.tenant)
            run_id, _ = await self._commands.submit(request)
        return run_id

    def _check(self, owner: Owner, tenant: str) -> None:
        if not owner.kind:
            return
        principal = Principal(Kind(owner.kind), owner.name, tenant, token_id=owner.token_id)
        self._callers.check(principal)
        if not self._callers.allows(principal, SUBMIT):
            raise PermissionDenied(
                f"{owner.identity}, who has written the schedule, may not submit runs",
                metadata={"identity": owner.identity, "kind": owner.kind},
            )

    def is_final(self, error: ArchonError) -> bool:
        """Returns whether a refused submit cannot succeed later."""
        return isinstance(error, _FINAL)

    async def cancel(self, schedule: Schedule, run_id: str) -> None:
        """Requests that a run be cancelled; one that has ended or is unknown is left unchanged."""
        with context.serving(_calls_of(schedule)), context.deadline(TIMEOUT):
            try:
                row = await self._commands.row(run_id)
            except UnknownRun:
                return
            await self._commands.control.cancel(row, f"the schedule {schedule.name} fires again")


def _calls_of(schedule: Schedule) -> context.CallContext:
    principal = _SERVICE if schedule.owner.kind else None
    return context.CallContext(tenant=schedule.tenant, identity=schedule.owner.identity, principal=principal)


def caller() -> Owner:
    """Returns the caller of the call being served, as the owner of a schedule."""
    call = context.current()
    if (principal := call.principal) is None:
        return Owner(call.identity)
    return Owner(call.identity, principal.kind.value, principal.name, principal.token_id)
