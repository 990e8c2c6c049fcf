"""Which versions the roles of a run are pinned to."""

from __future__ import annotations

from archon.registry import Capability, Registration
from archon_mesh.engine.types import Requirement, Target
from archon_services.orchestrator.roles.pinning import pinned
from archon_services.orchestrator.roles.selection import Participants


def instance(role: str, version: str, *capabilities: str) -> Registration:
    return Registration(
        role=role,
        version=version,
        instance_id=f"{role}-{version}",
        capabilities=tuple(Capability(capability, capability) for capability in capabilities),
    )


def wants(*requirements: Requirement, targets: tuple[Target, ...] = ()) -> Participants:
    return Participants(("a", "b"), (), requirements, (), targets)


def test_each_role_is_pinned_to_its_newest_version() -> None:
    instances = [instance("a", "1.9"), instance("a", "1.10"), instance("b", "2"), instance("other", "3")]
    targets = (Target("c", "", False), Target("gone", "", False))
    chosen = pinned(wants(targets=targets), [*instances, instance("c", "0.1")])
    assert chosen.requirements == (Requirement("a", "", "1.10"), Requirement("b", "", "2"), Requirement("c", "", "0.1"))


def test_a_pinned_version_has_the_capability_that_is_needed() -> None:
    instances = [instance("a", "1", "draw"), instance("a", "2"), instance("b", "1")]
    assert pinned(wants(Requirement("a", "draw")), instances).requirements[0] == Requirement("a", "draw", "1")


def test_roles_without_a_version_keep_their_requirement() -> None:
    chosen = wants(Requirement("a", "", "9.*"))
    assert pinned(chosen, [instance("a", "1"), instance("b", "")]) == chosen
