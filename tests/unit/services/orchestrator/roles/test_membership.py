"""A lost instance whose session continues counts as alive for a grace period, and the graph is kept with it."""

from __future__ import annotations

from archon.registry import Graph, Registration, RegistryChange
from archon_services.orchestrator.roles.membership import GRACE, Membership


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.alive: set[str] = set()
        self.membership = Membership(lambda name: name in self.alive, lambda: self.now)

    def snapshot(self, *roles: str) -> None:
        """A snapshot of the registry, as after a reconnect."""
        instances = tuple(Registration(role, instance_id=role) for role in roles)
        self.membership.update(RegistryChange(1, True, instances, (), Graph(revision=1, roles=roles)))

    @property
    def roles(self) -> set[str]:
        return set(self.membership.instances)


def test_a_lost_instance_with_a_session_counts_as_alive() -> None:
    world = World()
    world.snapshot("a", "b", "c")
    world.alive = {"a", "b"}
    world.snapshot("b")
    assert world.roles == {"a", "b"}
    assert set(world.membership.registered) == {"b"}
    assert list(world.membership.graph.roles) == ["a", "b", "c"], "the graph as it stood"
    world.alive = {"b"}
    assert world.roles == {"b"}
    assert list(world.membership.graph.roles) == ["b"]


def test_the_grace_of_a_lost_instance_ends() -> None:
    world = World()
    world.snapshot("a", "b")
    world.alive = {"a", "b"}
    world.snapshot("b")
    world.now += GRACE
    assert world.roles == {"b"}


def test_the_current_graph_returns_with_all_instances() -> None:
    world = World()
    world.snapshot("a", "b")
    world.alive = {"a", "b"}
    world.snapshot()
    world.snapshot("b")
    assert list(world.membership.graph.roles) == ["a", "b"], "also over several changes"
    world.snapshot("a", "b", "d")
    assert list(world.membership.graph.roles) == ["a", "b", "d"]


def test_a_removal_gets_the_same_grace_as_a_snapshot() -> None:
    world = World()
    world.snapshot("a", "b")
    world.alive = {"b"}
    world.membership.update(RegistryChange(2, False, (), ("a", "b"), Graph(revision=2)))
    assert world.roles == {"b"}


def registered(membership: Membership, *instances: Registration) -> tuple[str, ...]:
    return membership.update(RegistryChange(2, False, instances))


def test_an_instance_that_offers_what_others_offer_changes_no_version() -> None:
    membership = World().membership
    registered(membership, Registration("a", "1", instance_id="a1"))
    version = membership.version
    registered(membership, Registration("a", "1", instance_id="a2", address="host:2"))
    assert (membership.version, len(membership.offers), len(membership.instances)) == (version, 1, 2)
    registered(membership, Registration("a", "2", instance_id="a3"))
    assert (membership.version > version, len(membership.offers)) == (True, 2)


def test_an_offer_ends_with_the_last_instance_that_makes_it() -> None:
    world = World()
    registered(world.membership, *(Registration("a", instance_id=name) for name in ("a1", "a2")))
    registered(world.membership, Registration("b", instance_id="b1"))
    for removed, roles in (("a1", {"a", "b"}), ("a2", {"b"})):
        assert world.membership.update(RegistryChange(3, False, (), (removed,))) == (removed,)
        assert {offer.role for offer in world.membership.offers} == roles


def test_a_changed_instance_makes_its_new_offer_only() -> None:
    membership = World().membership
    registered(membership, Registration("a", "1", instance_id="a1"))
    registered(membership, Registration("a", "2", instance_id="a1"))
    assert [offer.version for offer in membership.offers] == ["2"]


def test_a_snapshot_names_the_instances_that_are_gone() -> None:
    membership = World().membership
    registered(membership, *(Registration("a", instance_id=name) for name in ("a1", "a2", "a3")))
    kept = Registration("a", instance_id="a2")
    assert set(membership.update(RegistryChange(9, True, (kept,)))) == {"a1", "a3"}
    assert membership.update(RegistryChange(10, False, (), ("unknown",))) == ()
