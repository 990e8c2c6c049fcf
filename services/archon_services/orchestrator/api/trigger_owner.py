"""The owner of a trigger: its runs are submitted on behalf of the caller who has written it, with the rights of now."""

from __future__ import annotations

from typing import Final

from archon import context
from archon.errors import PermissionDenied
from archon.principal import Kind, Principal
from archon.security.authenticator import Authenticator
from archon_services.orchestrator.schedules.schedule import Owner

SUBMIT: Final = "/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"

_SERVICE: Final = Principal(Kind.SERVICE, "orchestrator")


def caller() -> Owner:
    """Returns the caller of the call being served, as the owner of a trigger."""
    call = context.current()
    if (principal := call.principal) is None:
        return Owner(call.identity)
    return Owner(call.identity, principal.kind.value, principal.name, principal.token_id)


def calls_of(owner: Owner, tenant: str) -> context.CallContext:
    """Returns the context of calls of the orchestrator on behalf of an owner."""
    return context.CallContext(tenant=tenant, identity=owner.identity, principal=_SERVICE if owner.kind else None)


def check_owner(callers: Authenticator, owner: Owner, tenant: str, trigger: str) -> None:
    """Raises PermissionDenied or TokenRevoked if the owner of a `trigger`, such as a schedule, may submit no runs any
    more. `callers` knows who may."""
    if not owner.kind:
        return
    principal = Principal(Kind(owner.kind), owner.name, tenant, token_id=owner.token_id)
    callers.check(principal)
    if not callers.allows(principal, SUBMIT):
        raise PermissionDenied(
            f"{owner.identity}, who has written the {trigger}, may not submit runs",
            metadata={"identity": owner.identity, "kind": owner.kind},
        )
