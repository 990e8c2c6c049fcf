"""What can be asked of a state: pure."""

from __future__ import annotations

from collections.abc import Mapping

from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import UnknownCapability, UnknownRole
from archon_services.common.paging import make_token, read_token
from archon_services.common.versions import version_fits, version_key
from archon_services.registry.domain.state import State


def resolve(
    state: State, *, role: str = "", capability: str = "", version: str = "", tags: Mapping[str, str] | None = None
) -> list[Registration]:
    """Who can take a task, by role, newest version first, then instance_id. Empty where some live but none fits version
    and tags. Raises UnknownRole or UnknownCapability where none lives."""
    if role:
        living = [one for one in state.instances.values() if one.role == role]
        if not living:
            raise UnknownRole(f"no instance of the role {role} is alive", metadata={"role": role})
    else:
        living = [one for one in state.instances.values() if any(c.id == capability for c in one.capabilities)]
        if not living:
            raise UnknownCapability(
                f"no instance offers the capability {capability}", metadata={"capability": capability}
            )
    fitting = [
        one
        for one in living
        if version_fits(one.version, version) and all(one.tags.get(key) == value for key, value in (tags or {}).items())
    ]
    fitting.sort(key=lambda one: one.instance_id)
    fitting.sort(key=lambda one: version_key(one.version), reverse=True)
    fitting.sort(key=lambda one: one.role)
    return fitting


def page(state: State, *, role: str, size: int, token: str) -> tuple[list[Registration], str]:
    """One page of instances by role and instance_id, and the token of the next; empty after the last. Raises
    InvalidArgument (INVALID_PAGE_TOKEN)."""
    position = read_token(token, "instances", role) or ["", ""]
    after = (position[0], position[1])
    rest = sorted(
        (one for one in state.instances.values() if role in ("", one.role) and (one.role, one.instance_id) > after),
        key=lambda one: (one.role, one.instance_id),
    )
    found = rest[:size]
    if len(rest) <= size:
        return found, ""
    return found, make_token([found[-1].role, found[-1].instance_id], "instances", role)
