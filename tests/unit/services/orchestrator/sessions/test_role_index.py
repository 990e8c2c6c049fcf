"""Sessions by role: which instances fit a requirement, and how the index follows their registrations."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from archon.registry import Capability, Registration
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.sessions import Limits, Session
from archon_services.orchestrator.sessions.role_index import MAX_COMPARED, RoleIndex, fits
from tests.unit.services.orchestrator.sessions.inbox import Inbox


def session(instance_id: str, role: str = "designer", *capabilities: str, stateful: bool = False) -> Session:
    """A session without a stream."""
    return Session(
        orchestrator_id="o",
        instance=Registration(
            role, instance_id=instance_id, capabilities=[Capability(name) for name in capabilities], stateful=stateful
        ),
        inbox=Inbox(),
        room_changed=lambda session: None,
        unneeded=lambda instance_id: None,
        resolve=lambda role, capability: (),
        may_send=lambda: True,
        limits=Limits(),
    )


def best(index: RoleIndex, requirement: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Session | None:
    found = index.choose(requirement, avoid, prefer)
    return found.session if found is not None else None


@pytest.mark.parametrize(
    ("version", "wanted", "fit"),
    [
        ("1.2.3", "", True),
        ("", "", True),
        ("1.2.3", "1.2.3", True),
        ("1.2", "1.2.0", True),
        ("1.2.3", "1.2", False),
        ("1.2.3", "1.*", True),
        ("1.2.3", "1.2.*", True),
        ("1.20.3", "1.2.*", False),
        ("10.0", "1.*", False),
        ("", "1.*", False),
        ("1", "1.0.*", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, fit: bool) -> None:
    instance = Registration(role="designer", version=version)
    assert fits(instance, Requirement("designer", version=wanted)) is fit


def test_role_and_capability_must_both_fit() -> None:
    instance = Registration(role="designer", capabilities=[Capability("design.components")])
    assert fits(instance, Requirement("designer"))
    assert fits(instance, Requirement("designer", "design.components"))
    assert not fits(instance, Requirement("designer", "design.databases"))
    assert not fits(instance, Requirement("writer", "design.components"))


def test_an_index_finds_the_sessions_of_one_role_only() -> None:
    index = RoleIndex()
    sessions = [session("a"), session("b"), session("c", "writer", "poems")]
    for entry in sessions:
        entry.connected, entry._window = True, 1
        index.add(entry)
    assert best(index, Requirement("designer")) is sessions[0]
    assert best(index, Requirement("writer", "poems")) is sessions[2]
    assert best(index, Requirement("writer", "prose")) is None
    assert best(index, Requirement("absent")) is None
    index.remove(sessions[0])
    assert best(index, Requirement("designer")) is sessions[1]


def test_an_instance_to_avoid_is_taken_if_there_is_no_other() -> None:
    index = RoleIndex()
    sessions = [session("a"), session("b")]
    for entry in sessions:
        entry.connected, entry._window = True, 1
        index.add(entry)
    sessions[1].registered = False
    assert best(index, Requirement("designer"), "a") is sessions[1]
    assert best(index, Requirement("designer"), "b") is sessions[0]
    index.remove(sessions[1])
    assert best(index, Requirement("designer"), "a") is sessions[0]


def test_a_role_is_stateful_while_one_instance_is() -> None:
    index = RoleIndex()
    plain, stateful = session("a"), session("b", stateful=True)
    index.add(plain)
    assert not index.stateful("designer")
    index.add(stateful)
    assert index.stateful("designer")
    assert not index.stateful("writer")
    index.remove(stateful)
    assert not index.stateful("designer")


def test_a_capability_resolves_to_the_roles_that_offer_it() -> None:
    index = RoleIndex()
    sessions = [session("a", "writer", "poems"), session("b", "bard", "poems", "songs"), session("c", "bard", "poems")]
    for entry in sessions:
        index.add(entry)
    assert index.resolve("", "", "poems") == ("bard", "writer")
    assert index.resolve("", "bard", "") == ("bard",)
    assert index.resolve("", "absent", "") == ()
    index.remove(sessions[1])
    assert (index.resolve("", "", "poems"), index.resolve("", "", "songs")) == (("bard", "writer"), ())
    index.remove(sessions[2])
    assert (index.resolve("", "", "poems"), index.resolve("", "bard", "")) == (("writer",), ())


def test_a_changed_registration_is_indexed_again() -> None:
    index = RoleIndex()
    changing = session("a")
    changing.connected, changing._window = True, 1
    index.add(changing)
    index.replace(changing, Registration("designer", "2.0", instance_id="a", capabilities=[Capability("x")]))
    assert best(index, Requirement("designer", "x", "2.*")) is changing
    assert (index.resolve("", "", "x"), index.stateful("designer")) == (("designer",), False)
    index.replace(changing, Registration("designer", "2.0", instance_id="a", stateful=True))
    assert (index.resolve("", "", "x"), index.stateful("designer")) == ((), True)
    index.remove(changing)
    assert (index.resolve("", "designer", ""), index.stateful("designer")) == ((), False)


def ready(instance_id: str, slots: int) -> Session:
    """A session with so many free slots."""
    connected = session(instance_id)
    connected.connected, connected._window = True, slots
    return connected


def test_the_least_loaded_of_a_few_sessions_is_best() -> None:
    index = RoleIndex()
    sessions = [ready(f"designer-{number}", 4) for number in range(MAX_COMPARED)]
    for added in sessions:
        index.add(added)
        added.reserved = 2
    sessions[11].reserved = 1
    assert best(index, Requirement("designer")) is sessions[11]
    sessions[11].registered = False
    assert best(index, Requirement("designer")) is sessions[0], "an instance that is registered goes first"


def test_a_placement_among_many_sessions_compares_a_few() -> None:
    index = RoleIndex()
    looked_at: list[str] = []

    class Watched(Session):
        @property
        def room(self) -> int:
            looked_at.append(self.instance_id)
            return super().room

    sessions = [ready(f"designer-{number}", 2) for number in range(200)]
    for added in sessions:
        index.add(added)
        added.__class__ = Watched
    for _ in range(200):
        found = best(index, Requirement("designer"))
        assert found is not None
        found.reserved += 1
    assert len(looked_at) <= 200 * (MAX_COMPARED + 2)
    assert {added.reserved for added in sessions} <= {0, 1, 2}
    assert sum(added.reserved > 0 for added in sessions) > 150, "the load is spread"


def test_the_only_free_slot_among_many_sessions_is_found() -> None:
    index = RoleIndex()
    sessions = [ready(f"designer-{number}", 0) for number in range(100)]
    for added in sessions:
        index.add(added)
    assert best(index, Requirement("designer")) is None
    sessions[70]._window = 1
    assert best(index, Requirement("designer")) is sessions[70]


def test_sessions_without_a_connection_are_not_looked_at() -> None:
    index = RoleIndex()
    sessions = [
        Session(
            orchestrator_id="o",
            instance=Registration("designer", instance_id=f"designer-{number}"),
            inbox=Inbox(),
            room_changed=lambda session: None,
            unneeded=lambda instance_id: None,
            resolve=lambda role, capability: (),
            may_send=lambda: True,
            limits=Limits(),
            connection_changed=index.connection_changed,
        )
        for number in range(100)
    ]
    for added in sessions:
        index.add(added)
    assert best(index, Requirement("designer")) is None
    assert list(index._roles["designer"].in_turn()) == []
    for added in sessions[:3]:
        added.connected, added._window = True, 1
    assert set(index._roles["designer"].in_turn()) == set(sessions[:3])
    sessions[0].connected = False
    index.remove(sessions[2])
    assert list(index._roles["designer"].in_turn()) == [sessions[1]]
    assert best(index, Requirement("designer")) is sessions[1]
    sessions[2].connected = False  # it is no longer in the index
    assert list(index._roles["designer"].in_turn()) == [sessions[1]]


def test_the_standing_of_a_requirement_counts_what_is_registered_and_what_is_connected() -> None:
    index = RoleIndex()
    for instance in (ready("d-1", 1), session("d-2"), session("d-3", "designer", "draws")):
        index.add(instance)
    assert index.standing(Requirement("designer")) == (3, 1)
    assert index.standing(Requirement("designer", "draws")) == (1, 0)
    assert index.standing(Requirement("absent")) == (0, 0)
