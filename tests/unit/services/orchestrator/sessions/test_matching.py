"""Which instances may take a task: by role, capability and version."""

from __future__ import annotations

import pytest

from archon.registry import Capability, Registration
from archon_mesh.core.run.types import Requirement
from archon_services.orchestrator.sessions.matching import fits


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
