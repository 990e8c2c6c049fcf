"""A selection is remembered until the membership changes."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable, UnknownCapability, UnknownRole
from archon.registry import Capability, Edge, Graph, Registration, RegistryChange
from archon_services.orchestrator.roles import selection as module
from archon_services.orchestrator.roles.selection import RoleSelection

GRAPH = Graph(("a", "b", "c"), (Edge("a", "b"), Edge("b", "c")), 1)


class World:
    def __init__(self) -> None:
        self.alive: set[str] = set()
        self.selection = RoleSelection(lambda instance_id: instance_id in self.alive, grace=5.0)
        self.now = 100.0
        self.selection._membership._monotonic = lambda: self.now

    def snapshot(self, *instances: Registration, graph: Graph = GRAPH) -> None:
        self.selection.update(RegistryChange(1, True, instances, (), graph))


def instance(role: str, **more: object) -> Registration:
    return Registration(role, instance_id=role, **more)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    world = World()
    world.snapshot(instance("a"), instance("b"), instance("c"))
    return world


def test_before_the_first_message_nothing_is_selected() -> None:
    with pytest.raises(Unavailable):
        RoleSelection().choose((), (), {})


def test_the_same_arguments_give_the_same_selection(world: World) -> None:
    first = world.selection.choose(["a", "b"], [], {"a": "1.*"})
    assert first.roles == ("a", "b")
    assert world.selection.choose(["a", "b"], [], {"a": "1.*"}) is first
    assert world.selection.choose(["a", "b"], [], {"a": "2.*"}) is not first
    assert world.selection.choose(["a", "c"], [], {"a": "1.*"}).roles == ("a", "c")
    agent = world.selection.choose_agent(["a"], [], {})
    assert agent != world.selection.choose(["a"], [], {}), "an agent has targets"
    assert world.selection.choose_agent(["a"], [], {}) is agent


def test_a_change_of_the_registry_is_selected_from(world: World) -> None:
    assert world.selection.choose([], [], {}).roles == ("a", "b", "c")
    longer = Graph(("a", "b", "c", "d"), (*GRAPH.edges, Edge("c", "d")), 2)
    world.selection.update(RegistryChange(2, False, (instance("d"),), (), longer))
    assert world.selection.choose([], [], {}).roles == ("a", "b", "c", "d")
    assert world.selection.choose_agent(["a"], [], {}).targets[-1].role == "d"
    world.selection.update(RegistryChange(3, False, (), ("d",), GRAPH))
    assert world.selection.choose([], [], {}).roles == ("a", "b", "c")


def test_a_changed_instance_is_selected_from(world: World) -> None:
    assert not world.selection.choose([], [], {}).targets
    with pytest.raises(UnknownCapability):
        world.selection.choose([], ["x"], {})
    changed = instance("a", coordinator=True, capabilities=[Capability("x")])
    world.selection.update(RegistryChange(2, False, (changed,)))
    assert [target.role for target in world.selection.choose([], [], {}).targets] == ["a", "b", "c"]
    assert world.selection.choose([], ["x"], {}).roles == ("a",)


def test_the_end_of_a_grace_period_is_selected_from(world: World) -> None:
    world.alive = {"c"}
    world.selection.choose([], [], {})
    world.snapshot(instance("a"), instance("b"), graph=Graph(("a", "b"), GRAPH.edges[:1], 2))
    during_grace = world.selection.choose([], [], {})
    assert during_grace.roles == ("a", "b", "c"), "c is in its grace period"
    world.now += 4.9
    assert world.selection.choose([], [], {}) is during_grace
    world.now += 0.2
    assert world.selection.choose([], [], {}).roles == ("a", "b")
    with pytest.raises(UnknownRole):
        world.selection.choose(["c"], [], {})


def test_the_end_of_a_missed_session_is_selected_from(world: World) -> None:
    world.alive = {"c"}
    world.snapshot(instance("a"), instance("b"), graph=Graph(("a", "b"), GRAPH.edges[:1], 2))
    assert world.selection.choose([], [], {}).roles == ("a", "b", "c")
    world.alive = set()
    assert world.selection.choose([], [], {}).roles == ("a", "b")


def test_errors_are_raised_again_each_time(world: World) -> None:
    for _ in range(2):
        with pytest.raises(UnknownRole, match="available roles: a, b, c"):
            world.selection.choose(["x"], [], {})
        with pytest.raises(InvalidArgument):
            world.selection.choose(["a"], [], {"c": "1.*"})
        with pytest.raises(FailedPrecondition):
            world.selection.choose_agent([], [], {})


def test_the_number_of_kept_selections_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 3)
    for number in range(10):
        world.selection.choose(["a"], [], {"a": str(number)})
        assert len(world.selection._cache) <= 3


def test_a_plan_goes_to_all_roles_but_the_planner(world: World) -> None:
    world.snapshot(instance("a"), instance("b"), instance("planner"))
    chosen = world.selection.choose_plan("", [], [], {"a": "1.*"})
    assert chosen.roles == ("planner",)
    assert [target.role for target in chosen.plan_targets] == ["a", "b"]
    assert [(each.role, each.version) for each in chosen.requirements] == [("a", "1.*")]
    assert not chosen.edges


def test_a_plan_goes_to_the_roles_that_are_named(world: World) -> None:
    world.snapshot(instance("a"), instance("b", capabilities=(Capability("able"),)), instance("thinker"))
    chosen = world.selection.choose_plan("thinker", ["a"], ["able"], {})
    assert (chosen.roles, [target.role for target in chosen.plan_targets]) == (("thinker",), ["a", "b"])


def test_a_plan_needs_a_planner_and_a_role_with_instances(world: World) -> None:
    with pytest.raises(UnknownRole, match="planner"):
        world.selection.choose_plan("", [], [], {})
    world.snapshot(instance("planner"))
    with pytest.raises(UnknownRole, match="'a'"):
        world.selection.choose_plan("", ["a"], [], {})
    with pytest.raises(FailedPrecondition):
        world.selection.choose_plan("", [], [], {})
    world.snapshot(instance("planner"), instance("a"))
    with pytest.raises(InvalidArgument):
        world.selection.choose_plan("", ["a"], [], {"b": "1.0"})


def test_the_newest_version_of_a_role_is_what_a_planner_sees(world: World) -> None:
    old, new = Registration("a", instance_id="a1", version="1.9"), Registration("a", instance_id="a0", version="1.10")
    world.snapshot(new, old, instance("planner"))
    assert [target.version for target in world.selection.choose_plan("", [], [], {}).plan_targets] == ["1.10"]


def test_the_best_of_several_roles_with_a_capability_is_chosen(world: World) -> None:
    able = [Capability("text.summarise")]
    world.snapshot(instance("a", capabilities=able), instance("b", capabilities=able), instance("c"))
    assert world.selection.choose([], ["text.summarise"], {}).roles == ("a",), "the first by name"
    world.selection.best_role = max
    assert world.selection.choose([], ["text.summarise"], {}).roles == ("b",), "the choice is not remembered"
    with pytest.raises(UnknownCapability):
        world.selection.choose([], ["text.summarise", "text.translate"], {})
