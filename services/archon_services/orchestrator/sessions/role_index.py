"""The sessions by role, so that placing a task looks at the instances of its role only.

The least loaded instance gets the task. Once records of a role's instances differ, load counts less at an instance with
a good record and more at one with a bad record; each instance gets a part of the tasks nevertheless, so that it can
recover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from archon.principal import DEFAULT_TENANT
from archon.registry import Registration
from archon_mesh.engine.types import ComparedInstance, InstanceChoice, Requirement
from archon_services.common.tenants import role_key, tenant_of
from archon_services.common.versions import version_matches
from archon_services.orchestrator.sessions.session import Session

MAX_COMPARED: Final = 16
"""Sessions with a free slot whose loads are compared for a placement: with a thousand instances of a role, comparing
all would cost more than the rest of the run."""

IDLE_LOAD: Final = 0.25
"""Load that an idle instance counts with, so that records decide among idle ones too: with the factors 1 and 2, the
first one is preferred until a quarter of its slots is used."""

SHARE: Final = 10
"""Of so many placements that records decide about, one goes to the instance that has waited longest for a task: each of
n instances gets at least 1 / (10 n) of the tasks."""

MAX_CANDIDATES: Final = 5
"""Compared instances that are stored with a dispatch."""

_PREFERRED: Final = InstanceChoice("preferred", 1)


class Found(NamedTuple):
    """The session for a task, and why it was chosen; None if there was no other."""

    session: Session
    choice: InstanceChoice | None


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

    is_uneven: bool = False
    """Whether the factors of its instances differ."""

    decided: int = 0
    """Placements since the factors differ."""

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
    """Sessions by the key of the role and the capabilities of their instance; the roles below are keys. A changed
    registration has to be passed to `replace`, a changed connection to `connection_changed`."""

    def __init__(self) -> None:
        self._roles: dict[str, _Role] = {}
        self._offering: dict[str, Counter[str]] = {}
        """By capability: how many instances of each role offer it."""

    def add(self, session: Session) -> None:
        instance = session.instance
        role = self._roles.setdefault(session.role_key, _Role())
        role.sessions[session.instance_id] = session
        if session.connected:
            role.connect(session)
        role.stateful += instance.stateful
        role.is_uneven = len(role.sessions) > 1 and (role.is_uneven or session.factor != 1.0)
        for capability_id in _capability_ids(instance):
            self._offering.setdefault(capability_id, Counter())[session.role_key] += 1

    def remove(self, session: Session) -> None:
        instance = session.instance
        role = self._roles[session.role_key]
        del role.sessions[session.instance_id]
        role.disconnect(session)
        role.stateful -= instance.stateful
        role.is_uneven = role.is_uneven and len(role.sessions) > 1
        if not role.sessions:
            del self._roles[session.role_key]
        for capability_id in _capability_ids(instance):
            roles = self._offering[capability_id]
            roles[session.role_key] -= 1
            if not roles[session.role_key]:
                del roles[session.role_key]
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
        role = self._roles.get(session.role_key)
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

    def choose(self, requirement: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Found | None:
        """Returns a session with a free slot whose instance can take a task with this requirement: the instance
        `prefer` if it has one, else the least loaded, or of many, the least loaded of the next MAX_COMPARED; an
        instance of `avoid` only if no other is among them. None if no slot is free."""
        role = self._roles.get(requirement.role)
        if role is None:
            return None
        preferred = role.sessions.get(prefer) if prefer else None
        if preferred is not None and preferred.room > 0 and fits(preferred.instance, requirement):
            return Found(preferred, _PREFERRED)
        is_plain = not requirement.capability and not requirement.version
        if role.is_uneven:
            with_room = (
                session
                for session in role.in_turn()
                if session.room > 0 and (is_plain or fits(session.instance, requirement))
            )
            return _by_record(role, list(islice(with_room, MAX_COMPARED)), avoid)
        best: Session | None = None
        least: tuple[bool, bool, float, str] | None = None
        compared = 0
        passed_over = False
        for session in role.in_turn():
            if session.room <= 0 or not (is_plain or fits(session.instance, requirement)):
                continue
            preference = _preference(session, avoid)
            if least is None or preference < least:
                best, least = session, preference
            passed_over |= preference[0]
            compared += 1
            if compared == MAX_COMPARED:
                break
        if best is None:
            return None
        if compared == 1:
            return Found(best, None)
        if passed_over and best.instance_id not in avoid:
            return Found(best, InstanceChoice("apart", compared))
        return Found(best, _LEAST_LOADED[compared])

    def roles(self) -> list[str]:
        """Returns the roles with a session."""
        return list(self._roles)

    def sessions_of(self, role: str) -> list[Session]:
        """Returns the sessions of a role."""
        known = self._roles.get(role)
        return list(known.sessions.values()) if known is not None else []

    def factors_changed(self, role: str) -> None:
        """Has to be called when the factors of the sessions of a role may have changed."""
        if (known := self._roles.get(role)) is not None:
            known.is_uneven = len({session.factor for session in known.sessions.values()}) > 1

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

    def resolve(self, tenant: str, role: str, capability: str) -> tuple[str, ...]:
        """The role, if it has an instance, and all roles of the tenant with an instance that offers the capability;
        sorted."""
        owner = tenant or DEFAULT_TENANT
        roles = {key for key in self._offering.get(capability, ()) if tenant_of(key) == owner}
        if role in self._roles:
            roles.add(role)
        return tuple(sorted(roles))


def fits(instance: Registration, requirement: Requirement) -> bool:
    """Whether the instance has the required key of a role, capability and version."""
    return (
        role_key(instance.tenant, instance.role) == requirement.role
        and (not requirement.capability or requirement.capability in _capability_ids(instance))
        and version_matches(instance.version, requirement.version)
    )


def _by_record(role: _Role, compared: list[Session], avoid: Collection[str]) -> Found | None:
    """Chooses by load and record; each SHARE-th time the session that has waited longest for a task."""
    if not compared:
        return None
    least_loaded = min(compared, key=lambda session: _preference(session, avoid))
    best = min(compared, key=lambda session: _weighed(session, avoid))
    role.decided += 1
    reason = "least_loaded" if best is least_loaded else "record"
    if not role.decided % SHARE:
        waiting = min(compared, key=lambda session: _waited(session, avoid))
        if waiting is not best:
            best, reason = waiting, "share"
    best.placed = role.decided
    if len(compared) == 1:
        return Found(best, None)
    if reason == "least_loaded":
        return Found(best, _LEAST_LOADED[len(compared)])
    ordered = sorted((session for session in compared if session is not best), key=lambda each: _weighed(each, avoid))
    shown = [best, *ordered[: MAX_CANDIDATES - 1]]
    return Found(best, InstanceChoice(reason, len(compared), tuple(map(_candidate, shown))))


def _candidate(session: Session) -> ComparedInstance:
    record, load, factor = session.record, round(session.load, 3), round(session.factor, 3)
    tasks = round(record.tasks, 1) if record is not None else 0.0
    if record is None or not tasks:
        return ComparedInstance(session.instance_id, load, factor)
    return ComparedInstance(
        session.instance_id,
        load,
        factor,
        tasks,
        round(record.success_rate, 3),
        round(record.mean_seconds, 3),
        record.p95_seconds,
        float(round(record.mean_cost)),
    )


_LEAST_LOADED: Final = [InstanceChoice("least_loaded", compared) for compared in range(MAX_COMPARED + 1)]


def _preference(session: Session, avoid: Collection[str]) -> tuple[bool, bool, float, str]:
    return session.instance_id in avoid, not session.registered, session.load, session.instance_id


def _weighed(session: Session, avoid: Collection[str]) -> tuple[bool, bool, float, str]:
    """As _preference, with the load weighed by the record: equal factors leave the order as it is."""
    load = (session.load + IDLE_LOAD) * session.factor
    return session.instance_id in avoid, not session.registered, load, session.instance_id


def _waited(session: Session, avoid: Collection[str]) -> tuple[bool, bool, int, str]:
    return session.instance_id in avoid, not session.registered, session.placed, session.instance_id


def _capability_ids(instance: Registration) -> set[str]:
    return {capability.id for capability in instance.capabilities}
