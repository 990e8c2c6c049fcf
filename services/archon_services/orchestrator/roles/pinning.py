"""Pins the roles of a run to the versions that their newest instances have as it is submitted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from archon.registry import Registration
from archon_mesh.engine.types import Requirement
from archon_services.common.versions import version_key, version_matches
from archon_services.orchestrator.roles.selection import Participants


def pinned(chosen: Participants, instances: Iterable[Registration]) -> Participants:
    """Returns the participants with a requirement for each role: the newest version of its instances that meet the
    requirement that it has. Leaves a role as it is if it has no such instance, or one without a version."""
    wants = {want.role: want for want in chosen.requirements}
    roles = {
        *chosen.roles,
        *(target.role for target in chosen.targets),
        *(instance.role for instance in chosen.plan_targets),
    }
    newest: dict[str, str] = {}
    for instance in instances:
        want = wants.get(instance.role)
        if want is not None and not _meets(instance, want):
            continue
        if version_key(instance.version) > version_key(newest.get(instance.role, "")):
            newest[instance.role] = instance.version
    for role in roles:
        if role in newest:
            wants[role] = replace(wants.get(role) or Requirement(role), version=newest[role])
    return replace(chosen, requirements=tuple(wants[role] for role in sorted(wants)))


def _meets(instance: Registration, want: Requirement) -> bool:
    offers = not want.capability or any(capability.id == want.capability for capability in instance.capabilities)
    return offers and version_matches(instance.version, want.version)
