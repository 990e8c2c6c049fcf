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
