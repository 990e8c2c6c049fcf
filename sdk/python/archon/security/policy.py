"""Who may call which RPC: one table, and whatever is not in it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from archon.errors import PermissionDenied
from archon.principal import Kind, Principal

_SERVICES: Final = frozenset({Kind.SERVICE})
_ADMINS: Final = _SERVICES | {Kind.ADMIN}
_OPERATORS: Final = _ADMINS | {Kind.OPERATOR}
"""A service may be a front end, which calls on behalf of people."""

_READERS: Final = _OPERATORS | {Kind.VIEWER, Kind.AUDITOR}
_AUDITORS: Final = _ADMINS | {Kind.AUDITOR}
_MEMBERS: Final = _ADMINS | {Kind.AGENT}
_TOOL_USERS: Final = _MEMBERS | _OPERATORS
_EVERYBODY: Final = frozenset(Kind)

_SERVICE_NAMES: Final = {
    "orchestrator.v1.OrchestratorService": {
        "SubmitRun": _OPERATORS,
        "WatchRun": _READERS,
        "GetRun": _READERS,
        "ListRuns": _READERS,
        "ListRunRecords": _READERS,
        "ListRunSteps": _READERS,
        "CancelRun": _OPERATORS,
        "ListQuestions": _READERS,
        "Respond": _OPERATORS,
        "PauseRun": _OPERATORS,
        "ResumeRun": _OPERATORS,
        "SetBreakpoints": _OPERATORS,
        "PlanRun": _OPERATORS,
        "EditPlan": _OPERATORS,
        "ForkRun": _OPERATORS,
        "RateRun": _OPERATORS,
        "ListInstanceMetrics": _READERS,
        "Converse": _OPERATORS,
        "GetQuotas": _READERS,
        "MarkRun": _OPERATORS,
        "ListLearnedVersions": _READERS,
        "DecideLearnedVersion": _OPERATORS,
        "RevertLearnedVersion": _OPERATORS,
    },
    "orchestrator.v1.ScheduleService": {
        "CreateSchedule": _OPERATORS,
        "GetSchedule": _READERS,
        "ListSchedules": _READERS,
        "UpdateSchedule": _OPERATORS,
        "PauseSchedule": _OPERATORS,
        "ResumeSchedule": _OPERATORS,
        "TriggerSchedule": _OPERATORS,
        "DeleteSchedule": _OPERATORS,
        "ListFires": _READERS,
    },
    "orchestrator.v1.HookService": {
        "CreateHook": _OPERATORS,
        "GetHook": _READERS,
        "ListHooks": _READERS,
        "UpdateHook": _OPERATORS,
        "RotateHookSecret": _OPERATORS,
        "PauseHook": _OPERATORS,
        "ResumeHook": _OPERATORS,
        "DeleteHook": _OPERATORS,
        "ListDeliveries": _READERS,
        "SignDelivery": _OPERATORS,
        "Deliver": _SERVICES,
    },
    "audit.v1.AuditService": {
        "ListEntries": _AUDITORS,
        "ListLinks": _AUDITORS,
    },
    "registry.v1.RegistryService": {
        "RegisterInstance": _MEMBERS,
        "KeepAlive": _MEMBERS,
        "DeregisterInstance": _MEMBERS,
        "ResolveInstances": _EVERYBODY,
        "ListInstances": _EVERYBODY,
        "PinEdges": _ADMINS,
        "UnpinEdges": _ADMINS,
        "GetGraph": _EVERYBODY,
        "Watch": _EVERYBODY,
    },
    "memory.v1.MemoryGraphService": {
        "PublishItems": _MEMBERS,
        "PullItems": _EVERYBODY,
        "GetGraph": _EVERYBODY,
        "SearchItems": _EVERYBODY,
        "WatchItems": _EVERYBODY,
        "ClearItems": _ADMINS,
    },
    "memory.v1.WorkingMemoryService": {
        "GetValue": _EVERYBODY,
        "SetValue": _MEMBERS,
        "ListValues": _EVERYBODY,
        "DeleteValue": _MEMBERS,
        "WatchValues": _EVERYBODY,
    },
    "memory.v1.LongTermMemoryService": {
        "StoreEntry": _MEMBERS,
        "SearchEntries": _EVERYBODY,
        "GetEntry": _EVERYBODY,
        "ListEntries": _EVERYBODY,
        "ListRecentEntries": _EVERYBODY,
        "RateEntry": _MEMBERS | _OPERATORS,
        "UpdateEntry": _MEMBERS,
        "DeleteEntry": _MEMBERS,
        "ForgetEntries": _MEMBERS,
        "RestoreEntries": _ADMINS,
        "GetStats": _EVERYBODY,
    },
    "agent.v1.AgentService": {
        "Describe": _EVERYBODY,
        "RunTask": _ADMINS,
        "Session": _SERVICES,
        "Deliver": _MEMBERS,
    },
    "agent.v1.AttachService": {"Attach": frozenset({Kind.AGENT})},
    "tool.v1.ToolService": {
        "ListTools": _EVERYBODY,
        "LeaseTool": _TOOL_USERS,
        "ExecuteTool": _TOOL_USERS,
        "RevokeLease": _TOOL_USERS,
    },
}

Policy = Mapping[str, frozenset[Kind]]
"""By the full name of the RPC: the kinds of callers that may call it."""

POLICY: Final[Policy] = {
    f"/archon.api.{service}/{method}": kinds
    for service, methods in _SERVICE_NAMES.items()
    for method, kinds in methods.items()
}
"""The built-in policy."""


def check_role(principal: Principal | None, role: str) -> None:
    """Raises PermissionDenied if the caller is an agent whose credentials do not name a role."""
    if principal is None or principal.kind is not Kind.AGENT or role in principal.roles:
        return
    allowed = ", ".join(sorted(principal.roles)) or "none"
    raise PermissionDenied(
        f"{principal.identity} may not register the role {role!r}; roles of its credentials: {allowed}",
        metadata={"role": role, "identity": principal.identity},
    )


def check_all_tenants(principal: Principal | None) -> None:
    """Raises PermissionDenied if the caller may not see the instances of all tenants: services of the mesh may."""
    if principal is None or principal.is_of_all_tenants:
        return
    raise PermissionDenied(
        f"{principal.identity} may not watch all tenants: only services of the mesh may",
        metadata={"identity": principal.identity, "kind": principal.kind.value},
    )


_REFLECTION: Final = "/grpc.reflection."


def check_allowed(method: str, principal: Principal, policy: Policy = POLICY) -> None:
    """Raises PermissionDenied if the caller may not call an RPC."""
    kinds = policy.get(method)
    if kinds is None and method.startswith(_REFLECTION):
        return  # descriptors, which say nothing about the mesh; the caller has proved who it is
    if kinds is None or principal.kind not in kinds:
        name = method.rpartition("/")[2]
        allowed = ", ".join(sorted(kinds or ())) or "none"
        raise PermissionDenied(
            f"{principal.identity} is of kind {principal.kind} and may not call {name}; kinds that may: {allowed}",
            metadata={"method": method, "identity": principal.identity, "kind": principal.kind.value},
        )
