"""The principal of a read-only link to a run."""

from __future__ import annotations

from archon.principal import Kind, Principal


def link_principal(run_id: str, sharer: str, tenant: str, expires: float) -> Principal:
    """Returns the principal of a link: its one role is the run that it leads to. `expires` is in wall seconds."""
    return Principal(Kind.VIEWER, sharer, tenant, frozenset({run_id}), expires)
