"""Which instances may take a task."""

from __future__ import annotations

from archon.registry import Registration
from archon_mesh.core.run.types import Requirement
from archon_services.common.versions import version_matches


def fits(instance: Registration, want: Requirement) -> bool:
    """By role, capability and version."""
    return (
        instance.role == want.role
        and (not want.capability or any(one.id == want.capability for one in instance.capabilities))
        and version_matches(instance.version, want.version)
    )
