"""Gives the sessions of roles the factors that follow from their records, some roles at a time."""

from __future__ import annotations

from typing import Final

from archon_services.common.tenants import role_of, tenant_of
from archon_services.orchestrator.sessions.role_index import RoleIndex
from archon_services.orchestrator.track_records.factor import factor_of, weighed
from archon_services.orchestrator.track_records.records import TrackRecords

MAX_SESSIONS: Final = 300
"""Sessions whose factors are computed at once, a few milliseconds; the next ones follow a second later."""

ROUNDS: Final = 30
"""Updates after which all roles are due again: older tasks count less, and other replicas have seen more."""


class RecordFactors:
    """The factors of the sessions of `roles`, and the measured times of the roles by their keys: seconds within which
    95 % of the attempts ended; a role with too few measured attempts has none."""

    def __init__(self, roles: RoleIndex) -> None:
        self._roles = roles
        self._due: dict[str, None] = {}
        self._rounds = 0
        self.p95: dict[str, float] = {}

    def due(self, role: str) -> None:
        """Has the next updates compute the factors of a role, which has another instance."""
        self._due[role] = None

    def update(self, records: TrackRecords) -> None:
        """Computes the factors of roles whose records have changed, and now and then of all."""
        self._due |= dict.fromkeys(records.take_changed_roles())
        self._rounds += 1
        if self._rounds >= ROUNDS:
            self._rounds = 0
            self._due |= dict.fromkeys(self._roles.roles())
            self.p95 = {role: seconds for role, seconds in self.p95.items() if self._roles.sessions_of(role)}
        computed = 0
        while self._due and computed < MAX_SESSIONS:
            role = next(iter(self._due))
            del self._due[role]
            computed += self._compute(role, records)

    def _compute(self, role: str, records: TrackRecords) -> int:
        """Returns how many sessions it has looked at."""
        sessions = self._roles.sessions_of(role)
        if not sessions:
            return 0
        tenant, name = tenant_of(role), role_of(role)
        of_role = records.of(tenant, name)
        if of_role is not None and (seconds := of_role.p95_seconds):
            self.p95[role] = seconds
        else:
            self.p95.pop(role, None)
        for session in sessions:
            session.record = records.of(tenant, name, session.instance_id)
            session.factor = 1.0  # a single one gets every task
            if len(sessions) > 1:
                weight = records.weight(tenant, name, session.instance_id)
                session.factor = weighed(factor_of(session.record, of_role), weight)
        self._roles.factors_changed(role)
        return len(sessions)
