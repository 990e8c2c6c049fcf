"""The sessions by role, so that placing a task looks at the instances of its role only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from archon.registry import Registration
from archon_mesh.core.run.types import Requirement
from archon_services.common.versions import version_matches
from archon_services.orchestrator.sessions.session import Session

MAX_COMPARED: Final = 16
"""Sessions with a free slot whose loads are compared for a placement: with a thousand instances of a role, comparing
all would cost more than the rest of the run."""


@dataclass(slots=True)
class _Role:
    sessions: dict[str, Session] = field(default_factory=dict)
    order: list[Session] = field(default_factory=list)
    """The same sessions."""

    turn: int = 0
    """Where in the order the next placement begins, if there are many."""

    stateful: int = 0
    """How many of the instances are stateful."""

    def in_turn(self) -> Iterable[Session]:
        """Returns all sessions, each time from another one on if there are many."""
        if len(self.order) <= MAX_COMPARED:
            return self.order
        self.turn = (self.turn + 1) % len(self.order)
        return chain(islice(self.order, self.turn, None), islice(self.order, self.turn))


class RoleIndex:
    """Sessions by the role and the capabilities of their instance. A changed registration has to be passed to
    `replace`."""

    def __init__(self) -> None:
        self._roles: dict[str, _Role] = {}
        self._offering: dict[str, Counter[str]] = {}
        """By capability: how many instances of each role offer it."""

    def add(self, session: Session) -> None:
        instance = session.instance
        role = self._roles.setdefault(instance.role, _Role())
        role.sessions[session.instance_id] = session
        role.order = list(role.sessions.values())
        role.stateful += instance.stateful
        for capability_id in _capability_ids(instance):
            self._offering.setdefault(capability_id, Counter())[instance.role] += 1

    def remove(self, session: Session) -> None:
        instance = session.instance
        role = self._roles[instance.role]
        del role.sessions[session.instance_id]
        role.order = list(role.sessions.values())
        role.stateful -= instance.stateful
        if not role.sessions:
            del self._roles[instance.role]
        for capability_id in _capability_ids(instance):
            roles = self._offering[capability_id]
            roles[instance.role] -= 1
            if not roles[instance.role]:
                del roles[instance.role]
            if not roles:
                del self._offering[capability_id]

    def replace(self, session: Session, instance: Registration) -> bool:
        """Gives the session a new registration of its instance. Returns whether it differs from the last one."""
        if instance == session.instance:
            return False
        self.remove(session)
        session.instance = instance
        self.add(session)
        return True

    def clear(self) -> None:
        self._roles.clear()
        self._offering.clear()

    def stateful(self, role: str) -> bool:
        """Whether any instance of the role is stateful."""
        return role in self._roles and self._roles[role].stateful > 0

    def best(self, requirement: Requirement) -> Session | None:
        """Returns a session with a free slot whose instance can take a task with this requirement: the least loaded, or
        of many, the least loaded of the next MAX_COMPARED. None if no slot is free."""
        role = self._roles.get(requirement.role)
        if role is None:
            return None
        best: Session | None = None
        compared = 0
        is_plain = not requirement.capability and not requirement.version
        for session in role.in_turn():
            if session.room <= 0 or not (is_plain or fits(session.instance, requirement)):
                continue
            if best is None or _preference(session) < _preference(best):
                best = session
            compared += 1
            if compared == MAX_COMPARED:
                break
        return best

    def resolve(self, role: str, capability: str) -> tuple[str, ...]:
        """The role, if it has an instance, and all roles with an instance that offers the capability; sorted."""
        roles = set(self._offering.get(capability, ()))
        if role in self._roles:
            roles.add(role)
        return tuple(sorted(roles))


def fits(instance: Registration, requirement: Requirement) -> bool:
    """Whether the instance has the required role, capability and version."""
    return (
        instance.role == requirement.role
        and (not requirement.capability or requirement.capability in _capability_ids(instance))
        and version_matches(instance.version, requirement.version)
    )


def _preference(session: Session) -> tuple[bool, float, str]:
    return not session.registered, session.load, session.instance_id


def _capability_ids(instance: Registration) -> set[str]:
    return {capability.id for capability in instance.capabilities}
