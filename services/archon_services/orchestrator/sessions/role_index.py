"""The sessions by role, so that placing a task looks at the instances of its role only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from archon.registry import Registration
from archon_mesh.engine.types import Requirement
from archon_services.common.versions import version_matches
from archon_services.orchestrator.sessions.session import Session

MAX_COMPARED: Final = 16
"""Sessions with a free slot whose loads are compared for a placement: with a thousand instances of a role, comparing
all would cost more than the rest of the run."""


@dataclass(slots=True)
class _Role:
    sessions: dict[str, Session] = field(default_factory=dict)
    connected: list[Session] = field(default_factory=list)
    """Those with a connection: a placement looks at no other, however many there are."""

    position: dict[str, int] = field(default_factory=dict)
    """By instance id: where a session is in that list."""

    turn: int = 0
    """Where in the list the next placement begins, if there are many."""

    stateful: int = 0
    """How many of the instances are stateful."""

    def connect(self, session: Session) -> None:
        """Adds the session to those with a connection."""
        if session.instance_id not in self.position:
            self.position[session.instance_id] = len(self.connected)
            self.connected.append(session)

    def disconnect(self, session: Session) -> None:
        """Removes the session from those with a connection: the last of the list takes its place."""
        position = self.position.pop(session.instance_id, None)
        last = self.connected.pop() if position is not None else session
        if position is not None and last is not session:
            self.connected[position] = last
            self.position[last.instance_id] = position

    def in_turn(self) -> Iterable[Session]:
        """Returns all sessions with a connection, each time from another one on if there are many."""
        number = len(self.connected)
        if number <= MAX_COMPARED:
            return self.connected
        self.turn = (self.turn + 1) % number
        return (self.connected[index % number] for index in range(self.turn, self.turn + number))


class RoleIndex:
    """Sessions by the role and the capabilities of their instance. A changed registration has to be passed to
    `replace`, a changed connection to `connection_changed`."""

    def __init__(self) -> None:
        self._roles: dict[str, _Role] = {}
        self._offering: dict[str, Counter[str]] = {}
        """By capability: how many instances of each role offer it."""

    def add(self, session: Session) -> None:
        instance = session.instance
        role = self._roles.setdefault(instance.role, _Role())
        role.sessions[session.instance_id] = session
        if session.connected:
            role.connect(session)
        role.stateful += instance.stateful
        for capability_id in _capability_ids(instance):
            self._offering.setdefault(capability_id, Counter())[instance.role] += 1

    def remove(self, session: Session) -> None:
        instance = session.instance
        role = self._roles[instance.role]
        del role.sessions[session.instance_id]
        role.disconnect(session)
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

    def connection_changed(self, session: Session) -> None:
        """Has to be called when the connection of a session opens or breaks."""
        role = self._roles.get(session.instance.role)
        if role is None or role.sessions.get(session.instance_id) is not session:
            return
        if session.connected:
            role.connect(session)
        else:
            role.disconnect(session)

    def clear(self) -> None:
        self._roles.clear()
        self._offering.clear()

    def stateful(self, role: str) -> bool:
        """Whether any instance of the role is stateful."""
        return role in self._roles and self._roles[role].stateful > 0

    def message_types(self, role: str) -> Mapping[str, str]:
        """The types of messages that the role may exchange, by the profile of one of its instances; empty: any."""
        known = self._roles.get(role)
        session = next(iter(known.sessions.values()), None) if known is not None else None
        return session.instance.profile.message_types if session is not None and session.instance.profile else {}

    def best(self, requirement: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Session | None:
        """Returns a session with a free slot whose instance can take a task with this requirement: the instance
        `prefer` if it has one, else the least loaded, or of many, the least loaded of the next MAX_COMPARED; an
        instance of `avoid` only if no other is among them. None if no slot is free."""
        role = self._roles.get(requirement.role)
        if role is None:
            return None
        preferred = role.sessions.get(prefer) if prefer else None
        if preferred is not None and preferred.room > 0 and fits(preferred.instance, requirement):
            return preferred
        best: Session | None = None
        compared = 0
        is_plain = not requirement.capability and not requirement.version
        for session in role.in_turn():
            if session.room <= 0 or not (is_plain or fits(session.instance, requirement)):
                continue
            if best is None or _preference(session, avoid) < _preference(best, avoid):
                best = session
            compared += 1
            if compared == MAX_COMPARED:
                break
        return best

    def standing(self, requirement: Requirement) -> tuple[int, int]:
        """How many instances that can take a task with this requirement are registered, and how many of them are
        connected."""
        role = self._roles.get(requirement.role)
        if role is None:
            return 0, 0
        if not requirement.capability and not requirement.version:
            return len(role.sessions), len(role.connected)
        registered = sum(fits(session.instance, requirement) for session in role.sessions.values())
        return registered, sum(fits(session.instance, requirement) for session in role.connected)

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


def _preference(session: Session, avoid: Collection[str]) -> tuple[bool, bool, float, str]:
    return session.instance_id in avoid, not session.registered, session.load, session.instance_id


def _capability_ids(instance: Registration) -> set[str]:
    return {capability.id for capability in instance.capabilities}
